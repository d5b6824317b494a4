"""Of what autopilot expects nine of ten answers lie within the interval; ``bench_autopilot.py`` looks at whole days."""

from __future__ import annotations

import pytest

from headgate.core.objective import parse_objective
from headgate.journal.memory import MemoryJournal
from headgate.render.story import coverage
from headgate.runtime.simulate import simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

HOURS = 4


@pytest.mark.parametrize("start", [1, 6])
def test_the_intervals_of_a_young_job_begin_wide(start: int) -> None:
    journal = MemoryJournal()
    simulate(
        "autopilot",
        parse_workload("constant:150 | noise 15% every 30s seed 3"),
        objective=parse_objective("latency p95 < 10s").within(1, 20),
        service_rate_per_s=50.0,
        model=MicroBatch(trigger_interval_s=2.0, overhead_s=0.4, noise=0.08, cold_factor=1.5),
        start=start,
        startup_s=30.0,
        seconds=900.0,
        journal=journal,
    )
    covered = coverage(journal.decisions(), journal.observations())
    assert min(met / answered for answered, met in covered.values()) > 0.8


@pytest.mark.parametrize(
    "workload",
    [
        "sine:mean=300,amplitude=200,period=1h",
        "periodic:base=100,peak=450,high=7m,low=13m",
    ],
)
def test_nine_of_ten_answers_lie_within_what_was_expected(workload: str) -> None:
    journal = MemoryJournal()
    simulate(
        "autopilot",
        parse_workload(workload),
        objective=parse_objective("latency p95 < 10s").within(1, 20),
        service_rate_per_s=50.0,
        model=MicroBatch(trigger_interval_s=2.0, overhead_s=0.4, noise=0.08, cold_factor=1.5),
        start=5,
        startup_s=30.0,
        startup_spread=0.2,
        interval_s=10.0,
        seconds=HOURS * 3600.0,
        journal=journal,
    )
    covered = coverage(journal.decisions(), journal.observations())
    shares = {name: met / answered for name, (answered, met) in covered.items()}
    assert min(answered for answered, _ in covered.values()) > 350 * HOURS
    assert shares["latency_s"] == pytest.approx(0.9, abs=0.02)
    assert shares["backlog"] == pytest.approx(0.9, abs=0.02)
    # Whole instances: an interval holds the next one or it does not.
    assert shares["instances"] >= 0.88
