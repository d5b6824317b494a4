"""A job on a YARN of this machine, in client mode; run as a program, it prints one line of JSON with what it saw.

A process can have one Spark, and that of the live tests runs on a standalone cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

TIMES_OUT_S = 300.0
EXECUTOR = "YarnCoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Course:
    """What happens to the job."""

    slots: int
    """How many executors the queue has room for."""
    most: int
    """How many the autoscaler may request."""
    workload: str
    seconds: float
    policy: str = "reactive"
    settings: dict[str, float] = field(default_factory=dict)
    kills: bool = False
    """Whether an executor is killed while there are as many as fit."""
    shrinks: bool = True
    """Whether the job is to shrink to one executor again."""


def run_there(course: Course) -> dict[str, object]:
    """Run a course in a process of its own, and return what it saw."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __name__, json.dumps(asdict(course))],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=TIMES_OUT_S + 120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_here(course: Course) -> dict[str, object]:
    """Run a course, from the start of YARN to its end."""
    import headgate
    from headgate.apps.steady_job import SteadyJob
    from headgate.journal.writer import SqliteJournal
    from headgate.local.spark.yarn import LocalYarn

    with tempfile.TemporaryDirectory(prefix="headgate-yarn-job-") as folder, LocalYarn(course.slots) as yarn:
        spark = yarn.session("yarn", 1, {"spark.sql.shuffle.partitions": "2"})
        job = SteadyJob(
            Path(folder),
            course.workload,
            course.seconds,
            cost_s=0.025,
            trigger_interval_s=1.0,
            partitions=6,
            max_rows_per_batch=150,
        )
        journal = Path(folder, "run.db")
        sizes: list[tuple[float, int, int]] = []
        killed = 0
        query = job.start(spark)
        with headgate.autoscale(
            spark,
            "latency p95 < 4s",
            course.policy,
            executors=(1, course.most),
            settings=course.settings,
            interval=1.0,
            journal=journal,
        ) as autoscaler:
            autoscaler.watch(
                lambda seen, _: (
                    sizes.append((seen.at_s, seen.instances["job"].planned, seen.instances["job"].ready))
                    if seen
                    else None
                )
            )
            _until(lambda: bool(sizes) and sizes[-1][2] == course.slots)
            if course.kills:
                victim = executors()[0]
                victim.kill()
                killed = victim.pid
                _until(lambda: killed not in {process.pid for process in executors()})
                count = len(sizes)
                _until(lambda: sizes[-1][2] == course.slots and len(sizes) > count + 3)
            if course.shrinks:
                _until(lambda: sizes[-1][1:] == (1, 1))
            elif course.most > course.slots:
                _until(lambda: sizes[-1][1] == course.slots)
            query.processAllAvailable()
        query.stop()
        output = job.check(spark)
        spark.stop()
        with closing(SqliteJournal.read(journal)) as reader:
            notes = [
                note.why
                for decision in reader.decisions()
                for note in decision.verdicts["job"].notes
                if note.guard == "attainable" and note.before != note.after
            ]
            events = [event.kind for event in reader.events()]
        directory = str(yarn.directory)
    _until(lambda: not Path(directory).exists())
    return {
        "records": output.records,
        "expected": output.expected,
        "is_exact": output.is_exact,
        "most_ready": max(ready for _, _, ready in sizes),
        "planned": [planned for _, planned, _ in sizes],
        "last": sizes[-1][1:],
        "killed": killed,
        "attainable": notes[:1],
        "events": events,
        "left_over": [process.pid for process in executors()] + [str(directory)] * Path(directory).exists(),
    }


def executors() -> list[psutil.Process]:
    """The executors in containers of this machine that belong to this run."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if command and command[0].endswith("java") and any(EXECUTOR in part for part in command):
            found.append(process)
    return found


def _until(is_so: Callable[[], bool]) -> None:
    until_s = time.monotonic() + TIMES_OUT_S
    while not is_so():
        if time.monotonic() > until_s:
            raise TimeoutError("it did not get there")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(run_here(Course(**json.loads(sys.argv[1]))))}\n")
