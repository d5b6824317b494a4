"""A run of a Flink job under a load, scaled by a policy, on a cluster of its own.

The job (``slow-middle``) numbers its records, waits in its middle step instead of computing, so that slots on a few
cores add up, and writes to a topic in which the broker stamps the arrival of each result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from headgate.apps.flink.programs import SLOW_MIDDLE, SubmittedJob
from headgate.apps.flink.sources import TopicRecords, TopicResults
from headgate.apps.flink.submission import submit
from headgate.core.errors import EngineError
from headgate.core.metrics import MetricSource
from headgate.core.objective import Objective
from headgate.core.types import Decision, Event, Observation, Verdict
from headgate.engines.flink import FlinkEngine
from headgate.engines.flink.task_managers import Provider
from headgate.lab.scenario import Progress
from headgate.local.flink import LocalFlink
from headgate.local.kafka import LocalKafka
from headgate.local.records import TopicSink
from headgate.research.flink import START_S
from headgate.research.flink.measured import JobSlots, SinkTruth, SlotWatch
from headgate.runtime.autoscaler import Autoscaler, autoscale_engine
from headgate.runtime.loop import SystemClock
from headgate.workloads.load import Load
from headgate.workloads.replay import Replay, ReplayProgress

AT_WORK_WITHIN_S = 90.0
DONE_WITHIN_S = 60.0
"""How long the last results may take after the end of the load."""
POLL_S = 0.5
LEAD_S = 2.0
"""How long after its producer is ready the load begins."""


@dataclass(frozen=True)
class FlinkRun:
    """The job, load and policy of a run."""

    policy: str
    workload: str
    seconds: float
    objective: Objective
    """With the fewest and the most instances of any operator."""
    cost_ms: float
    """Processing time of a record in the slow operator."""
    slots: int
    """Slots of the first TaskManager."""
    settings: Mapping[str, object] = field(default_factory=dict)
    guards: Mapping[str, object] = field(default_factory=dict)
    interval_s: float = 2.0
    settled_s: float = 15.0
    """From then on the job is scaled and judged; before, it is still loading."""
    partitions: int = 8


@dataclass(frozen=True)
class FlinkResult:
    """The results of a run."""

    run: FlinkRun
    began_s: float
    """When the load began."""
    truth: SinkTruth
    load: ReplayProgress
    samples: Sequence[JobSlots]
    decisions: Sequence[Decision]
    observations: Sequence[Observation]
    events: Sequence[Event]

    @property
    def judged_s(self) -> float:
        return self.began_s + self.run.settled_s


@dataclass(frozen=True)
class RunningJob:
    """A job on a cluster."""

    url: str
    job_id: str
    report: Callable[[ReplayProgress | None], None]
    """Reports the progress of the run."""


@contextmanager
def running_job(run: FlinkRun, job: SubmittedJob, progress: Progress) -> Iterator[RunningJob]:
    """Run a job on a cluster of its own, as long as the context is open."""
    began_s, lasting_s = time.monotonic(), START_S + run.seconds

    def report(_: ReplayProgress | None = None) -> None:
        progress(min(0.99, (time.monotonic() - began_s) / lasting_s))

    with LocalFlink(taskmanagers=1, slots=run.slots) as flink:
        report()
        job_id = submit(job, flink.url)
        report()
        yield RunningJob(flink.url, job_id, report)
    progress(1.0)


def play(run: FlinkRun, kafka: LocalKafka, progress: Progress = lambda _: None) -> FlinkResult:
    """Run a job to the end on a cluster of its own; topics are named after the policy."""
    topic, sink = f"in-{run.policy}", f"out-{run.policy}"
    kafka.create_topic(topic, run.partitions)
    kafka.create_topic(sink, run.partitions, broker_stamps=True)
    records, results = TopicRecords(kafka.bootstrap, topic), TopicResults(kafka.bootstrap, sink)
    job = SubmittedJob(SLOW_MIDDLE, records, run.policy, results, cost_ms=run.cost_ms)
    with running_job(run, job, progress) as running:
        return _under_load(run, kafka, running)


def _under_load(run: FlinkRun, kafka: LocalKafka, running: RunningJob) -> FlinkResult:
    topic, sink, url, clock = f"in-{run.policy}", f"out-{run.policy}", running.url, SystemClock()
    load = Load(run.workload, seconds=run.seconds)
    total = load.schedule.total
    engine, record, events = opened(url, run.policy, run.objective, clock), ControllerRecord(), list[Event]()
    start_with_single_instances(engine)
    with ExitStack() as cleanup:
        watch = SlotWatch(url, running.job_id, clock.now).start()
        cleanup.callback(watch.stop)
        start_s = clock.now() + LEAD_S
        feeder = LoadFeeder(load, TopicSink(kafka.bootstrap, topic), clock, start_s, running.report)
        cleanup.callback(feeder.stop)
        clock.wait_until(start_s + run.settled_s, threading.Event())
        with autoscaled(run, engine, clock, record, events):
            load_progress = feeder.join()
            truth = _all_results(kafka, sink, total)
    return FlinkResult(
        run, start_s, truth, load_progress, tuple(watch.samples), record.decisions, record.observations, events
    )


def autoscaled(
    run: FlinkRun,
    engine: FlinkEngine,
    clock: SystemClock,
    record: ControllerRecord,
    events: list[Event],
    metrics: Mapping[str, MetricSource] | None = None,
) -> Autoscaler:
    """Start the policy of a run on its job."""
    return autoscale_engine(
        engine,
        objective=run.objective,
        policy=run.policy,
        job=run.policy,
        settings=run.settings or None,
        guards=run.guards or None,
        metrics=metrics,
        interval=run.interval_s,
        clock=clock,
        watchers=[record],
        event_watchers=[events.append],
    )


def opened(
    url: str, job: str, objective: Objective, clock: SystemClock, provider: Provider | None = None
) -> FlinkEngine:
    """Return the engine of a job that was just submitted, as soon as it is running."""
    until_s = clock.now() + AT_WORK_WITHIN_S
    while True:
        try:
            return FlinkEngine(
                f"{url}#{job}",
                clock.now,
                fewest=objective.min_instances,
                most=objective.max_instances,
                late_after_s=objective.late_after_s,
                provider=provider,
            )
        except EngineError:
            if clock.now() > until_s:
                raise
            time.sleep(POLL_S)


def start_with_single_instances(engine: FlinkEngine) -> None:
    """Scale each operator to a single instance, and wait until it runs."""
    ones = {
        name: Verdict(name, size.planned, 1, 1, "start", "a run begins with one instance of each operator")
        for name, size in engine.observe().instances.items()
    }
    engine.apply(Decision(engine.now(), "lab", ones))
    until_s = engine.now() + AT_WORK_WITHIN_S
    while any(size.ready != 1 for size in engine.observe().instances.values()):
        if engine.now() > until_s:
            raise EngineError(f"the job {engine.job!r} does not run with one instance of each operator.")
        time.sleep(POLL_S)
    engine.take_events()


def _all_results(kafka: LocalKafka, sink: str, total: int) -> SinkTruth:
    """Return the results of all records, once nothing is missing or the time for the last ones is over."""
    until_s = time.monotonic() + DONE_WITHIN_S
    while True:
        truth = SinkTruth.of_topic(kafka.bootstrap, sink, total)
        if not truth.missing or time.monotonic() > until_s:
            return truth
        time.sleep(POLL_S)


class ControllerRecord:
    """A watcher that collects observations and decisions."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self.decisions: list[Decision] = []

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        if observation is not None:
            self.observations.append(observation)
        if decision is not None:
            self.decisions.append(decision)


class LoadFeeder:
    """Sends a load to a topic, on a thread, from ``start_s`` on."""

    def __init__(
        self,
        load: Load,
        sink: TopicSink,
        clock: SystemClock,
        start_s: float,
        report: Callable[[ReplayProgress | None], None],
    ) -> None:
        self._clock, self._start_s, self._report = clock, start_s, report
        self._replay = Replay(
            load, load.make_payloads(), sink, clock, start_ms=round(1000 * start_s), by_the_clock=True
        )
        self._stop = threading.Event()
        self._progress: ReplayProgress | None = None
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._clock.wait_until(self._start_s, self._stop)
        self._progress = self._replay.run(self._stop, self._report)

    def join(self) -> ReplayProgress:
        """Wait for the end of the load and return its final progress."""
        self._thread.join()
        if self._progress is None or self._progress.answers.failed:
            raise EngineError("the load did not reach its topic: the broker did not take all of its records.")
        return self._progress

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
