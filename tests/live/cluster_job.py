"""A job on a cluster whose driver is this program, here or in a container; its argument is the file of a course.

It writes its sizes into its folder as they change, and its results when the file ``finish`` has appeared there.
A process can have one Spark, and that of the live tests runs on a standalone cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TIMES_OUT_S = 240.0
SIZES, FINISH, RESULT = "sizes.jsonl", "finish", "result.json"


@dataclass(frozen=True)
class Course:
    """What the job does."""

    workload: str
    seconds: float
    most: int
    """How many executors the autoscaler may request."""
    policy: str = "static"
    settings: dict[str, float] = field(default_factory=dict)
    mode: str = "act"


def write_course(folder: Path, course: Course, master: str = "", session: Mapping[str, str] | None = None) -> Path:
    """Write the file of a course into its folder, which all containers see.

    A driver that is submitted has its master and the settings of its session already.
    """
    file = folder / "course.json"
    file.write_text(json.dumps({"course": asdict(course), "master": master, "session": dict(session or {})}))
    return file


def main() -> None:
    import headgate
    from headgate.apps.steady_job import SteadyJob
    from headgate.core.types import Decision, Observation
    from headgate.engines.spark.backend import SparkBackend
    from headgate.local.spark.cluster import plain_session

    folder, given = Path(sys.argv[1]).parent, json.loads(Path(sys.argv[1]).read_text())
    course = Course(**given["course"])
    if given["master"]:
        spark = plain_session(given["master"], "job", given["session"], folder / "driver.log")
    else:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    # A driver that is started again continues with the load of the first.
    started = folder / "started"
    if not started.exists():
        started.write_text(str(time.time()))
    job = SteadyJob(
        folder,
        course.workload,
        course.seconds,
        cost_s=0.025,
        trigger_interval_s=1.0,
        partitions=6,
        max_rows_per_batch=150,
        load_starts_s=float(started.read_text()),
    )
    last = (0, 0, 0, "")

    def watch(seen: Observation | None, _: Decision | None) -> None:
        nonlocal last
        if seen is None:
            return
        size = seen.instances["job"]
        now = (size.planned, size.requested, size.ready, size.missing_why)
        if now != last:
            last = now
            with (folder / SIZES).open("a") as file:
                file.write(f"{json.dumps([seen.at_s, *last])}\n")

    query = job.start(spark)
    with headgate.autoscale(
        spark,
        "latency p95 < 4s",
        course.policy,
        executors=(1, course.most),
        settings=course.settings,
        interval=1.0,
        journal=folder / "run.db",
        mode=course.mode,
    ) as autoscaler:
        autoscaler.watch(watch)
        while not (folder / FINISH).exists():
            if query.exception() is not None:
                break
            time.sleep(0.2)
        query.processAllAvailable()
    query.stop()
    output = job.check(spark)
    failed_tasks = sum(executor.failed_tasks for executor in SparkBackend(spark, take_over=None).executors())
    found = {**asdict(output), "is_exact": output.is_exact, "failed_tasks": failed_tasks}
    (folder / f"{RESULT}.new").write_text(json.dumps(found))
    (folder / f"{RESULT}.new").replace(folder / RESULT)
    spark.stop()


@dataclass(frozen=True)
class Size:
    """The size of the job from a moment on."""

    at_s: float
    planned: int
    requested: int
    ready: int
    missing_why: str


class RunningJob:
    """The job from the side of a test: its sizes, its decisions, its end."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes] | None) -> None:
        self.folder = folder
        self._process = process

    @property
    def sizes(self) -> list[Size]:
        file = self.folder / SIZES
        lines = file.read_text().splitlines() if file.exists() else []
        return [Size(*json.loads(line)) for line in lines]

    def until(self, is_so: Callable[[list[Size]], bool], what: str, within_s: float = TIMES_OUT_S) -> list[Size]:
        """Wait until something is so of its sizes, and return them."""
        until_s = time.monotonic() + within_s
        while True:
            sizes = self.sizes
            if sizes and is_so(sizes):
                return sizes
            if self._process is not None and self._process.poll() is not None:
                raise AssertionError(f"the job has ended: {self._log()}")
            if time.monotonic() > until_s:
                raise AssertionError(f"{what}: not within {within_s:.0f} s; last {sizes[-3:]}; {self._log()}")
            time.sleep(0.2)

    def until_ready(self, executors: int, within_s: float = TIMES_OUT_S) -> list[Size]:
        what = f"{executors} ready"
        return self.until(lambda sizes: (sizes[-1].planned, sizes[-1].ready) == (executors,) * 2, what, within_s)

    def finish(self) -> dict[str, Any]:
        """Let the job process what there is and end, and return the results."""
        (self.folder / FINISH).touch()
        until_s = time.monotonic() + TIMES_OUT_S
        while not (self.folder / RESULT).exists():
            if time.monotonic() > until_s or (self._process is not None and self._process.poll() not in (None, 0)):
                raise AssertionError(f"the job did not finish: {self._log()}")
            time.sleep(0.2)
        if self._process is not None:
            assert self._process.wait(60) == 0, self._log()
        found: dict[str, Any] = json.loads((self.folder / RESULT).read_text())
        return found

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def reasons(self) -> list[str]:
        """Why decisions were changed by the guard ``attainable``, in their order."""
        from headgate.journal.writer import SqliteJournal

        with closing(SqliteJournal.read(self.folder / "run.db")) as reader:
            return [
                note.why
                for decision in reader.decisions()
                for note in decision.verdicts["job"].notes
                if note.guard == "attainable" and note.before != note.after
            ]

    def events(self) -> list[tuple[str, str]]:
        """Kind and text of the journal's events."""
        from headgate.journal.writer import SqliteJournal

        with closing(SqliteJournal.read(self.folder / "run.db")) as reader:
            return [(event.kind, event.detail) for event in reader.events()]

    def explained(self) -> str:
        """What ``headgate explain`` prints."""
        command = [sys.executable, "-m", "headgate", "explain", str(self.folder / "run.db")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _log(self) -> str:
        texts = [self.folder / name for name in ("job.log", "driver.log")]
        return "\n".join(text.read_text()[-2000:] for text in texts if text.exists())


def start_here(
    folder: Path, course: Course, master: str, session: Mapping[str, str], environment: Mapping[str, str]
) -> RunningJob:
    """Start the job with its driver on this machine."""
    file = write_course(folder, course, master, session)
    with (folder / "job.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, str(file)],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    return RunningJob(folder, process)


if __name__ == "__main__":
    main()
