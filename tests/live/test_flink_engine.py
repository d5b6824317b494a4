"""A Flink job with a slow middle, scaled from outside: readings are sane, and only the middle grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import headgate.apps.payloads  # noqa: F401 - registers them
from headgate.apps.flink.programs import SLOW_MIDDLE, SubmittedJob
from headgate.apps.flink.sources import TopicRecords
from headgate.apps.flink.submission import submit
from headgate.core.contracts import Engine
from headgate.core.types import Decision, Event, Observation, Sample, Verdict
from headgate.core.window import Window
from headgate.engines.flink import FlinkEngine
from headgate.engines.flink.task_managers import LocalProvider
from headgate.local.flink import LocalFlink
from headgate.local.flink_rest import drain
from headgate.local.kafka import LocalKafka
from headgate.local.records import TopicSink
from headgate.runtime.autoscaler import autoscale_engine
from headgate.runtime.loop import SystemClock
from headgate.testing import check_engine
from headgate.workloads.load import Load
from headgate.workloads.payloads import DEFAULT
from headgate.workloads.replay import Replay
from tests.live.flink_jobs import RunningJob
from tests.live.support import eventually

PARTITIONS = 4
OFFERED_PER_S, COST_MS = 300.0, 5.0
SECONDS = 300.0
START_MS = 1_700_000_000_000


@pytest.fixture
def job(request: pytest.FixtureRequest, flink: LocalFlink, kafka: LocalKafka) -> Iterator[str]:
    with slow_job(flink, kafka, TopicRecords(kafka.bootstrap, str(request.function.__name__))) as name:
        yield name


@contextmanager
def slow_job(flink: LocalFlink, kafka: LocalKafka, records: TopicRecords, home: Path | None = None) -> Iterator[str]:
    """The name of a job that one instance of its middle is too slow for; ``home`` is the Flink of the cluster."""
    kafka.create_topic(records.topic, PARTITIONS)
    load = Load(f"constant:{OFFERED_PER_S}", DEFAULT, SECONDS)
    stop = threading.Event()
    replay = Replay(
        load, load.make_payloads(), TopicSink(kafka.bootstrap, records.topic), SystemClock(), start_ms=START_MS
    )
    feeder = threading.Thread(target=replay.run, args=(stop,), daemon=True)
    feeder.start()
    number = submit(SubmittedJob(SLOW_MIDDLE, records, "slow", None, cost_ms=COST_MS), flink.url, home)
    eventually("all of its instances to run", lambda: bool(RunningJob(flink, number).sizes()))
    yield "slow"
    stop.set()
    feeder.join()
    drain(flink.url, number)


@pytest.mark.timeout(180)
def test_a_policy_grows_the_slow_middle_of_a_real_job_and_nothing_else(flink: LocalFlink, job: str) -> None:
    check_growth(flink, job)


def check_growth(flink: LocalFlink, job: str) -> None:
    engine = FlinkEngine(f"{flink.url}#{job}", most=4, late_after_s=10, provider=LocalProvider(flink.url))
    source, middle, *_ = engine.topology().order
    eventually("a first reading", lambda: bool(engine.observe().samples), 60.0)
    events: list[Event] = []
    decided: list[Decision] = []
    # What is decided on has to be some seconds of readings at one size.
    settings = {"policy_interval_s": 10, "warm_up_s": 6}
    with autoscale_engine(
        engine,
        policy="ds2",
        settings=settings,
        instances=(1, 4),
        interval="2s",
        watchers=[lambda seen, decision: decided.append(decision) if decision is not None else None],
        event_watchers=[events.append],
    ) as running:
        window = running.loop.history
        eventually("the middle to grow", lambda: _ready(window, middle) >= 2, 60.0)
        eventually("a reading at that size", lambda: any(event.kind == "rescaled" for event in events), 30.0)
        sample, first = window.sample(middle), window.sample(source)
    changes: list[Verdict] = [
        verdict for decision in decided for verdict in decision.verdicts.values() if verdict.change
    ]
    assert {change.operator for change in changes} == {middle}, changes
    assert all(change.change > 0 for change in changes[:1])
    assert sample is not None
    assert first is not None
    assert first.useful_instances == PARTITIONS
    assert first.backlog is not None, "the source tells what waits"
    # An instance gets through 1000 / COST_MS records in a second of work, and a little less on a loaded machine.
    alone = [
        seen.samples[middle] for seen in window.observations if middle in seen.samples and _size(seen, middle) == 1
    ]
    done, busy_s = (_more(alone, value_of) for value_of in (lambda sample: sample.done, lambda sample: sample.busy_s))
    assert busy_s > 2, "there was work for some seconds"
    assert 0.4 * 1000 / COST_MS < done / busy_s <= 1.1 * 1000 / COST_MS
    settled = [sample for sample in alone if not sample.warming]
    # Flink counts time that was not spent at work after five seconds only: rates over a shorter time may be too high.
    reported = [
        rate for sample in settled if sample.at_s - settled[0].at_s >= 5 and (rate := sample.processed_rate_per_s)
    ]
    assert reported
    assert 0.4 * 1000 / COST_MS < min(reported) <= max(reported) <= 1.1 * 1000 / COST_MS
    offered = [sample.input_rate_per_s for sample in window.samples(source) if sample.input_rate_per_s]
    assert 0.5 * OFFERED_PER_S < sum(offered) / len(offered) < 2 * OFFERED_PER_S
    pause_s = engine.usual_pause_s
    assert pause_s is not None
    assert 0 < pause_s < 20


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_it_keeps_the_engine_contract(flink: LocalFlink, job: str) -> None:
    check_contract(flink, job)


def check_contract(flink: LocalFlink, job: str) -> None:
    def at_work() -> FlinkEngine:
        made = FlinkEngine(f"{flink.url}#{job}", most=4, late_after_s=10)
        eventually("a reading", lambda: bool(made.observe().samples))
        return made

    check_engine(at_work, _settle)


def _settle(engine: Engine) -> None:
    def is_at_work() -> bool:
        seen = engine.observe()
        return bool(seen.samples) and all(instance.ready == instance.planned for instance in seen.instances.values())

    eventually("readings at these sizes", is_at_work)
    time.sleep(1.5)  # Flink's figures are half a second old: what is looked at next has to be another moment.


def _size(seen: Observation, operator: str) -> int:
    return seen.instances[operator].ready


def _more(samples: Sequence[Sample], value_of: Callable[[Sample], float | None]) -> float:
    """By how much a count went on from the first to the last of some readings."""
    return (value_of(samples[-1]) or 0.0) - (value_of(samples[0]) or 0.0)


def _ready(window: Window, operator: str) -> int:
    instances = window.instances(operator)
    return 0 if instances is None else instances.ready
