"""autopilot acts before anything is violated, gives who asks for more more, and says what it expects."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.core.objective import LatencySlo, Objective, SlowShareSlo, ThroughputSlo
from headgate.core.types import Batch, Sample, Startup, Target
from headgate.policies.autopilot import Autopilot, AutopilotSettings, bound_and_share
from headgate.policies.frame.base import Context
from tests.core.building import JOB, history, propose


def made(percentile: float = 95.0) -> Autopilot:
    return Autopilot(AutopilotSettings(), Context(Objective(LatencySlo(10.0, percentile), 1, 24), JOB))


def test_the_objective_is_a_bound_and_a_share_that_may_be_later() -> None:
    assert bound_and_share(LatencySlo(10.0, 95.0)) == pytest.approx((10.0, 0.05))
    assert bound_and_share(LatencySlo(10.0, 100.0)) == (10.0, 1e-4)
    assert bound_and_share(SlowShareSlo(0.05)) == (1.0, 0.05)
    assert bound_and_share(ThroughputSlo(0.9)) == pytest.approx((60.0, 0.1))


@pytest.mark.parametrize(
    ("latency_s", "instances", "code"), [(1.0, 2, "learning"), (8.0, 3, "cautious"), (None, 2, "no-data")]
)
def test_before_anything_is_known_it_holds_or_grows_with_what_waits(
    latency_s: float | None, instances: int, code: str
) -> None:
    target = propose(made(), history([Sample("job", 0.0, latency_s=latency_s)]))
    assert (target.instances, target.code) == (instances, code)


def test_before_anything_is_known_it_waits_for_what_it_requested() -> None:
    target = propose(made(), history([Sample("job", 0.0, latency_s=8.0)], planned=3, ready=2))
    assert (target.instances, target.code) == (3, "starting")


def restless(percentile: float) -> int:
    """What it finds right after an hour of a restless load that has violated nothing yet; 12 are there."""
    policy, random, arrived = made(percentile), np.random.default_rng(3), 0.0
    window = history([Sample("job", 0.0, arrived=0.0, late=0.0, backlog=0.0, latency_s=0.0)], planned=12)
    window.startup_times("job").add(Startup("1", 0.0, 30.0, 32.0, 40.0))
    target = propose(policy, window)
    for tick in range(1, 360):
        at_s, records = 10.0 * tick, 2000.0 * float(random.lognormal(0, 0.25))
        arrived += records
        batch = Batch(at_s - 9, at_s - 8.5 + 0.02 * records / 12, records, at_s - 19, 0.0, 10.0, 12)
        sample = Sample(
            "job", at_s, arrived=arrived, late=0.0, batches=(batch,), backlog=50.0, latency_s=1.0,
            batch_ended_s=batch.ended_s, trigger_interval_s=10.0,
        )  # fmt: skip
        window.observe(history([sample], planned=12).observations[0])
        target = propose(policy, window)
    chosen = target.numbers["chosen"]
    assert isinstance(chosen, int)
    return chosen


def test_who_asks_for_more_gets_more() -> None:
    sizes = [restless(percentile) for percentile in (50.0, 95.0, 99.9)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_every_size_that_was_compared_is_priced() -> None:
    sizes = with_a_slow_sink((2, 4, 6)).alternatives
    assert [size.instances for size in sizes] == sorted({size.instances for size in sizes})
    assert len(sizes) >= 3
    assert all(size.instance_s > 0 and 0 <= size.late_share <= 1 and 0 <= size.break_chance <= 1 for size in sizes)


def with_a_slow_sink(sizes: tuple[int, ...]) -> Target:
    """What it decides when batches have taken as long on any of these sizes, and records are late."""
    policy, arrived = made(), 0.0
    window = history([Sample("job", 0.0, arrived=0.0, late=0.0, backlog=0.0, latency_s=0.0)], planned=sizes[0])
    target = propose(policy, window)
    for tick in range(1, 120):
        size = sizes[tick * len(sizes) // 120]
        at_s, records = 10.0 * tick, 900.0 + 200.0 * (tick % 3)
        arrived += records
        batch = Batch(at_s - 9.5 - 0.005 * records, at_s - 9.5 + 0.005 * records, records, at_s - 30, 0.0, 10.0, size)
        sample = Sample(
            "job", at_s, arrived=arrived, late=0.0, batches=(batch,), backlog=4000.0, latency_s=40.0,
            batch_ended_s=batch.ended_s, trigger_interval_s=10.0,
        )  # fmt: skip
        window.observe(history([sample], planned=size).observations[0])
        target = propose(policy, window)
    return target


def test_where_more_instances_do_not_help_none_are_added_and_that_is_reported() -> None:
    target = with_a_slow_sink((2, 4, 8))
    assert target.instances <= 8
    assert "batches do not become faster with more instances" in target.reason
    assert target.numbers["batch_gamma"] == 0.0


def test_where_only_one_size_was_seen_more_are_tried() -> None:
    target = with_a_slow_sink((2,))
    assert target.instances > 2
    assert "faster" not in target.reason
