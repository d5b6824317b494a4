"""Jobs that decide one after the other share what there is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.arbiter import Arbiter, Limits, Pace
from headgate.core.quotas import Demand, Quota, QuotaGroup

wishes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.floats(-1, 1)), min_size=1, max_size=30)


@settings(max_examples=60)
@given(wishes, st.integers(0, 20), st.none() | st.integers(1, 3))
def test_sizes_that_follow_each_grant_at_once_never_exceed_the_quota(
    asks: list[tuple[int, int, float]], quota: int, pace: int | None
) -> None:
    arbiter = Arbiter([QuotaGroup("g", Quota(instances=quota))], pace=None if pace is None else Pace(pace))
    sizes: dict[str, int] = {}
    for second, (number, wanted, left) in enumerate(asks):
        job = f"job-{number}"
        current = sizes.get(job, 0)
        grant = arbiter.ask(second, Demand(job, current=current, wanted=wanted, budget_left=left, group="g"))
        sizes[job] = grant.instances
        assert sum(sizes.values()) <= quota
        assert grant.why or grant.instances == wanted


def test_who_needs_it_more_gets_it_when_the_other_has_left() -> None:
    arbiter = Arbiter([QuotaGroup("g", Quota(instances=10))])
    calm = Demand("calm", current=8, wanted=8, minimum=2, budget_left=0.9, group="g")
    needy = Demand("needy", current=2, wanted=6, minimum=1, budget_left=0.1, group="g")
    assert arbiter.ask(0.0, calm).instances == 8
    waiting = arbiter.ask(1.0, needy)
    assert (waiting.instances, waiting.code) == (2, "waits")
    # The calm one hears of it at its next decision, and for whom.
    gives_way = arbiter.ask(10.0, calm)
    assert (gives_way.instances, gives_way.gives_way_to) == (4, (needy.key,))
    # As long as its instances have not left, they are not free.
    assert arbiter.ask(11.0, replace(needy, held=2)).instances == 2
    arbiter.ask(20.0, replace(calm, current=4, held=4))
    assert arbiter.ask(21.0, needy).instances == 6


def test_a_job_that_is_gone_and_a_quota_that_grows_make_room() -> None:
    arbiter = Arbiter([QuotaGroup("g", Quota(instances=4))])
    arbiter.ask(0.0, Demand("gone", current=4, wanted=4, group="g"))
    here = Demand("here", current=0, wanted=3, group="g", budget_left=0.5)
    assert arbiter.ask(1.0, here).instances == 0
    arbiter.change(Limits((QuotaGroup("g", Quota(instances=5)),)))
    assert arbiter.ask(2.0, here).instances == 1
    arbiter.forget("gone")
    assert arbiter.ask(3.0, here).instances == 3
    assert arbiter.short == {}
    assert arbiter.usage() == {("g", 0): (3.0, 5)}


def test_a_change_that_has_to_wait_for_its_turn_says_so() -> None:
    arbiter = Arbiter(pace=Pace(1, 10.0))
    assert arbiter.ask(0.0, Demand("one", current=1, wanted=2)).instances == 2
    paced = arbiter.ask(0.5, Demand("two", current=1, wanted=2))
    assert (paced.instances, paced.code) == (1, "paced")
    assert paced.why == "1 jobs wait for their turn to change their size, 1 rescales per 10 s are allowed"
    # A hold needs no turn, and gives up its place in the queue.
    assert arbiter.ask(1.0, Demand("two", current=1, wanted=1)).code == "as-wanted"
    assert arbiter.waiting == 0
