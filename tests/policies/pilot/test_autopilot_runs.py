"""autopilot on simulated jobs: what it does as the load, the records or the bounds change."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import LatencySlo, Objective, parse_objective
from headgate.journal.memory import MemoryJournal
from headgate.policies import Batch, Sample
from headgate.research.promises import runs as cells
from headgate.research.promises.runs import make_load
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.testing import last_target
from headgate.workloads import Workload, parse_workload
from headgate.workloads.day_load import STEP_S
from headgate.workloads.steps import Steps
from tests.traces import needs_traces


def run(
    workload: str | Workload,
    *,
    seconds: float,
    bound_and_share: str = "latency p95 < 10s",
    bounds: tuple[int, int] = (1, 20),
    start: int = 5,
    **job: object,
) -> SimulationResult:
    """A job whose instances get through 50 records/s and take half a minute to start."""
    return simulate(
        "autopilot",
        parse_workload(workload) if isinstance(workload, str) else workload,
        objective=parse_objective(bound_and_share).within(*bounds),
        service_rate_per_s=50.0,
        model=MicroBatch(trigger_interval_s=2.0, overhead_s=0.4, noise=0.08, cold_factor=1.5, **job),  # type: ignore[arg-type]
        start=start,
        startup_s=30.0,
        interval_s=10.0,
        seconds=seconds,
    )


def changes(result: SimulationResult) -> list[tuple[float, int, int, str]]:
    found = ((entry.at_s, entry.verdicts["job"]) for entry in result.decisions)
    return [(at_s, entry.current, entry.target, entry.reason) for at_s, entry in found if entry.change]


def test_a_swinging_load_is_followed_within_what_is_requested_less_than_a_fixed_size_costs() -> None:
    result = run("sine:mean=300,amplitude=200,period=2h", seconds=2 * 3600)
    summary = result.summary
    assert summary.late_records_pct is not None
    assert summary.late_records_pct < 6.0
    # Twelve are needed at the peak, if they never change.
    assert summary.instance_seconds < 0.75 * 12 * 2 * 3600


def test_who_asks_for_more_pays_for_more() -> None:
    costs = [
        run("sine:mean=300,amplitude=200,period=1h", seconds=3600, bound_and_share=f"latency p{level} < 10s").summary
        for level in (50, 95, 99.9)
    ]
    paid = [entry.instance_seconds for entry in costs]
    assert paid == sorted(paid)
    assert paid[0] < 0.97 * paid[-1]
    late = [entry.late_records_pct or 0.0 for entry in costs]
    assert late == sorted(late, reverse=True)


def test_what_is_requested_by_time_is_counted_by_time() -> None:
    result = run(
        "periodic:base=40,peak=400,high=20m,low=100m",
        seconds=4 * 3600,
        bound_and_share="latency p95 < 10s by time",
        start=2,
    )
    price = result.state["operators"]["job"]["price"]
    assert price["lately"]["arrived"] == pytest.approx(price["lately"]["seconds"], rel=0.01), "seconds, not records"
    assert 0 < price["lately"]["late"] < 0.06 * price["lately"]["arrived"]


def test_no_change_is_taken_back_under_a_steady_load() -> None:
    made = [entry for entry in changes(run("constant:300", seconds=2 * 3600, start=8)) if entry[0] > 1800]
    undone = [
        (before, after)
        for before, after in pairwise(made)
        if after[0] - before[0] <= 120 and (before[2] - before[1]) * (after[2] - after[1]) < 0
    ]
    assert undone == []


@needs_traces
def test_no_change_is_taken_back_under_a_noisy_load_that_is_what_it_was() -> None:
    whole = make_load("wc98")
    load = replace(whole, rates_per_s=whole.rates_per_s[: round(4 * 3600 / STEP_S)])
    assert cells.run("autopilot", load, LatencySlo(10.0, 95.0), startup_s=30.0).undone == 0


@pytest.mark.parametrize("quiet_s", [90.0, 1200.0], ids=["young", "never seen such a load"])
def test_a_load_that_rises_tenfold_is_met_before_most_of_it_is_late(quiet_s: float) -> None:
    over_s = 180.0
    steps = [quiet_s, *(quiet_s + 5.0 * step for step in range(1, 37)), quiet_s + over_s + 600.0]
    rates = [40.0, *(40.0 + 360.0 * step / 36 for step in range(1, 37)), 400.0]
    result = run(Steps([0.0, *steps], rates, "tenfold"), seconds=quiet_s + over_s + 600.0, start=1)
    assert (result.summary.late_records_pct or 0.0) < 8.0
    assert result.summary.instance_seconds < 1.5 * (quiet_s + 5.5 * over_s + 10 * 600.0)


def test_a_job_that_starts_too_large_keeps_its_size_until_it_has_been_watched_for_a_while() -> None:
    first = changes(run("constant:100", seconds=1200, start=10))[0]
    assert first[0] >= 60
    assert first[1] == 10
    assert first[2] <= 4


def test_records_that_become_twice_as_heavy_are_noticed_within_a_minute() -> None:
    jump_s = 3600.0
    result = run(
        "constant:200", seconds=5400, work_factor=((0.0, 1.0), (jump_s, 1.0), (jump_s, 2.0), (2 * jump_s, 2.0))
    )
    after = [entry for entry in changes(result) if entry[0] >= jump_s]
    assert jump_s < after[0][0] <= jump_s + 60
    assert after[0][2] >= 8, "twice as much work, and what waits"
    assert result.observations[-1].samples["job"].latency_s == pytest.approx(3.0, abs=4.0)


def test_a_change_of_the_work_per_record_is_not_taken_for_the_fixed_time_of_batches() -> None:
    """Equal batches cannot tell the two apart; 22 % of the records were late where it was left to chance."""
    weight = tuple((150.0 * place, (1, 1.4, 1.6, 1.4, 1, 0.58, 0.4, 0.58)[place % 8]) for place in range(25))
    result = simulate(
        "autopilot",
        parse_workload("constant:150"),
        objective=parse_objective("latency p95 < 10s").within(1, 20),
        service_rate_per_s=50.0,
        model=MicroBatch(trigger_interval_s=2.0, overhead_s=0.25, cold_factor=2.0, work_factor=weight),
        startup_s=30.0,
        interval_s=5.0,
        seconds=3600.0,
    )
    assert result.summary.late_records_pct is not None
    assert result.summary.late_records_pct < 17


def test_a_period_that_will_miss_its_objective_is_reported_before_and_after_that_is_certain() -> None:
    journal = MemoryJournal()
    simulate(
        "autopilot",
        parse_workload("constant:60 + periodic:base=0,peak=600,high=60s,low=1740s | noise 30% every 300s seed 4"),
        objective=Objective(LatencySlo(10.0, 95.0, period_s=7200.0), 1, 40),
        service_rate_per_s=50.0,
        model=MicroBatch(trigger_interval_s=2.0, overhead_s=0.4, noise=0.08, cold_factor=1.5),
        start=2,
        startup_s=60.0,
        interval_s=10.0,
        seconds=1860.0,
        journal=journal,
    )
    reasons = [entry.verdicts["job"].reason for entry in journal.decisions()]
    likely = [place for place, reason in enumerate(reasons) if "is likely to miss the objective" in reason]
    certain = [place for place, reason in enumerate(reasons) if "the objective cannot be met in this period" in reason]
    assert 100 < min(likely) <= max(likely) < min(certain)
    assert "28 instances are enough for the largest load so far" in reasons[likely[0]]


def test_an_idle_job_may_be_without_instances_and_the_first_record_wakes_it() -> None:
    load = Steps([0.0, 1200.0, 4800.0, 6000.0], [100.0, 0.0, 100.0], "on and off")
    result = run(load, seconds=6000, bound_and_share="latency p95 < 60s", bounds=(0, 8), start=3)
    made = changes(result)
    (asleep,) = [entry for entry in made if entry[2] == 0]
    assert 1200 < asleep[0] < 2400
    woken = made[made.index(asleep) + 1]
    assert 4800 < woken[0] <= 4820
    sizes = [
        last_sample.instances["job"].planned for last_sample in result.observations if 2400 < last_sample.at_s < 4800
    ]
    assert set(sizes) == {0}
    assert (result.summary.slo_violation_pct or 0.0) < 10.0, "nobody waited for anything while it was idle"


def test_a_job_that_was_idle_from_the_start_goes_to_sleep_too() -> None:
    quiet = Steps([0.0, 1500.0, 1800.0], [0.0, 40.0], "quiet at first")
    (asleep, woken, *_) = changes(run(quiet, seconds=1800, bounds=(0, 20), start=1))
    assert asleep[2] == 0
    assert 60 <= asleep[0] < 120
    assert asleep[3].startswith("nothing has come for 60s, and nothing waits")
    assert woken[0] < 1530
    assert woken[2] >= 1


def test_a_policy_that_cannot_wake_a_job_does_not_get_to_send_it_to_sleep() -> None:
    with pytest.raises(InputError, match="min_instances 0 is not allowed with policy 'hpa'"):
        simulate(
            "hpa",
            parse_workload("constant:1"),
            objective=parse_objective("latency p95 < 10s").within(0, 4),
            service_rate_per_s=1.0,
            seconds=60.0,
        )


def test_more_than_there_are_partitions_is_not_requested_and_that_is_reported() -> None:
    result = run("constant:300", seconds=1200, start=2, partitions=4)
    made = changes(result)
    assert max(target for _, _, target, _ in made) == 4
    assert "more than 4 instances cannot help" in made[-1][3]


def test_what_it_expects_a_minute_ahead_comes_nine_times_out_of_ten() -> None:
    result = run("sine:mean=300,amplitude=200,period=3h", seconds=4 * 3600)
    calibrators = result.state["operators"]["job"]["grades"]
    shares = {name: entry["covered"] / entry["answered"] for name, entry in calibrators.items()}
    assert calibrators["backlog"]["answered"] > 1400
    assert shares["backlog"] == pytest.approx(0.9, abs=0.02)
    assert shares["latency_s"] == pytest.approx(0.9, abs=0.02)
    assert shares["instances"] >= 0.88, "a size that does not change is predicted too well"


def test_what_was_learned_goes_on_where_it_ended() -> None:
    first = run("sine:mean=300,amplitude=200,period=1h", seconds=3600)
    again = simulate(
        "autopilot",
        parse_workload("sine:mean=300,amplitude=200,period=1h"),
        objective=parse_objective("latency p95 < 10s").within(1, 20),
        service_rate_per_s=50.0,
        model=MicroBatch(trigger_interval_s=2.0, overhead_s=0.4, noise=0.08),
        start=5,
        startup_s=30.0,
        interval_s=10.0,
        seconds=60.0,
        state=first.state,
    )
    assert all(entry.verdicts["job"].code != "learning" for entry in again.decisions)
    assert again.state["operators"]["job"]["service"]["batches"] > first.state["operators"]["job"]["service"]["batches"]


def test_instances_are_there_when_a_burst_comes_by_the_clock_and_leave_when_it_is_over() -> None:
    """A job upstream flushes for a minute every quarter of an hour, which is twice as long as an instance starts."""
    period_s = 900.0
    result = run("periodic:base=100,peak=500,high=1m,low=14m", seconds=10 * period_s, start=11)
    sizes = {seen.at_s: seen.instances["job"] for seen in result.observations}
    begins_s = [840.0 + number * period_s for number in range(3, 9)]
    assert min(sizes[begin_s].ready for begin_s in begins_s) >= 9
    assert max(sizes[begin_s + 100].planned for begin_s in begins_s) <= 6
    assert max(sizes[begin_s - 100].planned for begin_s in begins_s) <= 6
    reasons = [entry[3] for entry in changes(result) if begins_s[0] - 80 < entry[0] < begins_s[0]]
    assert any("every 15 min, 3 of the last 3 times" in reason for reason in reasons)


@pytest.mark.parametrize("interval_s", [10.0, 30.0])
def test_an_overloaded_job_without_batches_gets_what_it_needs(interval_s: float) -> None:
    """All of its instances are always busy, so every span between two readings seems to be a batch of that length."""
    result = simulate(
        "autopilot",
        parse_workload("constant:65"),
        objective=parse_objective("latency p95 < 10s").within(1, 16),
        service_rate_per_s=10.0,
        start=1,
        startup_s=30.0,
        interval_s=interval_s,
        seconds=1800.0,
    )
    assert 7 <= result.observations[-1].instances["job"].ready <= 10
    assert result.observations[-1].samples["job"].latency_s == 0.0
    assert result.summary.late_records_pct is not None
    assert result.summary.late_records_pct < 20.0, "the start is late; the rest is not"


def test_a_cold_first_batch_is_not_load_and_what_it_called_for_is_given_back() -> None:
    """The first batch loads classes for ten seconds; one instance does 50 records/s, and 15/s arrive."""
    batches = (Batch(0.5, 11.0, 15.0, 0.0, 0.0, 2.0, 1), Batch(11.0, 15.0, 165.0, 1.0, 60.0, 2.0, 1))
    young = Sample("job", 0.0, arrived=0.0, done=0.0, late=0.0, backlog=0.0, trigger_interval_s=2.0)
    cold = replace(
        young, at_s=12.0, arrived=180.0, done=15.0, late=10.0, backlog=165.0, batches=batches[:1], batch_ended_s=11.0
    )
    cold = replace(cold, latency_s=11.0, running_s=1.0, processing_time_s=10.5, input_rate_per_s=15.0)
    warm = replace(cold, at_s=17.0, arrived=255.0, done=180.0, late=60.0, backlog=75.0, batches=batches[1:])
    warm = replace(warm, latency_s=5.0, batch_ended_s=15.0, processing_time_s=4.0)
    assert last_target("autopilot", "latency p95 < 10s", 1, young, cold).instances == 2
    assert last_target("autopilot", "latency p95 < 10s", 1, young, cold, warm).instances == 1


def test_a_reason_names_the_backlog_and_why_no_more_instances_are_added() -> None:
    result = simulate(
        "autopilot",
        parse_workload("constant:65"),
        objective=parse_objective("latency p95 < 10s").within(1, 4),
        service_rate_per_s=10.0,
        start=1,
        startup_s=30.0,
        interval_s=10.0,
        seconds=900.0,
    )
    reason = changes(result)[-1][3]
    assert "records waiting and 65/s arriving: 4 instances are the cheapest choice for the objective" in reason
    assert "an instance does 10/s, so 8 would be needed to catch up in 5m, and at most 4 are allowed" in reason
