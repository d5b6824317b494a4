"""drain-time: growth by throughput and backlog, shrinking by idle time."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.errors import InputError
from headgate.core.types import Sample
from headgate.core.window import History
from headgate.policies.frame.base import AnyPolicy
from tests.core.building import JOB, decision, observation, policy


def readings(
    offered: float, backlog: float, growth: float, busy: float | None, from_s: int = 0, to_s: int = 60
) -> list[Sample]:
    """A minute of readings whose backlog ends at one value, having grown evenly."""
    return [
        Sample(
            "job",
            at_s,
            input_rate_per_s=offered,
            backlog=max(0.0, backlog - growth * (to_s - at_s)),
            utilization=busy,
        )
        for at_s in range(from_s, to_s + 1, 10)
    ]


def want(chosen: AnyPolicy, seen: list[Sample], planned: int = 4, ready: int | None = None) -> tuple[int, str]:
    window = History(JOB)
    for sample in seen:
        window.observe(observation(sample.at_s, planned, ready, sample))
    target = chosen.decide(seen[-1].at_s, window).targets["job"]
    return target.instances, target.code


@pytest.mark.parametrize(
    ("offered", "backlog", "growth", "busy", "planned", "instances", "code"),
    [
        # 100/s get done, 50/s more come, 60 s wait: 4 · 1.5 to keep up and 4 · 60 / 60 to catch up.
        (150, 6000, 50, 0.95, 4, 10, "drains-too-slowly"),
        # The same at ease: neither too busy nor too far behind.
        (150, 6000, 50, 0.85, 4, 4, "steady"),
        # Far behind, and no worse: only the backlog counts.
        (100, 15000, 0, 0.85, 4, 14, "drains-too-slowly"),
        # Very busy, with nothing waiting: as many as there are keep up.
        (100, 0, 0, 0.95, 4, 4, "growing"),
        # Busy for 35 %: half of them would be busy for 70 %.
        (100, 500, 0, 0.35, 4, 2, "idle"),
        (100, 500, 0, 0.35, 1, 1, "steady"),
        (100, 500, 0, 0.69, 4, 4, "steady"),
        # More than ten seconds wait, or the backlog grows: nothing is removed.
        (100, 1100, 0, 0.35, 4, 4, "steady"),
        (120, 900, 10, 0.35, 4, 4, "steady"),
        # Growth within the tolerance is none.
        (104, 250, 4, 0.35, 4, 2, "idle"),
        (0, 0, 0, 0.0, 4, 1, "idle"),
        (100, 500, 0, None, 4, 4, "steady"),
        (100, 15000, 0, None, 4, 14, "drains-too-slowly"),
    ],
)
def test_what_it_wants_follows_throughput_growth_drain_time_and_busyness(
    offered: float, backlog: float, growth: float, busy: float | None, planned: int, instances: int, code: str
) -> None:
    assert want(policy("drain-time"), readings(offered, backlog, growth, busy), planned) == (instances, code)


def test_records_that_wait_while_nothing_gets_done_are_no_reason_to_guess() -> None:
    assert want(policy("drain-time"), readings(50, 3000, 50, 0.0)) == (4, "stalled")


@pytest.mark.parametrize("missing", ["backlog", "input_rate_per_s"])
def test_without_throughput_or_backlog_it_holds(missing: str) -> None:
    fields: dict[str, Any] = {"input_rate_per_s": 100, "backlog": 15000, "utilization": 0.95, missing: None}
    assert want(policy("drain-time"), [Sample("job", at_s, **fields) for at_s in (0, 10, 20)]) == (4, "no-data")


def test_readings_of_the_size_before_do_not_count() -> None:
    window, chosen = History(JOB), policy("drain-time")
    for sample in readings(100, 15000, 0, 1.0):
        window.observe(observation(sample.at_s, 4, sample=sample))
    window.record(decision(60, 4, 14))
    for sample in readings(100, 500, 0, 0.9, from_s=70, to_s=90):
        window.observe(observation(sample.at_s, 14, sample=sample))
    # Busy for 90 % since there are fourteen; with the minute before it would be more than that.
    target = chosen.decide(90, window).targets["job"]
    assert target.numbers["busy_share"] == pytest.approx(0.9)
    assert target.code == "steady"


def test_it_counts_on_the_ready_instances_and_asks_for_no_more_than_are_planned_already() -> None:
    assert want(policy("drain-time"), readings(100, 15000, 0, 1.0), planned=14, ready=4) == (14, "growing")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"in_below_busy": 0.9}, r"in_below_busy 0.9 must be below out_above_busy 0.9"),
        ({"in_below_drain_s": "3m"}, r"in_below_drain_s 180 must not be above out_above_drain_s 120"),
    ],
)
def test_thresholds_must_not_cross(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        policy("drain-time", **settings)
