"""Loads that come by the clock, and the figures of policies on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headgate.core.objective import parse_objective
from headgate.research.promises.clock import (
    CHOSEN_SEEDS,
    FAMILIES,
    HELD_BACK_SEEDS,
    SWING,
    ClockMatrix,
    ClockRun,
    ClockTask,
    clock_cache,
    clock_rows,
    late_share,
    make_case,
    paid_s,
    run_clocks,
)
from headgate.research.promises.runs import JOB, SERVICE_RATE_PER_S
from headgate.runtime.simulate import simulate
from headgate.workloads import parse_workload
from headgate.workloads.clock_load import make_clock
from headgate.workloads.day_load import STEP_S


def test_late_records_and_cost_of_the_whole_run_are_those_of_its_summary() -> None:
    load = "clock:flush,peak=600,lasting=2h,seed=1"
    result = simulate(
        "hpa",
        parse_workload(load),
        objective=parse_objective("latency p95 < 10s").within(1, 40),
        service_rate_per_s=SERVICE_RATE_PER_S,
        model=JOB,
        startup_s=30.0,
        seconds=7200.0,
    )
    course, rates = result.record.truth, make_clock("flush", 1, 600.0, 7200.0).rates_per_s
    assert course is not None
    whole = late_share(course, rates, 10.0, 0.0)
    assert whole > 0.01
    assert 100 * whole == pytest.approx(result.summary.late_records_pct, rel=0.01)
    assert paid_s(course, 0.0) == pytest.approx(result.summary.instance_seconds)
    halves = [late_share(course, rates, 10.0, 3600.0), late_share(replace(course, to_s=3600.0), rates[:720], 10.0, 0.0)]
    assert min(halves) < whole < max(halves)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "week"])
def test_a_seed_picks_the_pattern_and_chosen_seeds_differ_from_held_back_ones(family: str) -> None:
    cases = [make_case(family, seed) for seed in (*CHOSEN_SEEDS, *HELD_BACK_SEEDS)]
    assert len({case.pattern for case in cases}) > 1 or len({case.rates_per_s.tobytes() for case in cases}) == len(
        cases
    )
    for case in cases:
        assert case.learned_s <= case.seconds / 2
        assert (case.family == SWING) == (not np.array_equal(case.rates_per_s, case.work_per_s))


def test_work_that_swings_is_one_on_average() -> None:
    case = make_case(SWING, 0)
    assert case.work_per_s.sum() / case.rates_per_s.sum() == pytest.approx(1.0, abs=0.05)


def test_rows_count_what_is_met_without_forgiving_anything_and_separate_held_back_seeds() -> None:
    runs = {
        ClockTask("autopilot", "flush", 0, 30.0): ClockRun(0.05, 0.01, 1.2, 1.1, 4.0),
        ClockTask("autopilot", "flush", 1, 30.0): ClockRun(0.0501, 0.0501, 1.4, 1.3, 4.0),
        ClockTask("autopilot", "hour", 100, 30.0): ClockRun(0.5, 0.04, 2.0, 1.0, 4.0),
    }
    rows = {(row["family"], row["seeds"]): row for row in clock_rows(runs)}
    assert rows["flush", "chosen"] | {"met": 1, "later_met": 1, "cost": 1.3, "runs": 2} == rows["flush", "chosen"]
    assert (rows["all", "held back"]["met"], rows["all", "held back"]["later_met"]) == (0, 1)


def test_finished_runs_are_not_run_again(tmp_path: Path) -> None:
    matrix = ClockMatrix(families=("onoff",), seeds=(0,), startups_s=(30.0,), policies=("static",))
    first = run_clocks(matrix, lambda _: None, clock_cache(tmp_path))
    cache = clock_cache(tmp_path)
    assert {task: cache.get(task) for task in matrix.tasks()} == first


def test_a_workload_of_a_family_can_be_written_reseeded_and_cut() -> None:
    load = parse_workload("clock:hour,peak=600,lasting=3h,seed=2")
    assert parse_workload(load.describe()).arrivals(0.0, 1e6) == load.arrivals(0.0, 1e6)
    assert load.arrivals(0.0, 3 * 3600.0) == load.arrivals(0.0, 1e9)
    assert load.rate_per_s(3 * 3600.0 - STEP_S) > 0
