"""Policies that know nothing of Flink on a Flink job whose middle vertex is too slow: only that one grows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from headgate.core.objective import parse_objective
from headgate.core.types import Decision
from headgate.engines.flink import FlinkEngine
from headgate.policies.frame.base import PolicyMaker
from headgate.rules.rules_policy import Rules
from headgate.runtime.autoscaler import autoscale_engine
from headgate.testing.clock import FakeClock
from tests.engines.flink.small_job import SLOW, SmallJob, played_by
from tests.engines.flink.stand_in import StandIn, standing_in

QUICK: dict[str, dict[str, Any]] = {
    "flink-autoscaler": {
        "metrics_window_s": 30,
        "stabilization_interval_s": 10,
        "catch_up_duration_s": 60,
        "restart_time_s": 5,
    },
    "hpa": {},
}


class Ending(FakeClock):
    """Time passes as fast as the loop goes, until it is over."""

    def __init__(self, start_s: float, seconds: float) -> None:
        super().__init__(start_s)
        self._end_s = start_s + seconds
        self.is_over = threading.Event()

    def wait_until(self, at_s: float, stop: threading.Event) -> None:
        if at_s >= self._end_s:
            self.is_over.set()
            stop.wait(10)
            return
        super().wait_until(at_s, stop)


def run(
    policy: str | PolicyMaker,
    seconds: float = 300,
    prepare: Callable[[SmallJob], None] = lambda job: None,
    **more: Any,
) -> tuple[SmallJob, list[Decision]]:
    """100/s for vertices that get through 1000/s, 60/s and 1000/s, unless a job is prepared otherwise."""
    clock = Ending(1_000_000.0, seconds)
    job = SmallJob(clock, offered_per_s=100)
    prepare(job)
    goal = parse_objective("latency p95 < 10s").within(1, 6)
    decided: list[Decision] = []
    with standing_in() as stand_in:
        engine = _engine(stand_in, job)
        running = autoscale_engine(
            engine,
            objective=goal,
            policy=policy,
            clock=clock,
            interval="5s",
            watchers=[lambda seen, decision: decided.append(decision) if decision is not None else None],
            **more,
        )
        assert clock.is_over.wait(60)
        running.stop()
    return job, decided


def _engine(stand_in: StandIn, job: SmallJob) -> FlinkEngine:
    return FlinkEngine(played_by(job, stand_in), job.clock.now, most=6, late_after_s=10, sleep=lambda seconds: None)


@pytest.mark.parametrize(
    "policy", ["ds2", "flink-autoscaler", "autopilot", "reactive", "mdp-path", "rl-decentralized", "proactive"]
)
def test_only_the_bottleneck_grows(policy: str) -> None:
    job, decided = run(policy, settings=QUICK.get(policy))
    grown = {name for decision in decided for name, verdict in decision.verdicts.items() if verdict.change > 0}
    assert grown == {"slow"}, [verdict.reason for verdict in decided[-1].verdicts.values()]
    assert job.sizes[SLOW] >= 2
    assert job.wanted["a" * 32] == job.wanted["c" * 32] == 1


def test_ds2_finds_the_size_in_one_step() -> None:
    """100/s over 60/s of one instance need two, also while half of what comes is held back."""
    job, decided = run("ds2", seconds=120)
    changes = [(name, v.current, v.target) for decision in decided for name, v in decision.verdicts.items() if v.change]
    assert changes == [("slow", 1, 2)]
    assert job.sizes[SLOW] == 2


def test_the_backlog_is_worked_off_and_the_objective_is_retained() -> None:
    job, _ = run("autopilot", seconds=300)
    assert job.pending < 100


def test_rules_by_name_of_a_vertex_hold() -> None:
    rules = Rules.from_yaml(
        """
rules:
  - name: too busy
    scale_out: slow
    by: 1
    never_above: 4
    when:
      - metric: utilization
        above: 90 %
        for_at_least: 10s
"""
    )
    job, _ = run(rules, seconds=60)
    assert job.sizes[SLOW] >= 2
