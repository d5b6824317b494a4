"""Arbitration between jobs: quotas hold, minima are granted, and a job that gives way is named for whom."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.core.quotas import Demand, Need, OperatorKey, Quota, QuotaGroup, arbitrate, still_yielding, weigh

NEEDS = (Need(), Need(cores=1, memory_gb=4), Need(cores=2.5, memory_gb=2, money_per_hour=0.1))
SAME = Need(cores=2, memory_gb=4, money_per_hour=0.25)
GROUPS = ("a", "b", "")


@st.composite
def demand(draw: st.DrawFn, number: int, needs: tuple[Need, ...] = NEEDS) -> Demand:
    minimum = draw(st.integers(0, 3))
    held = draw(st.none() | st.integers(0, 12))
    return Demand(
        f"job-{number}",
        current=draw(st.integers(0, 12)),
        wanted=draw(st.integers(minimum, 12)),
        minimum=minimum,
        held=held,
        need=draw(st.sampled_from(needs)),
        needed=draw(st.none() | st.integers(0, 14)),
        is_behind=draw(st.booleans()),
        budget_left=draw(st.none() | st.floats(-2, 1)),
        group=draw(st.sampled_from(GROUPS)),
        yielding=draw(st.booleans()),
    )


@st.composite
def fleet(draw: st.DrawFn, needs: tuple[Need, ...] = NEEDS) -> list[Demand]:
    return [draw(demand(number, needs)) for number in range(draw(st.integers(1, 5)))]


limit = st.none() | st.floats(0, 60)
quota = st.builds(Quota, st.none() | st.integers(0, 40), limit, limit, limit)
groups = st.tuples(quota, quota, st.integers(0, 2), st.integers(0, 2)).map(
    lambda drawn: (QuotaGroup("a", drawn[0], drawn[2]), QuotaGroup("b", drawn[1], drawn[3]))
)


def taken(demands: list[Demand], sizes: dict[OperatorKey, int], group: str | None) -> list[float]:
    """What these sizes take, of one group or of all."""
    counted = [demand for demand in demands if group is None or demand.group == group]
    return [
        sum(amount * sizes[demand.key] for demand, amount in zip(counted, amounts, strict=True))
        for amounts in zip(*(demand.need.amounts for demand in counted), strict=True)
    ] or [0.0] * 4


def exceeds(used: list[float], allowed: Quota) -> bool:
    return any(most is not None and use > most + 1e-6 for use, most in zip(used, allowed.limits, strict=True))


def sizes(demands: list[Demand], grouped: tuple[QuotaGroup, ...], cluster: Quota) -> dict[OperatorKey, int]:
    return {key: grant.instances for key, grant in arbitrate(demands, grouped, cluster).items()}


def floors_fit(demands: list[Demand], grouped: tuple[QuotaGroup, ...], cluster: Quota) -> bool:
    floors = {demand.key: demand.floor for demand in demands}
    scopes = ((None, cluster), *((group.name, group.quota) for group in grouped))
    return not any(exceeds(taken(demands, floors, name), allowed) for name, allowed in scopes)


@settings(max_examples=60)
@given(fleet(), groups, quota)
def test_what_is_granted_never_exceeds_a_quota(
    demands: list[Demand], grouped: tuple[QuotaGroup, ...], cluster: Quota
) -> None:
    granted = sizes(demands, grouped, cluster)
    # What somebody holds already and may keep counts as well; it cannot be more than is held.
    for name, allowed in ((None, cluster), *((group.name, group.quota) for group in grouped)):
        assert not exceeds(taken(demands, granted, name), allowed)


@settings(max_examples=60)
@given(fleet(), groups, quota)
def test_what_runs_never_exceeds_a_quota_by_a_grant(
    demands: list[Demand], grouped: tuple[QuotaGroup, ...], cluster: Quota
) -> None:
    granted = sizes(demands, grouped, cluster)
    before = {demand.key: demand.in_use for demand in demands}
    after = {demand.key: max(demand.in_use, granted[demand.key]) for demand in demands}
    for name, allowed in ((None, cluster), *((group.name, group.quota) for group in grouped)):
        used, will_use = taken(demands, before, name), taken(demands, after, name)
        for was, will, most in zip(used, will_use, allowed.limits, strict=True):
            assert most is None or will <= max(was, most) + 1e-6


@settings(max_examples=60)
@given(fleet(), groups, quota)
def test_a_job_falls_below_its_minimum_only_if_minima_do_not_fit_and_the_grant_says_so(
    demands: list[Demand], grouped: tuple[QuotaGroup, ...], cluster: Quota
) -> None:
    grants = arbitrate(demands, grouped, cluster)
    for demand in demands:
        grant = grants[demand.key]
        assert 0 <= grant.instances <= max(demand.wanted, 0)
        assert grant.is_short == (grant.instances < demand.wanted)
        assert grant.is_short == bool(grant.why)
        if grant.instances < demand.floor:
            assert grant.code in ("below-minimum", "waits")
            assert grant.code == "waits" or not floors_fit(demands, grouped, cluster)


@settings(max_examples=60)
@given(fleet(), groups, quota, st.randoms(use_true_random=False))
def test_the_order_in_which_jobs_ask_does_not_matter(
    demands: list[Demand], grouped: tuple[QuotaGroup, ...], cluster: Quota, random: st.DataObject
) -> None:
    shuffled = list(demands)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # it is a random.Random
    assert arbitrate(shuffled, grouped, cluster) == arbitrate(demands, grouped, cluster)


@settings(max_examples=60)
@given(fleet(), groups, quota, st.integers(1, 5), st.floats(0, 1))
def test_who_wants_more_or_has_less_budget_left_never_gets_less_for_it(
    demands: list[Demand], grouped: tuple[QuotaGroup, ...], cluster: Quota, more: int, spent: float
) -> None:
    first, *others = demands
    worse_off = replace(first, budget_left=(1.0 if first.budget_left is None else first.budget_left) - spent)
    assume(floors_fit(demands, grouped, cluster))
    before = sizes(demands, grouped, cluster)[first.key]
    assert sizes([worse_off, *others], grouped, cluster)[first.key] >= before
    assert sizes([replace(first, wanted=first.wanted + more), *others], grouped, cluster)[first.key] >= before


@settings(max_examples=60)
@given(fleet((SAME,)), st.integers(0, 40), st.integers(0, 10))
def test_a_larger_quota_gives_nobody_less(demands: list[Demand], instances: int, more: int) -> None:
    settled = [replace(demand, held=0) for demand in demands]
    before = sizes(settled, (), Quota(instances=instances))
    after = sizes(settled, (), Quota(instances=instances + more))
    assert all(after[key] >= size for key, size in before.items())


@settings(max_examples=60)
@given(fleet(), groups)
def test_without_a_limit_everybody_gets_what_it_wants(demands: list[Demand], grouped: tuple[QuotaGroup, ...]) -> None:
    unlimited = tuple(replace(group, quota=Quota()) for group in grouped)
    assert sizes(demands, unlimited, Quota()) == {demand.key: demand.wanted for demand in demands}


def test_a_higher_priority_comes_before_a_smaller_budget() -> None:
    demands = [
        Demand("batch", wanted=5, held=0, budget_left=-1.0, group="low"),
        Demand("orders", wanted=5, held=0, budget_left=0.9, group="high"),
    ]
    grants = arbitrate(demands, [QuotaGroup("low"), QuotaGroup("high", priority=1)], Quota(instances=6))
    assert [grants[demand.key].instances for demand in demands] == [1, 5]
    assert grants[demands[0].key].gives_way_to == (demands[1].key,)


def test_who_gave_way_goes_on_until_it_is_clearly_worse_off() -> None:
    demands = [Demand("one", wanted=4, held=0, budget_left=0.50), Demand("two", wanted=4, held=0, budget_left=0.52)]
    first = weigh(demands, cluster=Quota(instances=4))
    assert [first.grant(key).instances for key in first] == [4, 0]
    # Having got nothing, it is a little worse off now; that alone does not turn the tables, a tenth does.
    for left, expected in ((0.45, [4, 0]), (0.39, [0, 4])):
        again = [still_yielding(replace(demands[1], budget_left=left), first), demands[0]]
        assert [grant.instances for grant in arbitrate(again, cluster=Quota(instances=4)).values()] == expected


def test_a_reserve_is_given_up_before_anything_that_a_load_needs_whatever_the_priority() -> None:
    demands = [
        Demand("calm", current=8, wanted=8, needed=3, budget_left=-1.0, group="high"),
        Demand("busy", current=2, wanted=6, needed=6, budget_left=0.9, group="low"),
    ]
    grants = arbitrate(demands, [QuotaGroup("low"), QuotaGroup("high", priority=1)], Quota(instances=10))
    assert grants[demands[0].key].instances == 4
    assert grants[demands[0].key].why == (
        "4 of 8: the load of others needs it, busy (90 % of its budget left): the cluster may have 10 instances"
    )
    assert grants[demands[1].key].code == "waits", "until they have left"


def test_a_shortage_is_not_passed_round_among_jobs_that_run_with_what_they_need() -> None:
    """A late job may not make another one late in turn, unless it has a higher priority."""
    runs = Demand("runs", current=5, wanted=5, needed=5, minimum=1, budget_left=0.9)
    late = Demand("late", current=1, wanted=9, needed=5, minimum=1, budget_left=-3.0, is_behind=True)
    grants = arbitrate([runs, late], cluster=Quota(instances=6))
    assert [grants[demand.key].instances for demand in (runs, late)] == [5, 1]
    first = arbitrate([runs, replace(late, priority=1)], cluster=Quota(instances=6))
    assert [first[demand.key].instances for demand in (runs, late)] == [1, 1], "it has to wait until they have left"


def test_keeping_up_comes_before_catching_up_and_catching_up_before_a_reserve() -> None:
    demands = [
        Demand("late", current=2, wanted=9, needed=3, held=0, budget_left=-1.0, is_behind=True),
        Demand("rising", current=2, wanted=6, needed=4, held=0, budget_left=0.5),
    ]
    for room, expected in ((4, [2, 2]), (5, [3, 2]), (7, [3, 4]), (10, [6, 4]), (13, [9, 4]), (14, [9, 5])):
        assert [grant.instances for grant in arbitrate(demands, cluster=Quota(instances=room)).values()] == expected


def test_what_is_needed_is_rounded_to_a_size_that_is_possible() -> None:
    demands = [
        Demand("steps", wanted=8, needed=3, held=0, allowed=(1, 2, 4, 8), budget_left=0.1),
        Demand("other", wanted=6, needed=6, held=0, budget_left=0.9),
    ]
    grants = arbitrate(demands, cluster=Quota(instances=10))
    assert [grants[demand.key].instances for demand in demands] == [4, 6]


@pytest.mark.parametrize(
    ("allowed", "room", "expected"), [((1, 2, 4, 8), 7, 4), ((1, 2, 4, 8), 8, 8), ((3, 6), 2, 0), (None, 7, 7)]
)
def test_only_sizes_that_are_possible_are_granted(allowed: tuple[int, ...] | None, room: int, expected: int) -> None:
    demands = [Demand("one", wanted=8, held=0, allowed=allowed)]
    assert sizes(demands, (), Quota(instances=room)) == {demands[0].key: expected}


def test_the_sentence_names_the_quota_and_whom_it_is_for() -> None:
    demands = [
        *(Demand(f"web-{n}", wanted=2, held=0, budget_left=0.1, group="g") for n in range(5)),
        Demand("etl", "load", wanted=3, held=0, minimum=1, group="g", need=Need(money_per_hour=0.5)),
    ]
    grant = arbitrate(demands, [QuotaGroup("g", Quota(instances=11))])[OperatorKey("etl", "load")]
    assert grant.why == (
        "1 of 3: it gives way to web-0 (10 % of its budget left), web-1 (10 % of its budget left), "
        "web-2 (10 % of its budget left) and 2 more: group g may have 11 instances"
    )
    alone = arbitrate([replace(demands[-1], minimum=2)], [QuotaGroup("g", Quota(money_per_hour=0.5))])[
        OperatorKey("etl", "load")
    ]
    assert (alone.code, alone.why) == (
        "below-minimum",
        "1 of 3, below its minimum of 2: group g may have 0.5 of money per hour",
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quota(cores=-1), "quota cores -1 is not allowed; it must be finite and not negative."),
        (lambda: Need(memory_gb=float("inf")), "memory_gb inf of an instance is not allowed"),
        (lambda: QuotaGroup(""), "group name '' is not allowed"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]
