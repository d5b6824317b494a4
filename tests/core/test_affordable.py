"""A job costs no more than it may, and it is said what that and its objective would take."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from headgate.core.affordable import Affordable
from headgate.core.errors import InputError
from headgate.core.objective import CostLimit, parse_objective
from headgate.core.topology import Sizing, Topology
from headgate.core.types import Decision, Instances, Observation, PricedSize, Sample, Verdict
from headgate.core.window import History
from headgate.policies.frame.base import GuardSettings
from tests.core.building import JOB, observation

HOUR_S = 3600.0
OBJECTIVE = parse_objective("latency p95 < 10s, cost < 24 per day, price 0.5").within(1, 20)
"""What two instances cost; one is put aside."""
GUARD = Affordable(CostLimit(24.0), {"job": 0.5}, {"job": 1})


def past(*hours: int) -> History:
    """A window onto a job that had so many instances in each hour so far."""
    window = History(JOB, objective=OBJECTIVE)
    window.observe(observation(0.0, hours[0] if hours else 1))
    for index, size in enumerate(hours):
        for minute in range(1, 61):
            window.observe(observation(HOUR_S * index + 60.0 * minute, size))
    return window


def guarded(window: History, target: int, guard: Affordable = GUARD) -> Verdict:
    instances, now = window.instances("job"), window.observations[-1].at_s
    assert instances is not None
    verdict = Verdict("job", instances.planned, target, target, "test", "a test")
    return guard(window, Decision(now, "test", {"job": verdict})).verdicts["job"]


@pytest.mark.parametrize(
    ("hours", "target", "left"),
    [
        # At the start all is free to be spent that the smallest size does not need: 12.5 for an hour.
        ((), 20, 20),
        ((1,), 20, 20),
        # 8 hours of 4 cost 16, and 15 more of 1 are put aside: what is left pays for 1.
        ((4,) * 8, 4, 1),
        # 13.5 is spent and 8 put aside: what is left pays for 5 for an hour.
        ((4,) * 6 + (3,), 4, 4),
        ((4,) * 6 + (3,), 9, 5),
        ((1,) * 24, 20, 20),
        # The price of two, all day: just what there is.
        ((2,) * 24, 2, 2),
        ((2,) * 24, 3, 2),
    ],
)
def test_a_job_grows_as_far_as_the_money_left_for_the_rolling_day_pays(
    hours: tuple[int, ...], target: int, left: int
) -> None:
    assert guarded(past(*hours), target).target == left


def test_money_is_free_again_when_the_day_has_moved_past_it() -> None:
    assert guarded(past(*(4,) * 8, *(1,) * 10), 9).target == 1
    assert guarded(past(*(4,) * 8, *(1,) * 22), 9).target == 9


def test_shrinking_and_the_smallest_size_are_always_allowed() -> None:
    broke = past(*(12,) * 6)
    assert guarded(broke, 1).target == 1
    assert guarded(broke, 5).target == 1
    assert guarded(past(*(4,) * 8), 2).target <= 2


def test_a_size_that_cannot_be_paid_any_more_comes_back_at_once_to_one_that_can() -> None:
    verdict = guarded(past(*(9,) * 3), 9)
    assert verdict.change < 0
    assert verdict.target <= 2
    assert verdict.notes[-1].guard == "affordable"


def test_why_says_what_each_side_of_the_bargain_would_take() -> None:
    (note,) = guarded(past(*(4,) * 8), 8).notes
    assert note.why == (
        "objective and 'cost < 24 per day' cannot both be had: 8 instances cost 96 per day, 16 of 24 is spent, and "
        "what is left pays for 1 (12 per day)"
    )


def with_reading(window: History, **reading: float) -> History:
    at_s = window.observations[-1].at_s + 60.0
    window.observe(observation(at_s, 4, sample=Sample("job", at_s, **reading)))  # type: ignore[arg-type]
    return window


def test_it_says_what_would_be_late_where_that_is_known() -> None:
    overloaded = with_reading(past(*(4,) * 8), input_rate_per_s=100.0, processed_rate_per_s=160.0)
    assert guarded(overloaded, 8).notes[-1].why.endswith("with at least 60 % of the records late at this load")
    light = with_reading(past(*(4,) * 8), input_rate_per_s=10.0, processed_rate_per_s=160.0)
    assert guarded(light, 8).notes[-1].why.endswith("per day)")


def test_it_says_what_the_policy_expected_of_the_size_that_is_left() -> None:
    window = past(*(4,) * 8)
    verdict = Verdict("job", 4, 8, 8, "test", "a test", alternatives=(PricedSize(1, 30.0, 400.0, 0.62, 0.3),))
    decision = GUARD(window, Decision(window.observations[-1].at_s, "test", {"job": verdict}))
    assert decision.verdicts["job"].notes[-1].why.endswith("with 62 % of the records expected to be late")


def test_only_possible_sizes_are_come_back_to() -> None:
    guard = Affordable(CostLimit(24.0), {"job": 0.5}, {"job": 1}, {"job": (1, 4, 8, 16)})
    assert guarded(past(*(4,) * 6, 3), 16, guard).target == 4
    assert guarded(past(*(4,) * 8), 4, guard).target == 1


PIPELINE = Topology(("parse", "join"), (("parse", "join"),), {"join": Sizing(price_per_instance_hour=2.0)})


def pipeline(targets: Iterable[tuple[str, int, int]], hours: int = 10) -> dict[str, int]:
    """What is left of some targets (operator, current, target) of a pipeline that cost 2.5 for an hour."""
    objective = parse_objective("latency p95 < 10s, cost < 72 per day, price 0.5").within(1, 20)
    window = History(PIPELINE, objective=objective)
    for minute in range(60 * hours + 1):
        sizes = {"parse": Instances(1, 1, 1), "join": Instances(1, 1, 1)}
        window.observe(Observation(60.0 * minute, {}, sizes))
    verdicts = {name: Verdict(name, current, target, target, "t", "t") for name, current, target in targets}
    (guard,) = [built for built in GuardSettings().build(objective, PIPELINE) if isinstance(built, Affordable)]
    return guard(window, Decision(HOUR_S * hours, "test", verdicts)).targets


def test_operators_share_the_money_and_the_dearest_growth_gives_way_first() -> None:
    # 72 is 12 more than the smallest sizes cost, so an hour may cost 14.5.
    assert pipeline([("parse", 1, 3), ("join", 1, 6)]) == {"parse": 3, "join": 6}
    assert pipeline([("parse", 1, 5), ("join", 1, 12)]) == {"parse": 5, "join": 6}
    assert pipeline([("parse", 1, 1), ("join", 1, 12)]) == {"parse": 1, "join": 7}


def test_a_job_without_a_limit_has_no_such_guard() -> None:
    priced = parse_objective("latency p95 < 10s, price 0.5")
    assert not any(isinstance(guard, Affordable) for guard in GuardSettings().build(priced))


def test_a_limit_without_a_price_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be enforced without a price of job"):
        GuardSettings().build(parse_objective("latency p95 < 10s, cost < 12 per day"))
