"""A job that stands still when its size changes: that is learned, rolled forward, and has to pay for itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.objective import parse_objective
from headgate.core.types import Batch, Instances, Sample
from headgate.policies.pilot.late_price import LatePrice
from headgate.policies.pilot.lookahead import round_trip_cost_s
from headgate.policies.pilot.operator_model import OperatorModel
from headgate.policies.pilot.rescale_downtime import CHANGES, RescaleDowntime
from headgate.policies.pilot.rollout import BatchTimeParameters, JobState, PossibleFutures, Rollout
from headgate.policies.pilot.scale_in_window import LONGEST_PAYBACK_S, ScaleInWindow
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

EVERY_S = 2.0
BATCH_S = 1.0


def change(
    downtime: RescaleDowntime, at_s: float, sizes: tuple[int, int], batches: Sequence[Batch], backlog: float = 100.0
) -> None:
    """Readings every ten seconds around a change at ``at_s``, and the batches in them."""
    before: Sample | None = None
    for read_s in np.arange(at_s - 10, at_s + 61, 10.0):
        ended = [entry for entry in batches if read_s - 10 < entry.ended_s <= read_s]
        ready = sizes[0] if read_s < at_s + 10 else sizes[1]
        sample = Sample("job", read_s, batch_ended_s=read_s, backlog=backlog)
        downtime.observe_size(read_s, Instances(ready, ready, ready))
        for entry in ended:
            downtime.downtime_in_batch_s(entry, BATCH_S)
        downtime.conclude(before, sample)
        before = sample


def batches_around(at_s: float, *, gap_s: float = 0.0, inside_s: float = 0.0) -> list[Batch]:
    """One every two seconds; after ``at_s`` none starts for a while, or the one that runs takes longer."""
    found: list[Batch] = []
    starts_s = at_s - 10.0
    while starts_s < at_s + 60:
        is_first = starts_s >= at_s > starts_s - EVERY_S
        started_s = starts_s + (gap_s if is_first else 0.0)
        took_s = BATCH_S + (inside_s if is_first else 0.0)
        oldest_s = starts_s - EVERY_S
        found.append(Batch(started_s, started_s + took_s, 100.0, oldest_s, None, EVERY_S, warming=is_first))
        starts_s = max(starts_s + EVERY_S, started_s + took_s)
    return found


@pytest.mark.parametrize(
    ("gap_s", "inside_s", "learned_s"),
    [(0.0, 0.0, 0.0), (20.0, 0.0, 20.0), (0.0, 20.0, 20.0), (1.0, 0.0, 0.0), (0.0, 1.5, 0.0)],
)
@pytest.mark.parametrize("sizes", [(4, 6), (6, 4)])
def test_how_long_nothing_was_done_is_learned_from_batches(
    sizes: tuple[int, int], gap_s: float, inside_s: float, learned_s: float
) -> None:
    downtime = RescaleDowntime()
    change(downtime, 100.0, sizes, batches_around(100.0, gap_s=gap_s, inside_s=inside_s))
    assert downtime.usual_s == pytest.approx(learned_s, abs=0.1)
    again = RescaleDowntime()
    again.restore(downtime.to_json())
    assert again.usual_s == downtime.usual_s


def test_a_job_that_had_nothing_to_do_did_not_stand_still() -> None:
    downtime = RescaleDowntime()
    change(downtime, 100.0, (6, 4), batches_around(100.0, gap_s=20.0), backlog=0.0)
    assert downtime.to_json() == [0.0]


def test_without_a_change_a_gap_teaches_nothing() -> None:
    downtime = RescaleDowntime()
    change(downtime, 100.0, (4, 4), batches_around(100.0, gap_s=20.0))
    assert downtime.to_json() == []


def test_the_middle_of_the_last_changes_counts_and_one_that_did_not_stop_the_job_teaches_that() -> None:
    downtime, sizes = RescaleDowntime(), (4, 6)
    for number, gap_s in enumerate((20.0, 20.0, 45.0, 0.0, 20.0, *CHANGES * (0.0,))):
        at_s = 1000.0 * (number + 1)
        change(downtime, at_s, sizes, batches_around(at_s, gap_s=gap_s))
        sizes = (sizes[1], sizes[0])
        if number == CHANGES - 1:
            assert downtime.usual_s == pytest.approx(20.0, abs=0.1)
    assert downtime.usual_s == 0


def test_a_batch_that_only_warms_up_is_no_standstill_and_teaches_nothing() -> None:
    downtime = RescaleDowntime()
    change(downtime, 100.0, (4, 6), batches_around(100.0, inside_s=3.0))
    assert downtime.to_json() == []


@pytest.mark.parametrize(
    ("stalls_s", "learned"), [(0, [0.0]), (5, []), (30, [30.0])], ids=["none", "as long as a reading", "half a minute"]
)
def test_a_long_standstill_of_a_young_job_shows_in_the_progress_of_its_batch(
    stalls_s: int, learned: list[float]
) -> None:
    downtime, before, awaited = RescaleDowntime(), None, []
    for at_s in range(0, 121, 5):
        ready = 1 if at_s < 30 else 2
        arrived, done = 100.0 * at_s, 50.0 * (at_s if at_s <= 25 else max(25, at_s - stalls_s))
        sample = Sample(
            "job", at_s, arrived=arrived, done=0.0, backlog=arrived - done, batch_ended_s=1.0, running_s=at_s - 20.0
        )
        downtime.observe_size(at_s, Instances(ready, ready, ready))
        if at_s == 75:
            worked_s = downtime.downtime_in_batch_s(Batch(20, 75, 2500, 10, None, 2.0, 2, warming=stalls_s > 0), None)
            assert worked_s == (stalls_s if stalls_s > 5 else 0)
        if at_s == 100:
            downtime.downtime_in_batch_s(Batch(75, 100, 2500, 70, None, 2.0, 2), None)
        downtime.conclude(before, sample)
        awaited += [at_s] * downtime.is_awaited(at_s)
        before = sample
    assert downtime.to_json() == learned
    assert awaited == list(range(30, 26 + stalls_s, 5))


def test_without_batches_it_shows_in_what_is_done() -> None:
    downtime = RescaleDowntime()
    before: Sample | None = None
    for tick in range(8):
        ready, done = (4 if tick < 3 else 6), 1000.0 * (tick if tick < 3 else max(2, tick - 2))
        sample = Sample("job", 10.0 * tick, done=done, backlog=500.0)
        downtime.observe_size(sample.at_s, Instances(ready, ready, ready))
        downtime.conclude(before, sample)
        before = sample
    assert downtime.usual_s == 20


# ------------------------------------------------------------------------------------------------------------- rollout


def test_what_an_engine_has_measured_is_believed_however_short() -> None:
    """A Flink job stands still for less than the time between two readings, and Flink says for how long."""
    downtime = RescaleDowntime()
    before: Sample | None = None
    for read_s, ready, paused_s in ((0.0, 1, 0.0), (5.0, 1, 0.0), (10.0, 2, 0.6), (15.0, 2, 0.6)):
        sample = Sample("job", read_s, done=100 * read_s, backlog=50.0, paused_s=paused_s)
        downtime.observe_size(read_s, Instances(ready, ready, ready))
        downtime.conclude(before, sample)
        before = sample
    assert downtime.usual_s == pytest.approx(0.6)


def rolled(downtime_s: float, rate_per_s: float = 120.0, **changes: object) -> Rollout:
    """Four instances of 50 records/s each; others are there after 30 s."""
    known: dict[str, object] = {
        "arrived": np.full(12, 10 * rate_per_s),
        "waiting": 0.0,
        "batch_records": 0.0,
        "batch_started_s": 0.0,
        "ready": 4,
        "planned": 4,
        "pending_s": 30.0,
        "trigger_s": 2.0,
        "next_trigger_s": 1.0,
        "bound_s": 10.0,
    }
    now = JobState(**{**known, "downtime_s": downtime_s, **changes})  # type: ignore[arg-type]
    future = PossibleFutures(np.full((1, 30), 10.0 * rate_per_s), np.ones((1, 8)), np.array([30.0]))
    return Rollout(now, BatchTimeParameters(0.1, 0.02, 1.0, 1.0), future, 120.0)


def test_a_change_makes_late_what_waits_too_long_while_the_job_stands_still() -> None:
    sizes = np.array([3.0, 4.0, 6.0])
    without, short, long = (rolled(downtime_s).roll(sizes) for downtime_s in (0.0, 5.0, 20.0))
    assert without.late.max() == without.downtime_late.max() == 0
    assert short.late[1:].max() == 0, "shorter than the bound"
    assert long.late[1, 0] == 0, "the size stays"
    # Records of more than ten seconds, until it has caught up with 20 s of them.
    assert 120 * 10 < long.late[2, 0] < 120 * 30
    assert long.late[0, 0] > long.late[2, 0], "fewer take longer to catch up"
    assert (long.steady_late <= long.late + long.downtime_late).all()


def test_what_is_left_of_a_standstill_delays_what_waits() -> None:
    without_downtime, standing = (
        rolled(20.0, remaining_s=remaining_s).roll(np.array([4.0])) for remaining_s in (0.0, 15.0)
    )
    assert without_downtime.late[0, 0] == 0 < standing.late[0, 0]


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 2.0, 5.0]), st.integers(0, 12), st.booleans())
def test_loops_and_arrays_stand_still_alike(seed: int, trigger_s: float, ready: int, is_running: bool) -> None:
    random = np.random.default_rng(seed)
    rollout = rolled(
        random.choice([3.0, 20.0, 90.0]),
        remaining_s=random.choice([0.0, 7.0]),
        waiting=random.uniform(0, 3000),
        batch_records=random.uniform(1, 5000) if is_running else 0.0,
        batch_started_s=-random.uniform(0, 20),
        ready=ready,
        planned=ready + int(random.integers(3)),
        trigger_s=trigger_s,
    )
    sizes = np.array([1.0, 2.0, 5.0, 12.0, 13.0])
    looped, in_arrays = rollout.roll(sizes, in_loop=True), rollout.roll(sizes, in_loop=False)
    for name in ("late", "backlog", "latency_s", "steady_late", "downtime_late"):
        assert np.array_equal(getattr(looped, name), getattr(in_arrays, name)), name


# ------------------------------------------------------------------------------------------------------------ patience


@pytest.mark.parametrize(
    ("saved", "change_s", "after_s"),
    [(1, 0.0, 70.0), (1, 200.0, 300.0), (1, 1200.0, 1200.0), (4, 1200.0, 300.0), (1, 1e6, LONGEST_PAYBACK_S)],
)
def test_a_step_down_comes_when_it_would_have_paid_for_itself(saved: int, change_s: float, after_s: float) -> None:
    scale_in = ScaleInWindow()
    scale_in.largest_needed(0.0, 8, 30.0, planned=8, change_s=change_s)
    at_s = 0.0
    while scale_in.largest_needed(at_s, 8 - saved, 30.0, planned=8, change_s=change_s) == 8:
        at_s += 10.0
    assert at_s == pytest.approx(after_s, abs=20.0)


@pytest.mark.parametrize(("shortest_s", "after_s"), [(60.0, 300.0), (10.0, 50.0), (900.0, 900.0)])
def test_who_asks_for_less_patience_gets_it_also_where_the_job_stands_still(shortest_s: float, after_s: float) -> None:
    scale_in, at_s = ScaleInWindow(shortest_s), 0.0
    while scale_in.largest_needed(at_s, 4, 2.0, planned=8, change_s=8.0) == 8:
        at_s += 2.0
    assert at_s == pytest.approx(after_s, abs=4.0)


def test_a_step_down_takes_longer_the_more_of_what_may_be_late_is_used_up() -> None:
    shrinks_s = []
    for least_s in (0.0, 900.0, 1e9):
        scale_in, now = ScaleInWindow(), 0.0
        while scale_in.largest_needed(now, 4, 20.0, planned=8, change_s=400.0, least_s=least_s) == 8:
            now += 10
        shrinks_s.append(now)
    assert shrinks_s == [310.0, 910.0, LONGEST_PAYBACK_S + 10], "what was planned at first counts as right"


def stood_still(model: OperatorModel, seconds: float = 15.0) -> None:
    model.downtime.restore([seconds])


def late_readings(model: OperatorModel, until_s: float, *, latency_s: float, ready: int = 8) -> list[float]:
    """When a job is found to stay late, with a reading every ten seconds."""
    found = []
    for at_s in np.arange(0.0, until_s + 1, 10.0):
        sample = Sample("job", at_s, latency_s=latency_s)
        if model.stays_late(sample, Instances(8, 8, ready), 10.0, 180.0):
            found.append(float(at_s))
        model.last_sample = sample
    return found


def test_a_job_that_stays_late_has_more_work_than_was_predicted() -> None:
    model = OperatorModel(parse_objective("latency p95 < 10s").slo, LatePrice(0.05))
    stood_still(model)
    assert late_readings(model, 600.0, latency_s=14.0) == [180.0, 360.0, 540.0]
    assert 1.3 < model.strain < 1.33
    late_readings(model, 4 * 3600.0, latency_s=4.0)
    assert model.strain < 1.03, "it fades"


@pytest.mark.parametrize(("stands_s", "ready", "latency_s"), [(0.0, 8, 14.0), (15.0, 6, 14.0), (15.0, 8, 9.0)])
def test_others_have_not(stands_s: float, ready: int, latency_s: float) -> None:
    model = OperatorModel(parse_objective("latency p95 < 10s").slo, LatePrice(0.05))
    stood_still(model, stands_s)
    assert late_readings(model, 600.0, latency_s=latency_s, ready=ready) == []
    assert model.strain == 1.0


def test_fewer_are_taken_to_be_missed_in_full() -> None:
    model = OperatorModel(parse_objective("latency p95 < 10s").slo, LatePrice(0.05))
    for size, took_s in ((16, 2.5), (20, 2.4), (26, 2.3)) * 20:
        model.batch_time.learn(1500.0, size, took_s)
    assert model.instances_for(300.0, 5.0) < 4, "instances have hardly helped"
    assert 8 <= model.fewest_by(16, 300.0, 5.0) <= 9


def test_a_change_costs_more_where_less_may_be_late() -> None:
    costs = [
        round_trip_cost_s(1000.0, 0.01, rate_per_s=100.0, allowed_share=share, downtime_s=20.0, planned=4)
        for share in (0.5, 0.05, 0.01)
    ]
    assert costs == [180.0, 400.0, 2000.0]


# ---------------------------------------------------------------------------------------------------------------- runs


def run(pause_s: float, hours: float = 3.0) -> SimulationResult:
    """A job whose instances get through 50 records/s, under a slow wave."""
    return simulate(
        "autopilot",
        parse_workload("sine:mean=300,amplitude=150,period=2h"),
        objective=parse_objective("latency p95 < 10s").within(1, 20),
        service_rate_per_s=50.0,
        model=MicroBatch(trigger_interval_s=2.0, overhead_s=0.4, noise=0.08, cold_factor=1.5, rescale_pause_s=pause_s),
        start=9,
        startup_s=30.0,
        interval_s=10.0,
        seconds=3600 * hours,
    )


def changes(result: SimulationResult) -> int:
    return sum(entry.verdicts["job"].change != 0 for entry in result.decisions)


def test_a_job_that_stands_still_changes_its_size_seldom_and_keeps_what_is_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = run(20.0, hours=6)
    monkeypatch.setattr(RescaleDowntime, "usual_s", property(lambda self: 0.0))
    unknown = run(20.0, hours=6)
    assert known.state["operators"]["job"]["standstill"][-1] == pytest.approx(20.0, abs=3.0)
    assert 2 * changes(known) <= changes(unknown)
    assert known.summary.late_records_pct is not None
    assert unknown.summary.late_records_pct is not None
    # The first steps are taken before it is known what they cost.
    assert known.summary.late_records_pct <= 5.5
    assert unknown.summary.late_records_pct > 3 * known.summary.late_records_pct


def test_a_job_that_hardly_stands_still_is_sized_as_one_that_does_not() -> None:
    result = run(1.0, hours=1.0)
    assert changes(result) > 0
    assert not any(result.state["operators"]["job"]["standstill"])


def test_a_standstill_is_not_taken_for_a_lack_of_instances() -> None:
    """Found by ``lab break``: it went 1 → 2 → 3 → 5 → 8 → 16 → 20 → 4 → 12, and 35 % of the records were late."""
    swing = ((0, 1), (150, 1.6), (300, 1.8), (450, 1.6), (600, 1), (750, 0.43), (900, 0.2), (1050, 0.43), (1200, 1))
    result = simulate(
        "autopilot",
        parse_workload("constant:75"),
        objective=parse_objective("latency p95 < 10s").within(1, 20),
        service_rate_per_s=50.0,
        model=MicroBatch(
            trigger_interval_s=2.0, overhead_s=0.25, cold_factor=2.5, rescale_pause_s=27.0, work_factor=swing
        ),
        start=1,
        interval_s=5.0,
        seconds=1200,
    )
    assert changes(result) <= 3
    assert result.summary.late_records_pct is not None
    assert result.summary.late_records_pct < 28
    assert result.summary.mean_instances < 6
