"""One run of a Flink job under a load, scaled by a policy: on a cluster of its own, and a broker that knows the truth.

The job numbers its records (``slow-middle``), waits with each in its middle step instead of computing, so that slots on
a few cores add up, and writes to a topic that the broker stamps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from headgate.apps.flink.programs import SLOW_MIDDLE, FlinkJob
from headgate.apps.flink.sources import TopicRecords, TopicResults
from headgate.apps.flink.submission import submit
from headgate.core.errors import EngineError
from headgate.core.objective import Objective
from headgate.core.slo import LatencySlo
from headgate.core.types import Decision, Event, Observation, Verdict
from headgate.engines.flink import FlinkEngine
from headgate.engines.flink.task_managers import Provider
from headgate.lab.scenario import Progress
from headgate.local.flink import LocalFlink
from headgate.local.kafka import LocalKafka
from headgate.local.records import TopicSink
from headgate.research.flink import START_S
from headgate.research.flink.measured import JobSlots, SinkTruth, SlotWatch
from headgate.runtime.autoscaler import autoscale_engine
from headgate.runtime.clock import SystemClock
from headgate.workloads.load import Load
from headgate.workloads.replay import Replay, ReplayProgress

AT_WORK_WITHIN_S = 90.0
DONE_WITHIN_S = 60.0
"""How long after the load the last results may take."""
POLL_S = 0.5
LEAD_S = 2.0
"""The load begins so long after its producer is ready."""


@dataclass(frozen=True)
class FlinkRun:
    """What to run."""

    policy: str
    workload: str
    seconds: float
    objective: Objective
    """With the fewest and the most instances of any operator."""
    cost_ms: float
    """What a record takes in the middle."""
    slots: int
    settings: Mapping[str, object] = field(default_factory=dict)
    guards: Mapping[str, object] = field(default_factory=dict)
    interval_s: float = 2.0
    settled_s: float = 15.0
    """From then on the job is scaled and judged: one that has just started has much to load first."""
    partitions: int = 8


@dataclass(frozen=True)
class FlinkRan:
    """What came of it."""

    run: FlinkRun
    began_s: float
    """When the load began."""
    truth: SinkTruth
    load: ReplayProgress
    had: Sequence[JobSlots]
    decisions: Sequence[Decision]
    observations: Sequence[Observation]
    events: Sequence[Event]

    @property
    def judged_s(self) -> float:
        return self.began_s + self.run.settled_s


def play(run: FlinkRun, kafka: LocalKafka, progress: Progress = lambda _: None) -> FlinkRan:
    """Run it to the end, on a cluster of its own; topics are named after the policy."""
    topic, sink = f"in-{run.policy}", f"out-{run.policy}"
    kafka.create_topic(topic, run.partitions)
    kafka.create_topic(sink, run.partitions, broker_stamps=True)
    began_s = time.monotonic()
    lasting_s = START_S + run.seconds

    def tell(_: ReplayProgress | None = None) -> None:
        progress(min(0.99, (time.monotonic() - began_s) / lasting_s))

    with LocalFlink(taskmanagers=1, slots=run.slots) as flink:
        tell()
        job = FlinkJob(
            SLOW_MIDDLE,
            TopicRecords(kafka.bootstrap, topic),
            run.policy,
            TopicResults(kafka.bootstrap, sink),
            cost_ms=run.cost_ms,
        )
        job_id = submit(job, flink.url)
        tell()
        ran = _under_load(run, kafka, flink.url, job_id, tell)
    progress(1.0)
    return ran


def _under_load(
    run: FlinkRun, kafka: LocalKafka, url: str, job_id: str, tell: Callable[[ReplayProgress | None], None]
) -> FlinkRan:
    topic, sink, clock = f"in-{run.policy}", f"out-{run.policy}", SystemClock()
    load = Load(run.workload, seconds=run.seconds)
    total = load.schedule.total
    engine, seen, events = opened(url, run.policy, run.objective, clock), ControllerRecord(), list[Event]()
    begin_with_one(engine)
    with ExitStack() as undone:
        watch = SlotWatch(url, job_id, clock.now).start()
        undone.callback(watch.stop)
        start_s = clock.now() + LEAD_S
        feeder = Feeder(load, TopicSink(kafka.bootstrap, topic), clock, start_s, tell)
        undone.callback(feeder.stop)
        clock.wait_until(start_s + run.settled_s, threading.Event())
        with autoscale_engine(
            engine,
            objective=run.objective,
            policy=run.policy,
            job=run.policy,
            settings=run.settings or None,
            guards=run.guards or None,
            interval=run.interval_s,
            clock=clock,
            watchers=[seen],
            event_watchers=[events.append],
        ):
            standing = feeder.join()
            truth = _all_results(kafka, sink, total)
    return FlinkRan(run, start_s, truth, standing, tuple(watch.seen), seen.decisions, seen.observations, events)


def opened(
    url: str, job: str, objective: Objective, clock: SystemClock, provider: Provider | None = None
) -> FlinkEngine:
    """The engine of a job that was just submitted, as soon as it is at work."""
    slo = objective.slo
    until_s = clock.now() + AT_WORK_WITHIN_S
    while True:
        try:
            return FlinkEngine(
                f"{url}#{job}",
                clock.now,
                fewest=objective.min_instances,
                most=objective.max_instances,
                late_after_s=slo.bound_s if isinstance(slo, LatencySlo) else None,
                provider=provider,
            )
        except EngineError:
            if clock.now() > until_s:
                raise
            time.sleep(POLL_S)


def begin_with_one(engine: FlinkEngine) -> None:
    """Have one instance of each operator, and wait until those are at work."""
    ones = {
        name: Verdict(name, size.planned, 1, 1, "start", "a run begins with one of each")
        for name, size in engine.observe().instances.items()
    }
    engine.apply(Decision(engine.now(), "lab", ones))
    until_s = engine.now() + AT_WORK_WITHIN_S
    while any(size.ready != 1 for size in engine.observe().instances.values()):
        if engine.now() > until_s:
            raise EngineError(f"the job {engine.job!r} is not at work with one instance of each operator.")
        time.sleep(POLL_S)
    engine.take_events()


def _all_results(kafka: LocalKafka, sink: str, total: int) -> SinkTruth:
    """What became of all records, once nothing is missing, or is not going to come any more."""
    until_s = time.monotonic() + DONE_WITHIN_S
    while True:
        truth = SinkTruth.of_topic(kafka.bootstrap, sink, total)
        if not truth.missing or time.monotonic() > until_s:
            return truth
        time.sleep(POLL_S)


class ControllerRecord:
    """A watcher that keeps what it is shown."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self.decisions: list[Decision] = []

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        if observation is not None:
            self.observations.append(observation)
        if decision is not None:
            self.decisions.append(decision)


class Feeder:
    """Sends a load to a topic, on a thread, from a moment on."""

    def __init__(
        self,
        load: Load,
        sink: TopicSink,
        clock: SystemClock,
        start_s: float,
        tell: Callable[[ReplayProgress | None], None],
    ) -> None:
        self._clock, self._start_s, self._tell = clock, start_s, tell
        self._replay = Replay(
            load, load.make_payloads(), sink, clock, start_ms=round(1000 * start_s), by_the_clock=True
        )
        self._stop = threading.Event()
        self._standing: ReplayProgress | None = None
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._clock.wait_until(self._start_s, self._stop)
        self._standing = self._replay.run(self._stop, self._tell)

    def join(self) -> ReplayProgress:
        """How the load went, once it is over."""
        self._thread.join()
        if self._standing is None or self._standing.answers.failed:
            raise EngineError("the load did not reach its topic: the broker did not take all of its records.")
        return self._standing

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
