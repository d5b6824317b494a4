"""Jobs on a real YARN: they grow and shrink, survive faults, and say what a queue does not give them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from headgate.core.errors import HeadgateError
from headgate.local.jars import pinned
from headgate.local.spark.yarn import LocalYarn, yarn_jars
from tests.live.cluster_job import TIMES_OUT_S, Course, RunningJob, start_here, write_course
from tests.live.proved_runs import finish_and_note

QUICK = {"idle_for_s": 6.0, "drain_within_s": 15.0}
"""Settings of the policy, so that a test need not wait for minutes."""
EXECUTOR, MASTER, NODE = "YarnCoarseGrainedExecutorBackend", "ExecutorLauncher", "NodeManager"
TWO_QUEUES = {
    "yarn.scheduler.capacity.root.queues": "default,other",
    "yarn.scheduler.capacity.root.default.capacity": "40",
    "yarn.scheduler.capacity.root.other.capacity": "60",
    "yarn.scheduler.capacity.root.default.maximum-capacity": "100",
    "yarn.scheduler.capacity.root.default.user-limit-factor": "10",
    "yarn.scheduler.capacity.root.other.user-limit-factor": "10",
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    "yarn.resourcemanager.monitor.capacity.preemption.monitoring_interval": "1000",
    "yarn.resourcemanager.monitor.capacity.preemption.max_wait_before_kill": "2000",
    "yarn.resourcemanager.monitor.capacity.preemption.natural_termination_factor": "1.0",
    "yarn.resourcemanager.monitor.capacity.preemption.total_preemption_per_round": "1.0",
}
"""What one queue has more than its share is taken from it when the other wants it."""
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]


@pytest.fixture(autouse=True, scope="module")
def _jars() -> None:
    try:
        yarn_jars()
    except HeadgateError as error:
        pytest.skip(str(error))


@contextmanager
def yarn_with(slots: int, settings: dict[str, str] | None = None) -> Iterator[LocalYarn]:
    """A YARN of which nothing is left afterwards."""
    with LocalYarn(slots, settings=settings) as yarn:
        directory = yarn.directory
        yield yarn
    wait_until(lambda: not directory.exists() and not processes(EXECUTOR) and not processes(MASTER))


def processes(name: str) -> list[psutil.Process]:
    """The JVMs of this machine that run a class of a name; the shells that start them are none."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if command and command[0].endswith("java") and any(name in part for part in command):
            found.append(process)
    return found


@contextmanager
def job_on(yarn: LocalYarn, folder: Path, course: Course, queue: str = "default") -> Iterator[RunningJob]:
    """Run a job in client mode, and end it with the block."""
    folder.mkdir(exist_ok=True)
    settings = yarn.settings() | {"spark.sql.shuffle.partitions": "2", "spark.yarn.queue": queue}
    job = start_here(folder, course, "yarn", settings, os.environ | {"HADOOP_CONF_DIR": str(yarn.configuration)})
    try:
        yield job
    finally:
        job.kill()


def nodes_in(yarn: LocalYarn, state: str) -> int:
    with urllib.request.urlopen(f"{yarn.web_url}/ws/v1/cluster/nodes?states={state}", timeout=10) as answer:
        return len((json.load(answer)["nodes"] or {"node": ()})["node"])


def wait_until(is_so: Callable[[], bool]) -> None:
    until_s = time.monotonic() + TIMES_OUT_S
    while not is_so():
        assert time.monotonic() < until_s, "it did not get there"
        time.sleep(0.2)


def finished(job: RunningJob, course: str) -> None:
    finish_and_note(job, f"YARN {pinned('yarn').version}", course)


def test_a_job_grows_survives_a_kill_and_shrinks_without_losing_a_record(tmp_path: Path) -> None:
    course = Course("spike:base=15,peak=90,at=5s,width=40s", 75.0, most=3, policy="reactive", settings=QUICK)
    with yarn_with(slots=3) as yarn, job_on(yarn, tmp_path / "job", course) as job:
        job.until_ready(3)
        processes(EXECUTOR)[0].kill()
        job.until(lambda sizes: sizes[-1].ready < 3, "a killed executor is noticed")
        job.until_ready(3)
        job.until_ready(1)
        finished(job, "it grows to 3; an executor is killed by SIGKILL; it shrinks to 1")


def test_a_full_queue_gives_what_there_is_and_the_plan_follows(tmp_path: Path) -> None:
    course = Course("constant:15", 60.0, most=5, settings={"instances": 5})
    with yarn_with(slots=2) as yarn, job_on(yarn, tmp_path / "job", course) as job:
        job.until(lambda sizes: sizes[-1].planned == 5 and sizes[-1].ready == 2, "two of five")
        job.until_ready(2)
        assert any("the queue 'default' is full" in size.missing_why for size in job.sizes)
        assert "the queue 'default' is full" in job.reasons()[0]
        assert "the queue 'default' is full" in dict(job.events())["executors-missing"]
        finished(job, "a queue has room for 2 of 5")


def test_a_new_application_master_gets_the_size_that_the_job_had(tmp_path: Path) -> None:
    """Spark itself requests only what the session was started with."""
    course = Course("constant:15", 60.0, most=3, settings={"instances": 3})
    with yarn_with(slots=3) as yarn, job_on(yarn, tmp_path / "job", course) as job:
        job.until_ready(3)
        (before,) = processes(MASTER)
        before.kill()
        job.until(lambda sizes: sizes[-1].ready < 3, "executors leave with their master")
        job.until_ready(3)
        (after,) = processes(MASTER)
        assert after.pid != before.pid
        finished(job, "the ApplicationMaster is killed by SIGKILL; another has the size of the plan")


def test_a_node_that_is_lost_for_a_while_comes_back_with_all_executors(tmp_path: Path) -> None:
    course = Course("constant:15", 60.0, most=2, settings={"instances": 2})
    with yarn_with(slots=2) as yarn, job_on(yarn, tmp_path / "job", course) as job:
        job.until_ready(2)
        (node,) = processes(f".{NODE}")
        node.send_signal(signal.SIGSTOP)
        # Executors go on meanwhile: the driver reaches them, and only their node can end them.
        wait_until(lambda: nodes_in(yarn, "LOST") == 1)
        node.send_signal(signal.SIGCONT)
        job.until(lambda sizes: sizes[-1].ready < 2, "a node that comes back ends its containers")
        job.until_ready(2)
        finished(job, "the only NodeManager is silent until it counts as lost, and comes back")


def test_executors_that_another_queue_takes_are_given_back_later(tmp_path: Path) -> None:
    mine = Course("constant:15", 60.0, most=4, settings={"instances": 4})
    others = Course("constant:15", 10.0, most=2, settings={"instances": 2})
    with yarn_with(slots=5, settings=TWO_QUEUES) as yarn, job_on(yarn, tmp_path / "mine", mine) as job:
        job.until_ready(4)
        with job_on(yarn, tmp_path / "other", others, queue="other") as other:
            other.until_ready(2)
            job.until(lambda sizes: sizes[-1].ready < 4, "executors are taken")
            other.finish()
        job.until_ready(4)
        finished(job, "another queue takes executors (preemption), and gives them back")


def test_a_driver_in_the_cluster_scales(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    course = Course("spike:base=15,peak=90,at=5s,width=40s", 75.0, most=3, policy="reactive", settings=QUICK)
    shutil.copy(Path(__file__).with_name("cluster_job.py"), folder / "job.py")
    with yarn_with(slots=3) as yarn:
        yarn.submit(folder / "job.py", [str(write_course(folder, course))])
        job = RunningJob(folder, None)
        job.until_ready(3)
        job.until_ready(1)
        finished(job, "cluster mode: it grows to 3 and drains to 1")
