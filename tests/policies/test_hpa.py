"""hpa: the arithmetic of Kubernetes' HorizontalPodAutoscaler."""

from __future__ import annotations

import pytest

from headgate.core.types import Sample
from headgate.core.window import History
from headgate.policies.frame.base import AnyPolicy
from tests.core.building import JOB, decision, observation, policy


def want(
    chosen: AnyPolicy, window: History, at_s: float, value: float | None, planned: int, ready: int | None = None
) -> tuple[int, str]:
    """What it wants when utilization is this much at a time."""
    window.observe(observation(at_s, planned, ready, Sample("job", at_s, utilization=value)))
    target = chosen.decide(at_s, window).targets["job"]
    return target.instances, target.code


@pytest.mark.parametrize(
    ("value", "planned", "ready", "instances", "code"),
    [
        (1.0, 4, 4, 8, "above-target"),
        (0.75, 4, 4, 6, "above-target"),
        (0.56, 4, 4, 5, "above-target"),
        (0.55, 4, 4, 4, "steady"),
        (0.5, 4, 4, 4, "steady"),
        (0.45, 4, 4, 4, "steady"),
        (None, 4, 4, 4, "no-data"),
        (1.0, 4, 0, 4, "no-data"),
        # Two of six are not ready: as idle ones they bring the ratio from 2 down to 1.33, and 8 are still wanted.
        (1.0, 6, 4, 8, "above-target"),
        # With six more on their way the diluted ratio is 0.8: growing further would turn the direction around.
        (1.0, 10, 4, 10, "steady"),
        # The diluted ratio is within the tolerance.
        (0.8, 6, 4, 6, "steady"),
        # Instances that are leaving do not count as unready.
        (1.0, 2, 4, 6, "rate-limited"),
    ],
)
def test_the_size_follows_metric_over_target(
    value: float | None, planned: int, ready: int, instances: int, code: str
) -> None:
    assert want(policy("hpa", target=0.5), History(JOB), 0, value, planned, ready) == (instances, code)


@pytest.mark.parametrize(
    ("planned", "value", "instances", "code"),
    [
        (1, 10.0, 5, "rate-limited"),
        (3, 10.0, 7, "rate-limited"),
        (10, 10.0, 20, "rate-limited"),
        (10, 1.0, 20, "above-target"),
    ],
)
def test_it_grows_by_four_or_doubles_whichever_is_more(planned: int, value: float, instances: int, code: str) -> None:
    assert want(policy("hpa", target=0.5), History(JOB), 0, value, planned) == (instances, code)


@pytest.mark.parametrize(("now", "instances"), [(10, 6), (14.9, 6), (15, 12)])
def test_what_was_added_within_the_period_counts_against_the_limit(now: float, instances: int) -> None:
    window = History(JOB)
    chosen = policy("hpa", target=0.5)
    assert want(chosen, window, 0, 10.0, 2) == (6, "rate-limited")
    window.record(decision(0, 2, 6))
    assert want(chosen, window, now, 10.0, 6)[0] == instances


def test_it_shrinks_to_the_largest_recommendation_of_the_window() -> None:
    window = History(JOB)
    chosen = policy("hpa", target=0.5, scale_in_window_s=300)
    assert want(chosen, window, 0, 0.5, 10) == (10, "steady")
    assert want(chosen, window, 100, 0.3, 10) == (10, "stabilising")
    assert want(chosen, window, 200, 0.1, 10) == (10, "stabilising")
    # The first is out of the window now; the largest of the others recommended 6.
    assert want(chosen, window, 301, 0.1, 10) == (6, "below-target")
    window.record(decision(301, 10, 6))
    assert want(chosen, window, 401, 0.1, 6) == (2, "below-target")


def test_the_size_found_at_the_start_is_held_for_a_window() -> None:
    window = History(JOB)
    chosen = policy("hpa", target=0.5)
    wanted = [want(chosen, window, at_s, 0.1, 10) for at_s in range(0, 310, 10)]
    assert wanted[:30] == [(10, "stabilising")] * 30
    assert wanted[-1] == (2, "below-target")


def test_readings_without_the_metric_neither_scale_nor_count_as_a_recommendation() -> None:
    window = History(JOB)
    chosen = policy("hpa", target=0.5, scale_in_window_s=100)
    want(chosen, window, 0, 0.1, 10)
    before = chosen.snapshot()
    assert want(chosen, window, 150, None, 10) == (10, "no-data")
    assert chosen.snapshot() == before


@pytest.mark.parametrize(
    ("metric", "fields"), [("latency_s", {"latency_s": 9.0}), ("heap", {"metrics": {"heap": 9.0}})]
)
def test_any_metric_can_be_held_near_a_target(metric: str, fields: dict[str, float]) -> None:
    window = History(JOB)
    window.observe(observation(0, 2, sample=Sample("job", 0, **fields)))  # type: ignore[arg-type]
    target = policy("hpa", metric=metric, target=6).decide(0, window).targets["job"]
    assert (target.instances, target.numbers[metric]) == (3, 9.0)


def test_recommendations_from_a_later_clock_are_given_up() -> None:
    chosen = policy("hpa", target=0.5)
    chosen.restore({"policy": "hpa", "version": 1, "recommended": {"job": [[1e9, 50]]}})
    assert want(chosen, History(JOB), 0, 0.1, 10) == (10, "stabilising")
    assert len(chosen.snapshot()["recommended"]["job"]) == 2


def test_it_forgets_what_is_out_of_the_window() -> None:
    window = History(JOB)
    chosen = policy("hpa", scale_in_window_s=60)
    for at_s in range(0, 1000, 10):
        want(chosen, window, at_s, 0.7, 4)
    assert len(chosen.snapshot()["recommended"]["job"]) <= 7
