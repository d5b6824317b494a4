"""keda-lag: one instance per so many waiting records, as an HPA with KEDA's metric would do."""

from __future__ import annotations

import pytest

from headgate.core.objective import parse_objective
from headgate.core.topology import Sizing, Topology
from headgate.core.types import Sample
from headgate.core.window import History
from headgate.policies import Context, make_policy
from headgate.policies.frame.base import AnyPolicy
from tests.core.building import JOB, decision, observation, policy

TO_ZERO = Topology(("job",), sizing={"job": Sizing(min_instances=0)})


def want(chosen: AnyPolicy, window: History, at_s: float, backlog: float | None, planned: int) -> tuple[int, str]:
    window.observe(observation(at_s, planned, sample=Sample("job", at_s, backlog=backlog)))
    target = chosen.decide(at_s, window).targets["job"]
    return target.instances, target.code


@pytest.mark.parametrize(
    ("backlog", "planned", "instances", "code"),
    [
        (4300, 3, 5, "above-target"),
        (4000, 3, 4, "above-target"),
        # Within a tenth of what may wait.
        (3300, 3, 3, "steady"),
        (2700, 3, 3, "steady"),
        (3301, 3, 4, "above-target"),
        # More than doubling, and more than four: the rest comes in the next period.
        (20000, 3, 7, "rate-limited"),
        (100, 3, 3, "stabilising"),
        (None, 3, 3, "no-data"),
    ],
)
def test_the_size_is_the_backlog_over_the_threshold(
    backlog: float | None, planned: int, instances: int, code: str
) -> None:
    assert want(policy("keda-lag", lag_threshold=1000), History(JOB), 0, backlog, planned) == (instances, code)


def test_it_shrinks_to_the_largest_recommendation_of_five_minutes() -> None:
    window, chosen = History(JOB), policy("keda-lag", lag_threshold=1000)
    assert want(chosen, window, 0, 8000, 8) == (8, "steady")
    assert want(chosen, window, 100, 5000, 8) == (8, "stabilising")
    assert want(chosen, window, 301, 100, 8) == (5, "below-target")
    window.record(decision(301, 8, 5))
    assert want(chosen, window, 410, 100, 5) == (1, "below-target")


def test_without_a_minimum_of_zero_the_last_instance_stays() -> None:
    window, chosen = History(JOB), policy("keda-lag")
    assert [want(chosen, window, at_s, 0, 1) for at_s in (0, 400, 800)] == [(1, "steady")] * 3


def test_a_job_that_may_have_none_loses_its_last_instance_after_the_cooldown_and_wakes_at_the_first_record() -> None:
    chosen = make_policy("keda-lag", Context(parse_objective("latency < 10s"), TO_ZERO), {"lag_threshold": 1000})
    window = History(TO_ZERO)
    assert want(chosen, window, 0, 5, 1) == (1, "steady")
    assert want(chosen, window, 100, 0, 1)[0] == 1
    assert want(chosen, window, 299, 0, 1)[0] == 1
    assert want(chosen, window, 300, 0, 1) == (0, "idle")
    assert want(chosen, window, 310, 0, 0) == (0, "idle")
    assert want(chosen, window, 320, 1, 0) == (1, "activated")


def test_few_records_do_not_wake_a_job_below_the_activation_threshold() -> None:
    settings = {"lag_threshold": 1000, "activation_lag_threshold": 50}
    chosen = make_policy("keda-lag", Context(parse_objective("latency < 10s"), TO_ZERO), settings)
    window = History(TO_ZERO)
    assert want(chosen, window, 0, 50, 0) == (0, "idle")
    assert want(chosen, window, 10, 51, 0) == (1, "activated")


def test_a_minimum_of_zero_which_is_the_default_of_the_source_is_allowed() -> None:
    objective = parse_objective("latency < 10s").within(0, 10)
    chosen = policy("keda-lag", objective, lag_threshold=1000)
    window = History(JOB)
    assert [want(chosen, window, at_s, 0, 1)[0] for at_s in (0, 300)] == [1, 0]
    assert want(chosen, window, 310, 1, 0) == (1, "activated")
