"""What readings say of jobs that were recorded on a real cluster, and of one whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headgate.core.reading_gate import ReadingGate
from headgate.core.topology import Topology
from headgate.core.types import Observation, Sample
from headgate.core.window import History
from headgate.engines.flink import FlinkEngine
from headgate.engines.flink.bottleneck import TimeShares, waiting_by_bottleneck
from headgate.engines.flink.graph import LONGEST, operator_name, operator_names
from headgate.engines.flink.responses import SubtaskWork
from headgate.engines.flink.work_counts import WorkCounts
from headgate.policies.frame.readings import is_steady
from headgate.testing.clock import FakeClock
from tests.engines.flink.recorded_jobs import observe_recorded
from tests.engines.flink.small_job import COUNT, SLOW, SOURCE, SmallJob, played_by
from tests.engines.flink.stand_in import StandIn, standing_in


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with standing_in() as stand_in:
        yield stand_in


def test_a_recorded_bottleneck_is_where_it_is(stand_in: StandIn) -> None:
    """500 records/s come to a source; an instance of the operator after it gets through 220/s."""
    engine, seen = observe_recorded(stand_in, "bottleneck", "three")
    assert engine.topology().streams == (("gen", "slow"), ("slow", "count"))
    last = seen[-1].samples
    # Nothing is read twice: the source is held back, and what waits there waits for who is slow.
    assert last["gen"].backlog == 0
    assert last["gen"].latency_s == 0
    assert (last["slow"].backlog or 0) > 1000
    assert (last["slow"].latency_s or 0) > 5
    assert (last["count"].backlog or 0) < 100
    assert last["slow"].processed_rate_per_s == pytest.approx(220, rel=0.1)
    # Sources of the old form do not say how busy they are.
    assert last["gen"].busy_s is None
    assert last["count"].late is not None


def test_a_job_recorded_on_flink_1_18_is_read_and_all_its_vertices_share_slots(stand_in: StandIn) -> None:
    """That release does not say which vertices share slots."""
    _, seen = observe_recorded(stand_in, "release_1_18", "slow")
    last = seen[-1].samples
    assert list(last) == ["events", "Calc", "results"]
    assert last["Calc"].done == 2173
    assert last["Calc"].backlog == 1427
    assert last["Calc"].busy_s == pytest.approx(10.97)
    priced = FlinkEngine(f"{stand_in.url}#slow", lambda: 0.0, price_per_slot_hour=3.0).topology()
    assert {priced.sizing_of(name).price_per_instance_hour for name in priced.operators} == {1.0}


def test_a_recorded_load_is_requested_of_all_that_come_after(stand_in: StandIn) -> None:
    engine, seen = observe_recorded(stand_in, "bottleneck", "three")
    history = History(engine.topology())
    for observation in seen:
        history.observe(observation)
    rates = {name: sample.input_rate_per_s for name in history.operators if (sample := history.sample(name))}
    assert rates["gen"] == pytest.approx(500, rel=0.15)
    # The throughput is less than half of it; the demand is not.
    assert rates["slow"] == pytest.approx(500, rel=0.3)
    slow = history.sample("slow")
    assert slow is not None
    assert slow.utilization == pytest.approx(1.0, abs=0.03)


def test_a_recorded_source_without_a_count_of_what_waits_says_so(stand_in: StandIn) -> None:
    engine, seen = observe_recorded(stand_in, "fork", "fork")
    assert engine.topology().operators == ("src", "GlobalWindowAggregate", "GroupAggregate")
    source = seen[-1].samples["src"]
    assert (source.arrived, source.backlog, source.latency_s) == (None, None, None)
    assert source.input_rate_per_s == pytest.approx(300, rel=0.2)
    group = seen[-1].samples["GroupAggregate"]
    assert group.done is not None
    assert group.backlog is not None
    assert group.backlog < 300


def test_the_age_is_that_of_the_metrics(stand_in: StandIn) -> None:
    _, seen = observe_recorded(stand_in, "bottleneck", "three")
    assert all(0 <= sample.age_s < 5 for observation in seen for sample in observation.samples.values())


# --------------------------------------------------------------------------------------------- where the truth is known


def observed(stand_in: StandIn, job: SmallJob, seconds: int, every_s: float = 5.0) -> list[Observation]:
    engine = FlinkEngine(played_by(job, stand_in), job.clock.now, late_after_s=10, sleep=lambda seconds: None)
    seen = [engine.observe()]
    for _ in range(round(seconds / every_s)):
        job.clock.advance(every_s)
        seen.append(engine.observe())
    return seen


def test_what_waits_and_how_long_is_known_of_the_bottleneck(stand_in: StandIn) -> None:
    """100/s come, 60/s get done: after a minute 2400 wait, and the oldest of them came 24 s ago."""
    job = SmallJob(FakeClock(1_000_000.0), offered_per_s=100)
    last = observed(stand_in, job, 60)[-1].samples
    assert last["slow"].backlog == pytest.approx(2400, rel=0.02)
    assert last["slow"].latency_s == pytest.approx(24, rel=0.1)
    assert last["clicks"].backlog == last["clicks"].latency_s == 0
    assert last["count"].backlog == pytest.approx(0, abs=5)
    assert last["slow"].arrived == pytest.approx(6000, rel=0.02)
    assert last["slow"].given == pytest.approx(3800, rel=0.05)
    assert last["slow"].processed_rate_per_s == pytest.approx(60, rel=0.01)
    # Those that came out after 10 s of waiting.
    assert last["count"].late == pytest.approx(60 * 35, rel=0.1)


def test_a_job_that_keeps_up_has_nothing_waiting(stand_in: StandIn) -> None:
    last = observed(stand_in, SmallJob(FakeClock(1_000_000.0), offered_per_s=40), 60)[-1].samples
    assert all((sample.latency_s or 0) < 0.5 for sample in last.values())
    assert last["count"].late == 0


def test_a_slow_source_is_its_own_bottleneck(stand_in: StandIn) -> None:
    job = SmallJob(FakeClock(1_000_000.0), offered_per_s=100)
    job.per_s[SOURCE], job.per_s[SLOW] = 50.0, 1000.0
    last = observed(stand_in, job, 60)[-1].samples
    assert last["clicks"].backlog == pytest.approx(3000, rel=0.02)
    assert last["slow"].backlog == pytest.approx(0, abs=5)
    assert last["slow"].arrived == pytest.approx(6000, rel=0.05)


def test_metrics_that_stand_still_are_no_reading(stand_in: StandIn) -> None:
    """Flink answers with what it had fetched before; nothing can be said of the time since."""
    job = SmallJob(FakeClock(1_000_000.0))
    engine = FlinkEngine(played_by(job, stand_in), job.clock.now, sleep=lambda seconds: None)
    engine.observe()
    job.clock.advance(5)
    engine.observe()
    stood = job.answer("GET", f"/jobs/{job.job}", None)
    job.clock.advance(5)

    def frozen(method: str, path: str, body: object) -> object:
        return stood if path == f"/jobs/{job.job}" else job.answer(method, path, body)

    stand_in.answered_by = frozen
    assert engine.observe().samples == {}
    stand_in.answered_by = job.answer
    assert engine.observe().samples["slow"].done == pytest.approx(600, rel=0.01)


@pytest.mark.parametrize(
    ("shares", "whose"),
    [
        ({"a": TimeShares(0.2, 0.8), "b": TimeShares(0.9, 0.0), "c": TimeShares(0.1, 0.0)}, "b"),
        ({"a": TimeShares(0.2, 0.8), "b": TimeShares(0.3, 0.7), "c": TimeShares(1.0, 0.0)}, "c"),
        ({"a": TimeShares(1.0, 0.0), "b": TimeShares(0.3, 0.0), "c": TimeShares(0.2, 0.0)}, "a"),
        ({"a": TimeShares(None, None), "b": TimeShares(0.95, 0.0), "c": TimeShares(0.2, 0.0)}, "b"),
        ({"a": TimeShares(None, None), "b": TimeShares(0.5, 0.0), "c": TimeShares(0.2, 0.0)}, "a"),
        ({}, "a"),
    ],
)
def test_records_wait_for_the_first_that_is_not_held_back(shares: dict[str, TimeShares], whose: str) -> None:
    chain = Topology.of(("a", "b"), ("b", "c"))
    found = waiting_by_bottleneck(chain, shares, {("a", "b"): 1.0, ("b", "c"): 1.0}, {"a": 100.0})
    assert found == {**dict.fromkeys(chain.operators, 0.0), whose: 100.0}


@pytest.mark.parametrize(
    ("vertex", "name"),
    [
        ("Source: Custom Source", "Custom-Source"),
        ("Sink: Print to Std. Out", "Print-to-Std-Out"),
        (
            "Window(TumblingEventTimeWindows(5000), EventTimeTrigger) -> Map",
            "Window-TumblingEventTimeWindows-5000-EventTimeTrigger",
        ),
        ("Source: src[1] -> (Calc[2] -> LocalWindowAggregate[4], Calc[9])", "src"),
        ("->", "vertex"),
        ("Ключ", "vertex"),
        ("x" * 200, "x" * LONGEST),
    ],
)
def test_names_can_stand_anywhere(vertex: str, name: str) -> None:
    assert operator_name(vertex) == name


def test_names_that_are_alike_are_numbered_and_stay_short() -> None:
    names = operator_names(["x" * 80] * 12)
    assert len(set(names)) == 12
    assert max(map(len, names)) == LONGEST


def test_a_reading_says_only_what_is_known(stand_in: StandIn) -> None:
    first = observed(stand_in, SmallJob(FakeClock(1_000_000.0)), 0)[0].samples["slow"]
    assert isinstance(first, Sample)
    assert first.processed_rate_per_s is None
    assert first.input_rate_per_s is None


def test_what_is_read_once_more_after_a_restart_has_not_come_once_more(stand_in: StandIn) -> None:
    """A source goes back to the last checkpoint, and says only a moment later what waits for it there."""
    clock = FakeClock(1_000_000.0)
    job = SmallJob(clock, offered_per_s=50)
    engine = FlinkEngine(played_by(job, stand_in), clock.now, sleep=lambda seconds: None)
    history = History(engine.topology())

    def look(after_s: float) -> float | None:
        clock.advance(after_s)
        history.observe(engine.observe())
        newest = history.sample("clicks")
        return None if newest is None else newest.input_rate_per_s

    for _ in range(3):
        look(2.0)
    job.restart()
    look(0.5)
    job.pending += 300
    assert [look(2.0) for _ in range(3)] == pytest.approx([50.0] * 3, rel=0.1)


def test_a_job_at_rest_is_not_one_that_works_off_a_queue(stand_in: StandIn) -> None:
    """Policies learn from readings of steady jobs; some records are always on their way."""
    clock = FakeClock(1_000_000.0)
    job = SmallJob(clock, offered_per_s=50)
    engine = FlinkEngine(played_by(job, stand_in), clock.now, sleep=lambda seconds: None)
    history = History(engine.topology())
    for _ in range(5):
        clock.advance(2.0)
        history.observe(engine.observe())
    slow = history.sample("slow")
    assert slow is not None
    assert (slow.latency_s or 0) > 0
    assert is_steady(history, "slow", slow)


def test_how_fast_an_operator_is_does_not_hang_on_one_reading(stand_in: StandIn) -> None:
    """Flink counts time in which a subtask waited only when that is over: until then it seems to have been busy."""
    clock = FakeClock(1_000_000.0)
    job = SmallJob(clock, offered_per_s=100)
    engine = FlinkEngine(played_by(job, stand_in), clock.now, sleep=lambda seconds: None)
    rates = []
    for look in range(20):
        not_counted_yet_s = 0.4 if look in (8, 13) else 0.0
        job.busy[SLOW] += not_counted_yet_s
        sample = engine.observe().samples["slow"]
        job.busy[SLOW] -= not_counted_yet_s
        rates.append(sample.processed_rate_per_s)
        clock.advance(2.0)
    assert rates[7:] == pytest.approx([60.0] * 13, rel=0.06)


def worked(done: float, busy_s: float, idle_s: float) -> SubtaskWork:
    return SubtaskWork.model_validate(
        {
            "read-records": done,
            "read-records-complete": True,
            "write-records": done,
            "write-records-complete": True,
            "accumulated-busy-time": 1000 * busy_s,
            "accumulated-idle-time": 1000 * idle_s,
            "accumulated-backpressured-time": 0,
        }
    )


def test_waiting_for_the_next_record_is_not_work() -> None:
    counts = WorkCounts()
    reported = [
        worked(10, 1.0, 9.0),
        worked(10, 3.0, 9.0),
        worked(10, 5.0, 9.0),
        worked(10, 1.5, 14.5),
        worked(12, 2.0, 15),
    ]
    found = [counts.at(work, has_work=False) for work in reported]
    assert [count.busy_s for count in found] == [1.0, 1.0, 1.0, 1.0, 2.0]
    # What they had is what has passed, whatever it is counted as.
    assert [count.available_s for count in found] == [10.0, 12.0, 14.0, 16.0, 17.0]


def test_a_record_that_takes_long_is_work_before_it_is_done() -> None:
    counts = WorkCounts()
    found = [counts.at(work, has_work=True) for work in (worked(10, 1.0, 9.0), worked(10, 3.0, 9.0))]
    assert [count.busy_s for count in found] == [1.0, 3.0]


def test_what_comes_while_a_source_is_held_back_and_says_nothing_is_not_nothing(stand_in: StandIn) -> None:
    """100/s come, 60/s get done; the source reads 600 at once, and then nothing for ten seconds."""
    clock = FakeClock(1_000_000.0)
    job = SmallJob(clock, offered_per_s=100)
    job.buffer = 600.0
    clock.advance(30)
    engine = FlinkEngine(played_by(job, stand_in), clock.now, sleep=lambda seconds: None)
    history = History(engine.topology())
    rates, reported = [], set()
    for _ in range(40):
        history.observe(engine.observe())
        slow = history.sample("slow")
        assert slow is not None
        rates.append(slow.input_rate_per_s)
        reported.add(job.reported_pending)
        clock.advance(2)
    assert len(reported) < 20, "most of the time it says nothing new"
    known = [rate for rate in rates if rate is not None]
    assert len(known) > 25
    assert min(sum(known[place : place + 5]) for place in range(len(known) - 5)) > 5 * 50, "over any ten seconds"
    assert sum(known) / len(known) == pytest.approx(100, rel=0.1)
    first, last = (history.observations[place].samples["slow"] for place in (-20, -1))
    assert first.arrived is not None
    assert last.arrived is not None
    assert (last.arrived - first.arrived) / (last.at_s - first.at_s) == pytest.approx(100, rel=0.1)


def test_who_has_next_to_nothing_to_do_is_known_to_be_fast(stand_in: StandIn) -> None:
    """A sink that lets records go: what it takes is less than Flink counts."""
    clock = FakeClock(1_000_000.0)
    job = SmallJob(clock, offered_per_s=50)
    job.per_s[COUNT] = 1e7
    engine = FlinkEngine(played_by(job, stand_in), clock.now, sleep=lambda seconds: None)
    rates = []
    for _ in range(8):
        rates.append(engine.observe().samples["count"].processed_rate_per_s)
        clock.advance(2.0)
    assert rates[:2] == [None, None], "after some seconds"
    assert all(rate is not None and rate > 10_000 for rate in rates[-3:])


@pytest.mark.parametrize(
    ("name", "job"), [("bottleneck", "three"), ("fork", "fork"), ("partitions", "fast"), ("release_1_18", "slow")]
)
def test_what_was_recorded_on_a_cluster_passes_the_gate_as_it_was(stand_in: StandIn, name: str, job: str) -> None:
    _, seen = observe_recorded(stand_in, name, job)
    gate = ReadingGate()
    for observation in seen:
        result = gate.check(observation)
        assert result.observation is observation, result.events
        assert not result.doubted


@pytest.mark.parametrize("offered_per_s", [40, 100])
def test_true_readings_of_vertices_pass_the_gate_also_while_they_fall_behind(
    stand_in: StandIn, offered_per_s: float
) -> None:
    gate = ReadingGate()
    for observation in observed(stand_in, SmallJob(FakeClock(1_000_000.0), offered_per_s=offered_per_s), 300):
        result = gate.check(observation)
        assert result.observation is observation, result.events
        assert not result.doubted


def test_a_wrong_backlog_between_vertices_stops_their_scale_in(stand_in: StandIn) -> None:
    _, seen = observe_recorded(stand_in, "bottleneck", "three")
    gate = ReadingGate()
    for observation in seen[:-1]:
        gate.check(observation)
    wrong = {
        key: replace(sample, done=1000.0 * (sample.done or 0.0), backlog=math.nan)
        for key, sample in seen[-1].samples.items()
    }
    result = gate.check(replace(seen[-1], samples=wrong))
    assert result.doubted == frozenset(wrong)
    assert all(sample.backlog is None for sample in result.observation.samples.values())
