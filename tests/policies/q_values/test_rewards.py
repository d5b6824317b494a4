"""Every rule of the reward, for each region and action."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.policies.q_values.agent import REWARDS, ActionResult, Reward
from headgate.policies.q_values.table import Action

BELOW, ABOVE = 0.25, 1.5


def rewards(kind: Reward, share: float, *, rising: bool, rose: bool) -> tuple[float, ...]:
    return tuple(REWARDS[kind](ActionResult(action, share, rising, rose, instances=3)) for action in Action)


@pytest.mark.parametrize(
    ("share", "rising", "rose", "expected"),
    [
        # Region 1: the nearer the target, the better is an early scale-out (rule 2); a scale-in is punished (rule 1).
        (BELOW, True, True, (0.25, 0.75, -1)),
        (BELOW, True, False, (0.25, 0.75, 0)),
        (0.75, True, True, (0.75, 0.25, -1)),
        # Region 2: scale-out, although latency rises (rule 2); anything else is punished for it (rule 1).
        (ABOVE, True, True, (1, -1, -1)),
        (ABOVE, True, False, (1, 0, -1)),
        # Region 3: no action (rule 3).
        (ABOVE, False, True, (-1, 1, -1)),
        (ABOVE, False, False, (0, 1, -1)),
        # Region 4: scale-in, even if latency rises; doing nothing is the worse, the farther the target (rule 4).
        (BELOW, False, True, (-1, -0.75, 0.75)),
        (BELOW, False, False, (0, -0.75, 0.75)),
    ],
)
def test_preferring_scale_in_when_load_is_decreasing(
    share: float, rising: bool, rose: bool, expected: tuple[float, ...]
) -> None:
    assert rewards(Reward.PREFER_SCALE_IN, share, rising=rising, rose=rose) == pytest.approx(expected)


@pytest.mark.parametrize(("rose", "expected"), [(True, (-1, -1, -1)), (False, (0, 0.25, 0.75))])
def test_without_the_fourth_rule_region_4_judges_by_latency_only(rose: bool, expected: tuple[float, ...]) -> None:
    assert rewards(Reward.LATENCY_ONLY, BELOW, rising=False, rose=rose) == pytest.approx(expected)


@given(st.sampled_from(Reward), st.floats(0, 100), st.booleans(), st.booleans())
def test_rewards_lie_within_one(kind: Reward, share: float, rising: bool, rose: bool) -> None:
    assert all(-1 <= reward <= 1 for reward in rewards(kind, share, rising=rising, rose=rose))


@given(st.floats(1, 100), st.booleans())
def test_over_the_target_a_scale_in_is_never_good(share: float, rose: bool) -> None:
    for rising in (True, False):
        assert rewards(Reward.PREFER_SCALE_IN, share, rising=rising, rose=rose)[Action.IN] < 0
