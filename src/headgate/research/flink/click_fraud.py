"""giannakopoulos' set-up on this machine: click-fraud on Flink and Kafka, TaskManagers of one slot, and Prometheus.

What a policy decides by comes from Prometheus, as in the document: a loop that never acts reads Flink and shows its
figures on a page, Prometheus reads that page every second, and the loop that acts asks Prometheus how much waits and
how much comes. What is told of a run afterwards is asked of Prometheus too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import headgate.apps.payloads  # noqa: F401 - which registers the payloads of all applications
from headgate.apps.flink.programs import FlinkJob
from headgate.apps.flink.sources import TopicRecords
from headgate.apps.flink.submission import submit
from headgate.core.objective import Objective
from headgate.core.types import Decision, Event, Observation
from headgate.engines.flink.task_managers import LocalProvider
from headgate.lab.scenario import Progress
from headgate.local.flink import LocalFlink
from headgate.local.kafka import LocalKafka
from headgate.local.machine import free_ports
from headgate.local.prometheus import LocalPrometheus, TimedValues
from headgate.local.records import TopicSink
from headgate.research.flink import START_S
from headgate.research.flink.measured import JobSlots, SlotWatch
from headgate.research.flink.run import LEAD_S, ControllerRecord, Feeder, opened
from headgate.runtime.autoscaler import autoscale_engine
from headgate.runtime.clock import SystemClock
from headgate.runtime.loop import Mode
from headgate.runtime.prometheus import Prometheus
from headgate.workloads.load import Load
from headgate.workloads.replay import ReplayProgress

PROGRAM = "click-fraud"
WAITS = 'headgate_backlog_records{{job="{job}-figures",operator="$operator"}}'
COMES = 'rate(headgate_records_arrived_total{{job="{job}-figures",operator="$operator"}}[5s])'
EVERY_S = 1.0
STALE_S = 10.0


@dataclass(frozen=True)
class FraudRun:
    """What to run."""

    policy: str
    workload: str
    seconds: float
    objective: Objective
    """With the fewest and the most instances of any operator, which are the TaskManagers."""
    cost_ms: float
    settings: Mapping[str, object] = field(default_factory=dict)
    guards: Mapping[str, object] = field(default_factory=dict)
    interval_s: float = 2.0
    settled_s: float = 10.0
    """From then on the job is scaled."""
    partitions: int = 8


@dataclass(frozen=True)
class FraudRan:
    """What came of it."""

    run: FraudRun
    began_s: float
    ended_s: float
    source: str
    """The operator that reads the topic, and takes its time with each record."""
    waits: TimedValues
    """Records that wait because of it, as Prometheus was told."""
    comes_per_s: TimedValues
    had: Sequence[JobSlots]
    decisions: Sequence[Decision]
    observations: Sequence[Observation]
    events: Sequence[Event]

    def slow_shares(self) -> TimedValues:
        """Of one second's records, the share that waits: the document's performance."""
        comes = dict(self.comes_per_s)
        return [(at_s, waits / comes[at_s]) for at_s, waits in self.waits if comes.get(at_s)]


def play(run: FraudRun, kafka: LocalKafka, progress: Progress = lambda _: None) -> FraudRan:
    """Run it to the end, on a cluster of its own."""
    began_s, lasting_s, topic = time.monotonic(), START_S + run.seconds, f"clicks-{run.policy}"
    kafka.create_topic(topic, run.partitions)

    def tell(_: ReplayProgress | None = None) -> None:
        progress(min(0.99, (time.monotonic() - began_s) / lasting_s))

    with LocalFlink(taskmanagers=1, slots=1) as flink:
        tell()
        job = FlinkJob(PROGRAM, TopicRecords(kafka.bootstrap, topic), run.policy, cost_ms=run.cost_ms)
        job_id = submit(job, flink.url)
        tell()
        feed = _Feed(Load(run.workload, PROGRAM, run.seconds), kafka.bootstrap, topic, tell)
        ran = _under_load(run, flink.url, job_id, feed)
    progress(1.0)
    return ran


@dataclass(frozen=True)
class _Feed:
    """A load and where it goes."""

    load: Load
    bootstrap: str
    topic: str
    tell: Callable[[ReplayProgress | None], None]

    def begin(self, clock: SystemClock, start_s: float) -> Feeder:
        return Feeder(self.load, TopicSink(self.bootstrap, self.topic), clock, start_s, self.tell)


def _under_load(run: FraudRun, url: str, job_id: str, feed: _Feed) -> FraudRan:
    clock, seen, events = SystemClock(), ControllerRecord(), list[Event]()
    with ExitStack() as undone:
        page_port = free_ports(1)[0]
        shown = undone.enter_context(
            autoscale_engine(
                opened(url, run.policy, run.objective, clock),
                objective=run.objective,
                policy="static",
                job=f"{run.policy}-figures",
                mode=Mode.RECOMMEND,
                interval=EVERY_S,
                clock=clock,
                metrics_port=page_port,
            )
        )
        assert shown.metrics_url is not None
        prometheus = undone.enter_context(LocalPrometheus([urlsplit(shown.metrics_url).netloc]))
        watch = SlotWatch(url, job_id, clock.now).start()
        undone.callback(watch.stop)
        start_s = clock.now() + LEAD_S
        feeder = feed.begin(clock, start_s)
        undone.callback(feeder.stop)
        clock.wait_until(start_s + run.settled_s, threading.Event())
        engine = opened(url, run.policy, run.objective, clock, LocalProvider(url))
        source = engine.topology().sources[0]
        with autoscale_engine(
            engine,
            objective=run.objective,
            policy=run.policy,
            job=run.policy,
            settings=run.settings or None,
            guards=run.guards or None,
            metrics={
                "backlog": _asked(WAITS, run.policy, prometheus.url),
                "input_rate_per_s": _asked(COMES, run.policy, prometheus.url),
            },
            interval=run.interval_s,
            clock=clock,
            watchers=[seen],
            event_watchers=[events.append],
        ):
            feeder.join()
        ended_s = clock.now()
        span = (start_s + run.settled_s, ended_s, run.interval_s)
        waits = prometheus.over(_of(WAITS, run.policy, source), *span).get(source, [])
        comes = prometheus.over(_of(COMES, run.policy, source), *span).get(source, [])
    return FraudRan(
        run, start_s, ended_s, source, waits, comes, tuple(watch.seen), seen.decisions, seen.observations, events
    )


def _asked(query: str, job: str, url: str) -> Prometheus:
    return Prometheus(query.format(job=job), url, every=EVERY_S, stale_after=STALE_S)


def _of(query: str, job: str, operator: str) -> str:
    return query.format(job=job).replace("$operator", operator)
