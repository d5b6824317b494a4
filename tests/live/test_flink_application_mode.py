"""A Flink job that is a cluster of its own (application mode) is scaled like any other."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path

import pytest

import headgate.apps.payloads  # noqa: F401 - registers them
from headgate.apps.flink.programs import SLOW_MIDDLE, SubmittedJob
from headgate.apps.flink.sources import TopicRecords
from headgate.apps.flink.submission import COMPILER
from headgate.core.errors import EngineError
from headgate.core.types import Event
from headgate.engines.flink import FlinkEngine
from headgate.local import flink_settings
from headgate.local.flink_rest import flink_response
from headgate.local.kafka import LocalKafka
from headgate.local.machine import LOOPBACK, QUICK_START, flink_home, free_ports, java
from headgate.research.flink.run import ControllerRecord
from headgate.runtime.autoscaler import autoscale_engine
from headgate.runtime.loop import SystemClock
from tests.live.support import eventually
from tests.live.test_flink_changes import OBJECTIVE, QUICK, fed
from tests.live.test_flink_policies import MIDDLE, SOURCE

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

JOB, TASK_MANAGERS, COST_MS = "on-its-own", 4, 5.0
APPLICATION = """
package headgate;

import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;

public class Application {
    public static void main(String[] arguments) throws Exception {
        TableEnvironment tables = TableEnvironmentImpl.create(EnvironmentSettings.newInstance()
            .inStreamingMode().build());
        String[] statements = Files.readString(Paths.get(arguments[0], new String[0])).split(";\\\\s*\\n");
        for (int i = 0; i < statements.length; i++) {
            tables.executeSql(statements[i]);
        }
    }
}
"""
WITHOUT_COORDINATOR = ("high-availability", "zookeeper")


@pytest.fixture
def url(kafka: LocalKafka, tmp_path: Path) -> Iterator[str]:
    """A JobManager whose program is the job, and TaskManagers of one slot; gives its address."""
    kafka.create_topic(JOB, TASK_MANAGERS)
    job = SubmittedJob(SLOW_MIDDLE, TopicRecords(kafka.bootstrap, JOB), JOB, cost_ms=COST_MS)
    web_port, port = free_ports(2)
    cluster = flink_settings.settings(str(tmp_path), web_port, port, 0, 1)
    settings = {name: value for name, value in cluster.items() if not name.startswith(WITHOUT_COORDINATOR)}
    (tmp_path / "config.yaml").write_text(json.dumps({**settings, **job.settings()}))
    (tmp_path / "log4j.properties").write_text(flink_settings.LOGGING)
    (tmp_path / "job.sql").write_text(job.sql())
    path = os.pathsep.join([f"{flink_home()}/lib/*", str(compiled(tmp_path)), *map(str, job.jars())])
    with ExitStack() as stopped:

        def start(name: str, options: tuple[str, ...], main_class: str, *arguments: str) -> None:
            log = stopped.enter_context((tmp_path / f"{name}.log").open("wb"))
            logging = f"-Dlog4j.configurationFile={tmp_path}/log4j.properties"
            command = [java(needed_by="Flink"), *options, *flink_settings.OPENS, *QUICK_START, logging, "-cp", path]
            command += [main_class, "--configDir", str(tmp_path), *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stopped.callback(process.wait)
            stopped.callback(process.kill)

        entry = "org.apache.flink.container.entrypoint.StandaloneApplicationClusterEntryPoint"
        program = ("--job-classname", "headgate.Application", str(tmp_path / "job.sql"))
        start("jobmanager", (f"-Xmx{flink_settings.JOBMANAGER_HEAP_MB}m",), entry, *program)
        memory = flink_settings.TaskManagerMemory(1).java_options()
        for number in range(TASK_MANAGERS):
            start(f"taskmanager-{number}", memory, "org.apache.flink.runtime.taskexecutor.TaskManagerRunner")
        yield f"http://{LOOPBACK}:{web_port}"


def compiled(folder: Path) -> Path:
    classes = folder / "classes"
    classes.mkdir()
    (folder / "Application.java").write_text(APPLICATION)
    path = os.pathsep.join(map(str, sorted(Path(flink_home(), "lib").glob("*.jar"))))
    with as_file(files("headgate.apps.flink").joinpath("java", "Spent.java")) as spent:
        command = [java(needed_by="Flink"), "-cp", path, COMPILER, "-d", str(classes), "-classpath", path]
        subprocess.run([*command, str(folder / "Application.java"), str(spent)], check=True, capture_output=True)
    return classes


def is_at_work(url: str) -> bool:
    try:
        jobs = flink_response(url, "jobs/overview")["jobs"]
        return any(job["name"] == JOB and job["state"] == "RUNNING" and job["tasks"]["running"] > 2 for job in jobs)
    except EngineError:
        return False


def ready(seen: ControllerRecord, operator: str) -> int:
    return seen.observations[-1].instances[operator].ready if seen.observations else 0


def test_a_job_in_application_mode_is_scaled(url: str, kafka: LocalKafka) -> None:
    clock, seen, events = SystemClock(), ControllerRecord(), list[Event]()
    eventually("the job", lambda: is_at_work(url), 90.0)
    engine = FlinkEngine(f"{url}#{JOB}", clock.now, most=TASK_MANAGERS, late_after_s=10)
    with (
        fed(kafka, JOB, "constant:400"),
        autoscale_engine(
            engine,
            objective=OBJECTIVE,
            policy="ds2",
            settings=QUICK,
            interval=2.0,
            clock=clock,
            watchers=[seen],
            event_watchers=[events.append],
        ),
    ):
        eventually("the middle to grow", lambda: ready(seen, MIDDLE) >= 3, 120.0)
        eventually("an event of it", lambda: "rescaled" in [event.kind for event in events], 30.0)
    assert seen.observations[-1].instances[SOURCE].planned == 1
    assert is_at_work(url), "it is the same job, at another size"
