"""giannakopoulos' set-up on this machine: click-fraud on Flink and Kafka, TaskManagers of one slot, and Prometheus.

As in the document, policies read Prometheus: a loop that never acts reads Flink and exports its metrics, Prometheus
scrapes them every second, and the acting loop queries backlog and arrival rate. The report of a run queries them too.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

import headgate.apps.payloads  # noqa: F401 - which registers the payloads of all applications
from headgate.apps.flink.programs import SubmittedJob
from headgate.apps.flink.sources import TopicRecords
from headgate.core.objective import SlowShareSlo
from headgate.core.types import JSON, Decision, Event, Observation
from headgate.engines.flink.task_managers import LocalProvider
from headgate.lab.scenario import Progress
from headgate.local.kafka import LocalKafka
from headgate.local.machine import free_ports
from headgate.local.prometheus import LocalPrometheus, TimedValues
from headgate.local.records import TopicSink
from headgate.research.flink.measured import JobSlots, SlotWatch, changes, seconds
from headgate.research.flink.run import (
    LEAD_S,
    ControllerRecord,
    FlinkRun,
    LoadFeeder,
    RunningJob,
    autoscaled,
    opened,
    running_job,
)
from headgate.research.giannakopoulos import SWITCHED
from headgate.runtime.autoscaler import autoscale_engine
from headgate.runtime.loop import Mode, SystemClock
from headgate.runtime.prometheus import Prometheus
from headgate.workloads.load import Load

PROGRAM = "click-fraud"
WAITS = 'headgate_backlog_records{{job="{job}-figures",operator="$operator"}}'
COMES = 'rate(headgate_records_arrived_total{{job="{job}-figures",operator="$operator"}}[5s])'
EVERY_S = 1.0
STALE_S = 10.0


@dataclass(frozen=True)
class FraudResult:
    """The results of a run."""

    run: FlinkRun
    began_s: float
    ended_s: float
    source: str
    """The operator that reads the topic, and waits with each record."""
    waits: TimedValues
    """Its backlog in records, from Prometheus."""
    comes_per_s: TimedValues
    samples: Sequence[JobSlots]
    decisions: Sequence[Decision]
    observations: Sequence[Observation]
    events: Sequence[Event]

    def slow_shares(self) -> TimedValues:
        """Return the backlog over the records that arrive in a second: the document's performance."""
        comes = dict(self.comes_per_s)
        return [(at_s, waits / comes[at_s]) for at_s, waits in self.waits if comes.get(at_s)]


def play(run: FlinkRun, kafka: LocalKafka, progress: Progress = lambda _: None) -> FraudResult:
    """Run the job to the end on a cluster of its own."""
    topic = f"clicks-{run.policy}"
    kafka.create_topic(topic, run.partitions)
    job = SubmittedJob(PROGRAM, TopicRecords(kafka.bootstrap, topic), run.policy, cost_ms=run.cost_ms)
    with running_job(run, job, progress) as running:
        return _under_load(run, running, TopicSink(kafka.bootstrap, topic))


def _under_load(run: FlinkRun, running: RunningJob, sink: TopicSink) -> FraudResult:
    url = running.url
    clock, record, events = SystemClock(), ControllerRecord(), list[Event]()
    with ExitStack() as cleanup:
        page_port = free_ports(1)[0]
        exporter = cleanup.enter_context(
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
        assert exporter.metrics_url is not None
        prometheus = cleanup.enter_context(LocalPrometheus([urlsplit(exporter.metrics_url).netloc]))
        watch = SlotWatch(url, running.job_id, clock.now).start()
        cleanup.callback(watch.stop)
        start_s = clock.now() + LEAD_S
        feeder = LoadFeeder(Load(run.workload, PROGRAM, run.seconds), sink, clock, start_s, running.report)
        cleanup.callback(feeder.stop)
        clock.wait_until(start_s + run.settled_s, threading.Event())
        engine = opened(url, run.policy, run.objective, clock, LocalProvider(url))
        source = engine.topology().sources[0]
        metrics = {
            "backlog": _query(WAITS, run.policy, prometheus.url),
            "input_rate_per_s": _query(COMES, run.policy, prometheus.url),
        }
        with autoscaled(run, engine, clock, record, events, metrics):
            feeder.join()
        ended_s = clock.now()
        span = (start_s + run.settled_s, ended_s, run.interval_s)
        waits = prometheus.over(_of(WAITS, run.policy, source), *span).get(source, [])
        comes = prometheus.over(_of(COMES, run.policy, source), *span).get(source, [])
    return FraudResult(
        run, start_s, ended_s, source, waits, comes, tuple(watch.samples), record.decisions, record.observations, events
    )


def _query(query: str, job: str, url: str) -> Prometheus:
    return Prometheus(query.format(job=job), url, every=EVERY_S, stale_after=STALE_S)


def _of(query: str, job: str, operator: str) -> str:
    return query.format(job=job).replace("$operator", operator)


RESCALED = "rescaled"


@dataclass(frozen=True)
class FraudReport:
    """The document's figures of a run. As there, readings within ``discarded_s`` after a change do not count."""

    result: FraudResult
    discarded_s: float

    @property
    def bound(self) -> float:
        slo = self.result.run.objective.slo
        assert isinstance(slo, SlowShareSlo)
        return slo.share

    def violations_s(self) -> list[float]:
        """Return the times of readings that violated the objective, from the beginning of the load."""
        return [
            at_s - self.result.began_s
            for at_s, share in self.result.slow_shares()
            if share > self.bound and not self._is_discarded(at_s)
        ]

    def readings(self) -> int:
        return sum(not self._is_discarded(at_s) for at_s, _ in self.result.slow_shares())

    def _is_discarded(self, at_s: float) -> bool:
        return any(
            began_s - pause_s <= at_s < began_s + self.discarded_s
            for event in self.result.events
            if event.kind == RESCALED
            and isinstance(pause_s := event.numbers.get("pause_s"), float)
            and (began_s := event.at_s)
        )

    def explored_s(self) -> float | None:
        """Return how long the source was explored before optimal control; ``None`` if that never began."""
        source = self.result.source
        found = [event for event in self.result.events if event.kind == SWITCHED and source in event.detail]
        return found[0].at_s - self.result.began_s - self.result.run.settled_s if found else None

    def scale_outs(self, *, is_control: bool) -> list[Decision]:
        """Return the decisions to scale out the source, in exploration or in optimal control."""
        found = []
        for decision in self.result.decisions:
            verdict = decision.verdicts.get(self.result.source)
            if verdict is not None and verdict.change > 0:
                mode = verdict.numbers.get("mode", "exploration")
                if is_control == (mode != "exploration"):
                    found.append(decision)
        return found

    def ahead(self, decisions: Sequence[Decision], lately_s: float) -> int:
        """Count the decisions that were made without a recent violation."""
        violations_s = [self.result.began_s + at_s for at_s in self.violations_s()]
        return sum(not any(0 <= decision.at_s - at_s <= lately_s for at_s in violations_s) for decision in decisions)

    def mean_task_managers(self, from_s: float = 0.0, to_s: float = math.inf) -> float:
        """Return the mean over a part of the load, from the time from which the job was scaled."""
        return self._mean(
            [(sample.at_s, float(sample.task_managers)) for sample in changes(self.result.samples)], from_s, to_s
        )

    def mean_slots(self) -> float:
        return self._mean(
            [(sample.at_s, float(sample.slots)) for sample in changes(self.result.samples)], 0.0, math.inf
        )

    def _mean(self, course: Sequence[tuple[float, float]], from_s: float, to_s: float) -> float:
        began_s = self.result.began_s
        first_s = began_s + max(from_s, self.result.run.settled_s)
        last_s = min(began_s + to_s, self.result.ended_s)
        return seconds(course, first_s, last_s) / (last_s - first_s)

    def course(self) -> dict[str, JSON]:
        """Return the time series of the run as plain data."""
        result = self.result
        steps = list(changes(result.samples))
        return {
            "policy": result.run.policy,
            "bound": self.bound,
            "load": [(round(at_s - result.began_s, 1), round(value, 1)) for at_s, value in result.comes_per_s],
            "slow": [(round(at_s - result.began_s, 1), round(share, 3)) for at_s, share in result.slow_shares()],
            "slots": [(round(max(0.0, sample.at_s - result.began_s), 1), sample.slots) for sample in steps],
            "task_managers": [
                (round(max(0.0, sample.at_s - result.began_s), 1), sample.task_managers) for sample in steps
            ],
            "events": [
                {"at_s": round(event.at_s - result.began_s, 1), "kind": event.kind, "detail": event.detail}
                for event in result.events
            ],
            "sizes": [
                {
                    "at_s": round(decision.at_s - result.began_s, 1),
                    "sizes": {name: [verdict.current, verdict.target] for name, verdict in decision.verdicts.items()},
                    "why": decision.verdicts[result.source].reason if result.source in decision.verdicts else "",
                }
                for decision in result.decisions
                if not decision.is_hold
            ],
        }
