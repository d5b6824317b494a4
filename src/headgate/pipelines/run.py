"""Runs a pipeline: the servers it needs, a controller, a driver for each job, and the load.

Each is a process of its own. What ends by itself is started again; the others go on meanwhile. Everything is taken down
at the end, also after Ctrl-C.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from headgate.core.errors import EngineError
from headgate.core.types import JSON
from headgate.journal.codec import from_json
from headgate.local.machine import LOOPBACK, free_ports
from headgate.local.supervisor import STOP_WITHIN_S, ProcessEnd, ProcessSupervisor, python_process
from headgate.pipelines.controller import ControllerPlan
from headgate.pipelines.model import Job, Pipeline
from headgate.runtime.loop import SystemClock
from headgate.workloads.replay import Replay, ReplayProgress

QUIET_S = 8.0
"""When nothing has been waiting for so long, no more comes."""


class PipelineProgress:
    """Takes in the controller's state again and again; ``jobs`` are the names of all of them."""

    def __init__(self, jobs: tuple[str, ...], now: Callable[[], float] = time.monotonic) -> None:
        self._jobs = jobs
        self._now = now
        self._state: Mapping[str, JSON] = {}
        self._waited_s = now()
        """When something was last seen to wait."""

    def take(self, state: Mapping[str, JSON]) -> None:
        self._state = state
        if any(sample.get("backlog", 1.0) for sample in self._samples()):
            self._waited_s = self._now()

    def expect_more(self) -> None:
        """Something is on its way from now on, though it does not wait anywhere yet."""
        self._waited_s = self._now()

    @property
    def end_to_end(self) -> Mapping[str, JSON]:
        """What came out so far."""
        found: Mapping[str, JSON] = self._state.get("end_to_end", {})
        return found

    @property
    def missing(self) -> list[str]:
        """The jobs that have not joined."""
        joined = set(self._state.get("joined", ()))
        return [name for name in self._jobs if name not in joined]

    def is_warm(self) -> bool:
        """Whether every job has got something done; or no more comes, because a job leaves records out."""
        done = [bool(sample.get("done")) for sample in self._samples()]
        return any(done) and self.is_quiet(0.0 if all(done) else QUIET_S)

    def has_given(self, sent: int) -> bool:
        """Whether every record has come out, or nothing has been waiting anywhere for a while."""
        return bool(self.end_to_end.get("distinct", 0) >= sent) or self.is_quiet(QUIET_S)

    def is_quiet(self, for_s: float) -> bool:
        """Whether nothing has been waiting at any job for so long."""
        waits = any(sample.get("backlog", 1.0) for sample in self._samples())
        return not waits and self._now() - self._waited_s >= for_s

    def _samples(self) -> list[Mapping[str, JSON]]:
        """What was read of each job last."""
        seen = (self._state.get("observation") or {}).get("samples", {})
        return [seen.get(name, {}) for name in self._jobs]


CONTROLLER = "controller"
LOOK_EVERY_S = 0.5
JOINED_WITHIN_S = 180.0
"""Within this time all jobs must have joined: several drivers start at once."""
STOP_STARTING_WITHIN_S = 2.0
"""How long a driver that is still starting has to end."""
WARM_UP_FIRST = 1_000_000_000
"""The number of the first record that warms jobs up: larger than those of any load."""
WARM_UP_EACH = 8
"""Such records for each partition."""
WARM_WITHIN_S = 60.0
WORKED_OFF_WITHIN_S = 90.0
"""How long results of records in flight are awaited at the end."""


@dataclass(frozen=True)
class PipelineRunPlan:
    """A pipeline, and where it runs; a cluster and a broker of this machine where no other is named."""

    pipeline: Pipeline
    applications: tuple[str, ...]
    directory: Path
    """Gets the journal, and the logs of all processes."""
    master: str | None = None
    bootstrap: str | None = None
    checkpoints: str | None = None
    """Where queries note how far they are, a folder that all workers can reach; one that goes away where not given."""

    @property
    def journal(self) -> Path:
        return self.directory / "journal.db"

    @property
    def slots(self) -> int:
        return sum(job.max_executors for job in self.pipeline.jobs)


@dataclass(frozen=True)
class PipelineResult:
    """The result of a run."""

    end_to_end: Mapping[str, JSON]
    sent: int | None
    """Records that the load sent; ``None`` without a load."""
    restarts: Mapping[str, int] = field(default_factory=dict)
    """How often a process was started again."""


class Spectator(Protocol):
    """Displays a run while it goes on."""

    def stage(self, text: str) -> None: ...

    def state(self, state: Mapping[str, JSON], load: ReplayProgress | None) -> None: ...


def run_pipeline(plan: PipelineRunPlan, spectator: Spectator, stop: threading.Event) -> PipelineResult:
    """Run until the load is worked off, or until ``stop`` is set."""
    return _Run(plan, spectator, stop).run()


class _Run:
    def __init__(self, plan: PipelineRunPlan, spectator: Spectator, stop: threading.Event) -> None:
        self._plan = plan
        self._pipeline = plan.pipeline
        self._spectator = spectator
        self._stop = stop
        self._token = secrets.token_urlsafe(32)
        self._port = free_ports(1)[0]
        self._counts_from_ms = round(time.time() * 1000)
        self._restarts: dict[str, int] = {}
        self._processes = ProcessSupervisor(self._on_end)
        self._standing: ReplayProgress | None = None
        self._has_begun = False
        self._progress = PipelineProgress(tuple(job.name for job in plan.pipeline.jobs))

    @property
    def _url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    def run(self) -> PipelineResult:
        plan, pipeline = self._plan, self._pipeline
        plan.journal.unlink(missing_ok=True)
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-pipeline-")))
            bootstrap = plan.bootstrap or stack.enter_context(self._own_broker())
            self._make_topics(bootstrap)
            master = plan.master or stack.enter_context(self._own_cluster())
            stack.callback(self._stop_processes)
            self._start(bootstrap, master, scratch)
            self._await_joined()
            sent = None
            if pipeline.load is not None and not self._stop.is_set():
                self._warm_up(bootstrap)
            if self._stop.is_set():
                raise KeyboardInterrupt  # Nothing has begun that could be reported.
            self._has_begun = True
            (scratch / "begun").touch()
            if pipeline.load is None:
                self._spectator.stage("running; Ctrl-C stops")
                self._watch(lambda: False)
            else:
                self._spectator.stage("running")
                sent = self._send_load(bootstrap)
                self._spectator.stage("working off what is on its way")
                self._progress.expect_more()
                self._watch(lambda: self._progress.has_given(sent), WORKED_OFF_WITHIN_S)
            self._look()
            self._spectator.stage("stopping the jobs")
        return PipelineResult(self._progress.end_to_end, sent, dict(self._restarts))

    # ------------------------------------------------------------------------------------------------- starting

    @contextmanager
    def _own_broker(self) -> Iterator[str]:
        from headgate.local.kafka import LocalKafka

        self._spectator.stage("starting a Kafka broker on this machine")
        with LocalKafka() as kafka:
            yield kafka.bootstrap

    @contextmanager
    def _own_cluster(self) -> Iterator[str]:
        from headgate.local.spark.cluster import LocalCluster

        self._spectator.stage("starting a Spark cluster on this machine")
        with LocalCluster(slots=self._plan.slots) as cluster:
            yield cluster.master_url

    def _make_topics(self, bootstrap: str) -> None:
        from headgate.local.topics import create_topic, topics

        known = topics(bootstrap)
        for name, partitions in self._pipeline.topics.items():
            if name not in known:
                create_topic(bootstrap, name, partitions)

    def _start(self, bootstrap: str, master: str, scratch: Path) -> None:
        from headgate.local.connector import find_connector

        jars, pipeline = find_connector().spark_jars, self._pipeline
        controller = ControllerPlan(
            file=str(pipeline.file.resolve()),
            policy=pipeline.policy,
            applications=self._plan.applications,
            bootstrap=bootstrap,
            journal=str(self._plan.journal.resolve()),
            port=self._port,
            token=self._token,
            counts_from_ms=self._counts_from_ms,
            begun=str(scratch / "begun"),
        )
        logs = self._plan.directory / "logs"
        logs.mkdir(exist_ok=True)
        self._spectator.stage("starting the controller and a driver for each job")
        self._processes.start(python_process(CONTROLLER, "headgate.pipelines.controller", asdict(controller), logs))
        for job in pipeline.jobs:
            driver = self._driver_plan(job, bootstrap, master, jars, scratch)
            self._processes.start(python_process(job.name, "headgate.apps.pipeline_driver", driver, logs))

    def _driver_plan(self, job: Job, bootstrap: str, master: str, jars: str, scratch: Path) -> dict[str, JSON]:
        build = job.build
        return {
            "pipeline": self._pipeline.name,
            "job": job.name,
            "master": master,
            "is_local": LOOPBACK in master,
            "bootstrap": bootstrap,
            "reads": list(job.reads),
            "writes": job.writes,
            "checkpoint": f"{self._plan.checkpoints or scratch}/{job.name}",
            "trigger_s": job.trigger_s,
            "executors": job.min_executors,
            "jars": jars,
            "service": self._url,
            "token": self._token,
            "app": job.app,
            "module": None if build is None else build.module,
            "function": None if build is None else build.function,
            "file": None if build is None or build.file is None else str(build.file.resolve()),
            "max_records_per_batch": job.max_records_per_batch,
            "state_partitions": None if job.state_partitions is None else list(job.state_partitions),
            "objective": str(self._pipeline.part_of(job.name)),
            "late_after_s": self._pipeline.own_bound_s(job.name),
            "spark": dict(job.spark),
        }

    def _stop_processes(self) -> None:
        # A driver that is still starting does not react, and has nothing that must be ended in order.
        self._processes.stop(STOP_WITHIN_S if self._has_begun else STOP_STARTING_WITHIN_S)

    def _await_joined(self) -> None:
        self._watch(lambda: not self._progress.missing, JOINED_WITHIN_S)
        missing = self._progress.missing
        if missing and not self._stop.is_set():
            logs = self._plan.directory / "logs"
            raise EngineError(
                f"{', '.join(missing)} did not join within {JOINED_WITHIN_S:.0f} s; their logs are in {logs}."
            )

    def _warm_up(self, bootstrap: str) -> None:
        """Send a few records through all jobs, so that measured records need not wait for classes to load."""
        from headgate.local.records import TopicSink

        pipeline = self._pipeline
        assert pipeline.load is not None
        assert pipeline.load_to is not None
        self._spectator.stage("warming up: first batches load classes and Python workers")
        due_ms = np.full(WARM_UP_EACH * pipeline.topics[pipeline.load_to], self._counts_from_ms - 1, dtype=np.int64)
        sink = TopicSink(bootstrap, pipeline.load_to)
        sink.send(pipeline.load.make_payloads().records(WARM_UP_FIRST, due_ms))
        sink.flush()
        self._progress.expect_more()
        self._watch(self._progress.is_warm, WARM_WITHIN_S)

    # -------------------------------------------------------------------------------------------------- running

    def _send_load(self, bootstrap: str) -> int:
        from headgate.local.records import TopicSink

        load, clock = self._pipeline.load, SystemClock()
        assert load is not None
        assert self._pipeline.load_to is not None
        sink = TopicSink(bootstrap, self._pipeline.load_to)
        start_ms = round(clock.now() * 1000)
        replay = Replay(load, load.make_payloads(), sink, clock, start_ms=start_ms, by_the_clock=True)
        ended: list[ReplayProgress] = []
        sender = threading.Thread(target=lambda: ended.append(replay.run(self._stop, self._on_load)), daemon=True)
        sender.start()
        self._watch(lambda: not sender.is_alive())
        sender.join()
        self._standing = ended[0]
        return ended[0].answers.acknowledged

    def _on_load(self, standing: ReplayProgress) -> None:
        self._standing = standing

    def _watch(self, is_done: Callable[[], bool], within_s: float = float("inf")) -> None:
        """Supervise the processes until something is done, or it has taken too long."""
        until_s = time.monotonic() + within_s
        while not self._stop.is_set() and time.monotonic() < until_s:
            self._processes.check()
            self._look()
            if is_done():
                return
            self._stop.wait(LOOK_EVERY_S)

    def _look(self) -> None:
        """Fetch the controller's latest state; nothing is lost while it is down."""
        import httpx

        try:
            headers = {"Authorization": f"Bearer {self._token}"}
            answer = httpx.get(f"{self._url}/v1/jobs/{self._pipeline.name}/state", headers=headers, timeout=2.0)
            answer.raise_for_status()
        except httpx.HTTPError:
            return
        state = from_json(answer.text)
        self._progress.take(state)
        self._spectator.state(state, self._standing)

    def _on_end(self, end: ProcessEnd) -> None:
        self._restarts[end.name] = self._restarts.get(end.name, 0) + 1
        self._spectator.stage(f"{end.name} {end.reason}; it restarts in {end.restart_after_s:g} s")
