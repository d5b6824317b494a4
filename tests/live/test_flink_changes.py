"""A real Flink job while it is scaled and something else happens to it: TaskManagers that are not needed any more, an
upgrade under the same name, too few slots, an end, and a JobManager that does not answer."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined] # its stubs do not name it

import headgate.apps.payloads  # noqa: F401 - registers them
from headgate.apps.flink.programs import SLOW_MIDDLE, SubmittedJob
from headgate.apps.flink.sources import TopicRecords
from headgate.apps.flink.submission import submit
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Event, Outcome, Verdict
from headgate.engines.flink import FlinkEngine
from headgate.engines.flink.task_managers import LocalProvider
from headgate.local.flink import LocalFlink
from headgate.local.flink_rest import flink_response, stop_with_savepoint
from headgate.local.kafka import LocalKafka
from headgate.local.records import TopicSink
from headgate.research.flink.run import ControllerRecord, LoadFeeder, opened
from headgate.runtime.autoscaler import Autoscaler, autoscale_engine
from headgate.runtime.loop import SystemClock
from headgate.workloads.load import Load
from headgate.workloads.payloads import DEFAULT
from tests.live.flink_jobs import RunningJob, cancel
from tests.live.support import eventually, suspended
from tests.live.test_flink_policies import MIDDLE, SINK, SOURCE, resize

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

OBJECTIVE = parse_objective("latency p95 < 10s").within(1, 8)
COST_MS = 5.0
PARTITIONS = 4
QUICK = {"policy_interval_s": 6, "warm_up_s": 6}


def program(kafka: LocalKafka, name: str, **more: Any) -> SubmittedJob:
    return SubmittedJob(SLOW_MIDDLE, TopicRecords(kafka.bootstrap, name), name, cost_ms=COST_MS, **more)


@contextmanager
def at_work(flink: LocalFlink, job: SubmittedJob) -> Iterator[str]:
    """A job, by its number, as long as this lasts."""
    number = submit(job, flink.url)
    try:
        yield number
    finally:
        cancel(flink, job.name)


@contextmanager
def fed(kafka: LocalKafka, name: str, workload: str, app: str = DEFAULT) -> Iterator[None]:
    """Records for a topic, as long as this lasts."""
    clock = SystemClock()
    sink = TopicSink(kafka.bootstrap, name)
    feeder = LoadFeeder(Load(workload, app, 900.0), sink, clock, clock.now(), lambda _: None)
    try:
        yield
    finally:
        feeder.stop()


class Scaled:
    """A job that is being scaled by ds2, and all that is seen of it."""

    running: Autoscaler

    def __init__(self, flink: LocalFlink, name: str, **more: Any) -> None:
        self.clock, self.seen, self.events = SystemClock(), ControllerRecord(), list[Event]()
        eventually(
            "the job", lambda: any(job["name"] == name for job in flink_response(flink.url, "jobs/overview")["jobs"])
        )
        first = opened(flink.url, name, OBJECTIVE, self.clock)
        first.close()
        self.engine = FlinkEngine(f"{flink.url}#{name}", self.clock.now, most=8, late_after_s=10, **more)

    def __enter__(self) -> Scaled:
        self.running = autoscale_engine(
            self.engine,
            objective=OBJECTIVE,
            policy="ds2",
            settings=QUICK,
            interval=2.0,
            clock=self.clock,
            watchers=[self.seen],
            event_watchers=[self.events.append],
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.running.stop()

    def ready(self, operator: str = MIDDLE) -> int:
        return self.seen.observations[-1].instances[operator].ready if self.seen.observations else 0

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    def reported(self, kind: str) -> list[str]:
        return [event.detail for event in self.events if event.kind == kind]

    def changes(self, since_s: float = 0.0) -> list[int]:
        decided = [decision for decision in self.seen.decisions if decision.at_s >= since_s]
        return [verdict.change for decision in decided for verdict in decision.verdicts.values() if verdict.change]

    def done(self, operator: str = MIDDLE) -> list[float]:
        samples = [
            observation.samples[operator].done
            for observation in self.seen.observations
            if operator in observation.samples
        ]
        return [done for done in samples if done is not None]


def test_what_a_smaller_load_leaves_free_is_drained_and_stopped(kafka: LocalKafka) -> None:
    name = "shrinks"
    kafka.create_topic(name, PARTITIONS)
    with LocalFlink(taskmanagers=1, slots=1) as flink:
        with (
            at_work(flink, program(kafka, name)),
            fed(kafka, name, "constant:30"),
            Scaled(flink, name, provider=LocalProvider(flink.url)) as scaled,
        ):
            with fed(kafka, name, "constant:400"):
                eventually("the middle to grow", lambda: scaled.ready() >= 3, 120.0)
            grown = len(flink.cluster.taskmanagers())
            assert grown >= 3
            assert "taskmanagers-added" in scaled.kinds()
            eventually("the middle to shrink", lambda: scaled.ready() == 1, 120.0)
            smaller_s = scaled.clock.now()
            eventually("what is free to be stopped", lambda: len(flink.cluster.taskmanagers()) == 1, 120.0)
            eventually("an event of it", lambda: "taskmanagers-removed" in scaled.kinds(), 10.0)
            time.sleep(6)  # A job that lost a TaskManager would restart within this time.
            restarted = [event for event in scaled.events if event.kind == "job-restarted" and event.at_s > smaller_s]
        assert not restarted, "nothing ran on what was stopped"
        assert all(earlier <= other for earlier, other in pairwise(scaled.done())), "counts go on"
        assert flink.cluster.wanted() == [taskmanager.id for taskmanager in flink.cluster.taskmanagers()]


def test_a_source_gets_as_many_instances_as_its_topic_has_partitions(flink: LocalFlink, kafka: LocalKafka) -> None:
    """300 records/s where an instance gets through 50: six would be needed, and two can read, then four."""
    name = "two-partitions"
    kafka.create_topic(name, 2)
    job = SubmittedJob("click-fraud", TopicRecords(kafka.bootstrap, name), name, cost_ms=20.0)
    with at_work(flink, job), fed(kafka, name, "constant:300", "click-fraud"), Scaled(flink, name) as scaled:
        (source,) = scaled.engine.topology().sources
        eventually("both to be read side by side", lambda: scaled.ready(source) == 2, 120.0)
        grown_s = scaled.clock.now()
        eventually("two more decisions that say why", lambda: len(_why_no_more(scaled, source, grown_s)) >= 2, 60.0)
        assert scaled.seen.observations[-1].instances[source].planned == 2
        assert all(why == "no more than 2 instances" for why in _why_no_more(scaled, source, grown_s))
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_partitions([NewPartitions(name, 4)])[name].result()
        eventually("all four to be read side by side", lambda: scaled.ready(source) == 4, 120.0)


def _why_no_more(scaled: Scaled, source: str, since_s: float) -> list[str]:
    decided = [decision.verdicts[source] for decision in scaled.seen.decisions if decision.at_s >= since_s]
    notes = [note.why for verdict in decided for note in verdict.notes if note.guard == "useful" and note.why]
    return [found[0] for why in notes if (found := re.search(r"no more than \d+ instances", why))]


def test_an_upgrade_under_the_same_name_is_followed(flink: LocalFlink, kafka: LocalKafka) -> None:
    name = "upgraded"
    kafka.create_topic(name, PARTITIONS)
    with at_work(flink, program(kafka, name)) as first, fed(kafka, name, "constant:300"), Scaled(flink, name) as scaled:
        eventually("the middle to grow", lambda: scaled.ready() >= 2, 120.0)
        before, size, stopped_s = scaled.done()[-1], scaled.ready(), scaled.clock.now()
        savepoint = stop_with_savepoint(flink.url, first)
        eventually(
            "an event of its end", lambda: any("no other of that name" in event.detail for event in scaled.events)
        )
        second = submit(program(kafka, name, savepoint=savepoint), flink.url)
        eventually("the new one to be followed", lambda: bool(scaled.reported("job-followed")), 60.0)
        followed_s = scaled.clock.now()
        eventually("it to have the size of the one before", lambda: scaled.ready() >= size, 60.0)
        eventually("readings of it", lambda: scaled.done()[-1] > before + 1000, 60.0)
    assert second in scaled.reported("job-followed")[0]
    assert all(earlier <= other for earlier, other in pairwise(scaled.done())), "counts go on"
    # 300 records a second arrived all the time: what it had done is not done once more, and nothing is left out.
    arrived = 300.0 * (scaled.clock.now() - stopped_s)
    assert scaled.done()[-1] - before < 1.5 * arrived
    assert not [change for change in scaled.changes(stopped_s) if change < 0], "nothing is made smaller meanwhile"
    rates = [
        sample.input_rate_per_s
        for observation in scaled.running.loop.history.observations
        if observation.at_s > followed_s and (sample := observation.samples.get(SOURCE)) is not None
    ]
    assert all(rate < 1000 for rate in rates if rate is not None), rates


def test_more_slots_than_there_are_come_when_task_managers_do(flink: LocalFlink, kafka: LocalKafka) -> None:
    name = "too-many"
    kafka.create_topic(name, PARTITIONS)
    with at_work(flink, program(kafka, name)), fed(kafka, name, "constant:100"):
        engine = opened(flink.url, name, OBJECTIVE, SystemClock())
        slots = sum(taskmanager.slots for taskmanager in flink.cluster.taskmanagers())
        receipt = apply(engine, {SOURCE: 1, MIDDLE: slots + 2, SINK: 1})
        assert receipt == (
            Outcome.ACCEPTED,
            "the cluster has 2 slots too few: Flink runs what fits, and uses more when TaskManagers register",
        )
        eventually("what fits", lambda: engine.observe().instances[MIDDLE].ready == slots)
        sizes = engine.observe().instances[MIDDLE]
        assert (sizes.planned, sizes.requested) == (slots + 2, slots + 2)
        flink.cluster.add_taskmanager()
        eventually("what did not fit", lambda: engine.observe().instances[MIDDLE].ready == slots + 2)
        resize(engine, {SOURCE: 1, MIDDLE: 1, SINK: 1})
        eventually("one that is not needed", lambda: bool(_free(flink)))
        flink.cluster.remove_taskmanager(_free(flink)[0])
        flink.cluster.await_taskmanagers()
        engine.close()


def apply(engine: FlinkEngine, sizes: dict[str, int]) -> tuple[Outcome, str]:
    verdicts = {name: Verdict(name, 1, size, size, "test", "the test asks for it") for name, size in sizes.items()}
    answer = engine.apply(Decision(engine.now(), "test", verdicts)).answers[MIDDLE]
    return answer.outcome, answer.detail


def _free(flink: LocalFlink) -> list[str]:
    """Which one the job stays on is for Flink to choose."""
    return [taskmanager.id for taskmanager in flink.cluster.taskmanagers() if taskmanager.is_drained]


def test_a_job_that_is_cancelled_is_waited_for_and_then_let_go(flink: LocalFlink, kafka: LocalKafka) -> None:
    name = "cancelled"
    kafka.create_topic(name, PARTITIONS)
    with (
        at_work(flink, program(kafka, name)),
        fed(kafka, name, "constant:100"),
        Scaled(flink, name, gone_after_s=8.0) as scaled,
    ):
        eventually("a reading", lambda: len(scaled.done()) >= 2)
        cancelled_s = scaled.clock.now()
        cancel(flink, name)
        eventually("the loop to end", lambda: not scaled.running.is_alive, 60.0)
    reported = [event.detail for event in scaled.events if event.at_s >= cancelled_s]
    assert any("is CANCELED at" in message and "no other of that name runs yet" in message for message in reported), (
        reported
    )
    assert any("no other of that name came within" in message for message in reported), reported
    assert not scaled.changes(cancelled_s)


def test_a_job_manager_that_hangs_changes_nothing_until_it_answers_again(flink: LocalFlink, kafka: LocalKafka) -> None:
    name = "hangs"
    kafka.create_topic(name, PARTITIONS)
    with at_work(flink, program(kafka, name)) as job, fed(kafka, name, "constant:300"), Scaled(flink, name) as scaled:
        eventually("the middle to grow", lambda: scaled.ready() >= 2, 120.0)
        size = scaled.ready()
        (manager,) = RunningJob(flink, job).servers("StandaloneSession")
        hung_s = scaled.clock.now()
        with suspended(manager):
            eventually(
                "an event of it", lambda: any("no answer within 5 s" in event.detail for event in scaled.events), 30.0
            )
            threading.Event().wait(6)
        answers_s = scaled.clock.now()
        eventually("readings", lambda: scaled.seen.observations[-1].at_s > answers_s and scaled.ready() == size, 90.0)
        eventually("work", lambda: bool(scaled.seen.observations[-1].samples), 60.0)
        assert not [change for change in scaled.changes(hung_s) if change < 0]
    assert all(earlier <= other for earlier, other in pairwise(scaled.done())), "counts go on"
