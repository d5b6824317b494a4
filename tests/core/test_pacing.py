"""Rescales are paced: never more than allowed in any span, the neediest first, and nobody waits for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.arbiter import LONGEST_WAIT, Pace, Pacer, Urgency
from headgate.core.errors import InputError

requests = st.lists(st.tuples(st.floats(0, 3), st.integers(0, 5), st.floats(-1, 1), st.booleans()), max_size=40)


@settings(max_examples=60)
@given(requests, st.integers(1, 3), st.floats(1, 20))
def test_no_span_has_more_rescales_than_allowed(
    asks: list[tuple[float, int, float, bool]], rescales: int, per_s: float
) -> None:
    pacer, now, begun = Pacer(Pace(rescales, per_s)), 0.0, []
    for after_s, who, left, grows in asks:
        now += after_s
        if pacer.ask(now, who, Urgency(grows=grows, budget_left=left)):
            begun.append(now)
    for first in begun:
        assert sum(0 <= at_s - first < per_s for at_s in begun) <= rescales


def test_the_calmest_gets_its_turn_however_needy_the_others_are() -> None:
    pacer = Pacer(Pace(1, 10.0))
    granted_s = None
    for tick in range(200):
        # Two that are always worse off and ask first; one of them takes every place that becomes free.
        for needy in ("one", "two"):
            pacer.ask(float(tick), needy, Urgency(priority=1, budget_left=-1.0))
        if pacer.ask(float(tick), "calm", Urgency(grows=False, budget_left=1.0)):
            granted_s = tick
            break
    assert granted_s is not None
    assert LONGEST_WAIT * 10 <= granted_s <= LONGEST_WAIT * 10 + 30


def test_a_place_is_reserved_for_a_needier_job_only_while_it_keeps_asking() -> None:
    pacer = Pacer(Pace(1, 10.0))
    assert pacer.ask(0.0, "first", Urgency())
    assert not pacer.ask(1.0, "needy", Urgency(budget_left=-1.0))
    assert not pacer.ask(10.0, "calm", Urgency(budget_left=0.9))
    assert pacer.ask(31.5, "calm", Urgency(budget_left=0.9))
    assert pacer.waiting == 0


@pytest.mark.parametrize("pace", [(0, 10.0), (1, 0.0), (1, float("inf"))])
def test_a_pace_that_cannot_be_is_refused(pace: tuple[int, float]) -> None:
    with pytest.raises(InputError, match="is not allowed; it must be"):
        Pace(*pace)
