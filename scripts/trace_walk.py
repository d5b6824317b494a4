"""Print the files of the package that data passes on its three ways through it.

    .venv/bin/python scripts/trace_walk.py [reading] [experiment] [report] [--write]

- reading: from a real Spark cluster on this machine through ticks of the loop to the journal and ``headgate explain``
- experiment: from a YAML file through ``headgate lab run`` on Spark to the report
- report: from an agent through the service to a page of the dashboard

A file is passed if a function in it is called, but not while a module is being imported. Some calls are stepped over
and count as one file: the simulation of an experiment and the tick of a service's loop, which are the first way again;
the figures and the fixed sizes that an explanation compares a run with; why executors are missing, which is looked for
only when some are; and what an experiment only uses: workloads, policies by name, measures and a Spark session. Files
of the job itself (``apps``) don't count. ``--write`` puts the lists into docs/how-it-works.md.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeVar

import headgate
from headgate.apps import working

PACKAGE = Path(headgate.__file__).parent
PAGE = Path(__file__).parents[1] / "docs/how-it-works.md"
OBJECTIVE = "latency p95 < 10s"
RATE_PER_S = 120
POLICY = "reactive"
LONGEST_S = 120.0
T = TypeVar("T")
STEPPED_OVER: dict[str, Sequence[str]] = {
    "reading": ("what_if", "fixed_sizes_of", "course_of", "summarise", "SparkEngine._missing_why"),
    "experiment": ("simulate", "parse_workload", "policy_class", "make_settings", "measures_of", "batch_session"),
    "report": ("ControlLoop.tick",),
}
"""Functions whose file is passed, and not those of what they call."""
EXPERIMENT = """\
version: 1
name: walk
workloads: ["spike:base=20,peak=120,at=5m,width=5m"]
jobs: [{name: plain, rate: 10}]
policies: [reactive, static]
objectives: [{objective: latency p95 < 10s, min: 1, max: 16}]
repeats: 2
seconds: 20m
"""


class Passed:
    """The files of the package in which functions are called while it is recording, on any thread."""

    def __init__(self, stepped_over: Sequence[str] = ()) -> None:
        self.files: dict[str, None] = {}
        self._stepped_over = stepped_over
        self._is_recording = False
        self._ignored = threading.local()

    @contextlib.contextmanager
    def following_threads(self) -> Iterator[None]:
        """Also record the threads that are started inside the block."""
        threading.setprofile(self._called)
        try:
            yield
        finally:
            threading.setprofile(None)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record calls, those of this thread included."""
        before = sys.getprofile()
        self._is_recording = True
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(before)
            self._is_recording = False

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in ("call", "return") or not self._is_recording:
            return
        code = frame.f_code
        is_package = code.co_filename.startswith(str(PACKAGE))
        if code.co_filename == "<frozen importlib._bootstrap>" or (
            is_package and code.co_qualname in self._stepped_over
        ):
            depth = getattr(self._ignored, "depth", 0)
            if is_package and event == "call" and depth == 0:
                self._add(code.co_filename)
            self._ignored.depth = max(0, depth + (1 if event == "call" else -1))
        elif (
            is_package
            and code.co_filename.endswith(".py")
            and event == "call"
            and not getattr(self._ignored, "depth", 0)
        ):
            self._add(code.co_filename)

    def _add(self, path: str) -> None:
        name = Path(path).relative_to(PACKAGE).as_posix()
        if not name.startswith("apps/"):
            self.files.setdefault(name)


def trace_reading() -> list[str]:
    """Return the files that ticks of a live loop pass until it changes the size, and ``headgate explain`` after it."""
    passed = Passed(STEPPED_OVER["reading"])
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.db"
        with headgate.LocalCluster(slots=4) as cluster, cluster.session("walk") as spark:
            events = spark.readStream.format("rate").option("rowsPerSecond", RATE_PER_S).load()
            query = events.mapInArrow(working(0.02), events.schema).writeStream.format("noop").start()
            with headgate.autoscale(
                spark, OBJECTIVE, POLICY, executors=(1, 4), journal=journal, take_over=True, interval=2
            ) as scaler:
                resized = threading.Event()
                scaler.loop.tick = recorded(scaler.loop.tick, passed, resized)  # type: ignore[method-assign]
                scaler.watch(lambda _, decision: resized.set() if decision and not decision.is_hold else None)
                resized.wait(LONGEST_S)
                query.awaitTermination(10)
        run_command(passed, "explain", str(journal))
    return list(passed.files)


def trace_experiment() -> list[str]:
    """Return the files that an experiment passes in the command, and a case of it in a worker."""
    from headgate.lab.experiments.results import packed, read_parts, work_in

    passed = Passed(STEPPED_OVER["experiment"])
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "walk.yaml").write_text(EXPERIMENT, encoding="utf-8")
        out = home / "out"
        run_command(
            passed, "lab", "run", str(home / "walk.yaml"), "--out", str(out), "--report", str(home / "report.html")
        )
        assert read_parts(out / "runs").num_rows == 4
        from headgate.lab.experiments.document import read_experiment

        # Workers are processes of their own, so a case is run here once more.
        case = next(iter(read_experiment(home / "walk.yaml").cases()))
        (home / "again").mkdir()
        work = work_in(home, home / "again")
        with passed.recording():
            work([packed(0, case)])
    return list(passed.files)


def trace_report() -> list[str]:
    """Return the files that a report passes from an agent to the page of its job."""
    from urllib.request import urlopen

    from headgate.agent.agent import Agent, HttpController
    from headgate.core.objective import parse_objective
    from headgate.service.api import make_api
    from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
    from headgate.service.service import Service
    from headgate.service.serving import ApiServer
    from headgate.service.store import open_store
    from headgate.service.store.tokens import Scope
    from headgate.simulation.engine import SimulatedEngine
    from headgate.simulation.queue import QueueNetwork
    from headgate.workloads import parse_workload

    passed = Passed(STEPPED_OVER["report"])
    spec = JobSpec("walk", (OperatorSpec("job", 1, 8),), parse_objective(OBJECTIVE), policy=POLICY)
    store = open_store("sqlite://")
    with passed.following_threads(), Service(ServiceConfig((spec,)), store) as service:
        token = store.tokens.make("agent", {Scope.AGENT})
        engine = SimulatedEngine(QueueNetwork(parse_workload("constant:20"), 10.0))
        with ApiServer(make_api(service)) as server:
            page_url = f"{server.url}/jobs/walk"
            controller = HttpController(server.url, token, "walk")
            agent = Agent(engine, "job", controller)
            for second in range(0, 60, 5):
                engine.advance(float(second))
                with passed.recording() if second > 20 else contextlib.nullcontext():  # The first reports only join.
                    agent.tick()
                    service.fleet.job("walk").tick()
            with passed.recording(), urlopen(page_url, timeout=60) as answer:
                page = answer.read().decode()
                for thread in threading.enumerate():
                    if thread.name == "headgate-fixed-sizes":
                        thread.join()  # The page begins it and does not wait for it.
            controller.close()
    assert "reactive" in page
    return [name for name in passed.files if not name.startswith("simulation/")]


def run_command(passed: Passed, *arguments: str) -> None:
    """Run a command of ``headgate`` in this process and record it."""
    from headgate.cli.app import app

    with passed.recording(), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        app(list(arguments))


def recorded(call: Callable[[], T], passed: Passed, done: threading.Event) -> Callable[[], T]:
    """Return a function that records what the given one passes, up to an event."""

    def recording() -> T:
        with contextlib.nullcontext() if done.is_set() else passed.recording():
            return call()

    return recording


WALKS = {"reading": trace_reading, "experiment": trace_experiment, "report": trace_report}


def listing(files: Sequence[str]) -> str:
    """Return the files of a walk as a Markdown list, a line per folder."""
    folders: dict[str, list[str]] = {}
    for name in sorted(files):
        folder, _, file = name.rpartition("/")
        folders.setdefault(folder, []).append(file.removesuffix(".py"))
    lines = [f"- `{folder}`: {', '.join(f'`{file}`' for file in names)}" for folder, names in sorted(folders.items())]
    return "\n".join([f"{len(files)} files:", "", *lines])


def files_of(page: str, walk: str) -> list[str]:
    """Return the files of a walk that the page lists."""
    text = page.partition(f"<!-- walk: {walk} -->")[2].partition("<!-- end -->")[0]
    found = re.findall(r"^- `([\w/]+)`: (.*)$", text, re.MULTILINE)
    return [f"{folder}/{file}.py" for folder, names in found for file in re.findall(r"`(\w+)`", names)]


def with_listing(page: str, walk: str, files: Sequence[str]) -> str:
    """Return the page with the files of a walk between its markers."""
    found = re.compile(rf"(<!-- walk: {walk} -->\n).*?(<!-- end -->)", re.DOTALL)
    text, count = found.subn(lambda match: f"{match[1]}\n{listing(files)}\n\n{match[2]}", page)
    assert count == 1, f"the page has {count} places for walk {walk}"
    return text


def main(arguments: list[str]) -> None:
    """Print the walks, and write them into the page if that is wanted."""
    names = [name for name in arguments if name != "--write"] or list(WALKS)
    for name in names:
        files = WALKS[name]()
        lines = sum(len((PACKAGE / file).read_text(encoding="utf-8").splitlines()) for file in files)
        print(f"{name}: {len(files)} files, {lines} lines")
        print("".join(f"  {file}\n" for file in sorted(files)))
        if "--write" in arguments:
            PAGE.write_text(with_listing(PAGE.read_text(encoding="utf-8"), name, files), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
