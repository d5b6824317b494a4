"""What earlier rescales brought."""

from __future__ import annotations

import pytest

from headgate.core.types import Verdict
from headgate.core.window import SizeChange
from headgate.policies.flink_autoscaler import Rescale, RescaleHistory


def change(at_s: float, current: int, target: int) -> SizeChange:
    return SizeChange(at_s, Verdict("job", current, target, target, "test", "a test"))


def of(*rescales: tuple[int, float]) -> RescaleHistory:
    """A history of sizes with the rate that all instances had before each was left."""
    return RescaleHistory([Rescale(10.0 * i, size, size + 1, rate) for i, (size, rate) in enumerate(rescales)])


@pytest.mark.parametrize(
    ("rescales", "share"),
    [
        # Too few to judge by.
        (((1, 100.0), (2, 150.0)), 1.0),
        (((1, 100.0), (2, 200.0), (4, 400.0)), 1.0),
        # (1·100 + 2·150 + 4·240) / ((1 + 4 + 16) · 100), rounded up to hundredths.
        (((1, 100.0), (2, 150.0), (4, 240.0)), 0.65),
        # More than proportional, or hardly anything: held within 0.5 and 1.
        (((1, 100.0), (2, 300.0), (4, 800.0)), 1.0),
        (((1, 100.0), (2, 100.0), (4, 100.0)), 0.5),
        # The newest of those at the smallest size counts as the rate of one.
        (((2, 100.0), (4, 400.0), (2, 200.0)), 0.92),
    ],
)
def test_scalability_is_the_share_of_proportional_gain_that_was_seen(
    rescales: tuple[tuple[int, float], ...], share: float
) -> None:
    assert of(*rescales).scalability(3, 0.5) == pytest.approx(share)


@pytest.mark.parametrize(
    ("before", "after", "now_per_s", "effect"),
    [(2, 4, 400.0, 1.0), (2, 4, 220.0, 0.1), (2, 4, 190.0, -0.05), (4, 2, 100.0, None)],
)
def test_the_effect_of_a_rescale_is_the_share_of_the_expected_gain_that_arrived(
    before: int, after: int, now_per_s: float, effect: float | None
) -> None:
    found = Rescale(0.0, before, after, 200.0).effect(now_per_s)
    assert found is None if effect is None else found == pytest.approx(effect)


def test_only_a_proposal_that_was_carried_out_is_remembered() -> None:
    history = RescaleHistory()
    history.propose(10.0, 100.0)
    assert not history.follow(20.0, None, most=3, for_s=1000)
    assert not history.follow(20.0, change(5.0, 1, 2), most=3, for_s=1000)
    assert history.follow(20.0, change(10.0, 1, 3), most=3, for_s=1000)
    assert history.newest == Rescale(10.0, 1, 3, 100.0)
    assert not history.follow(30.0, change(10.0, 1, 3), most=3, for_s=1000)


def test_old_rescales_are_forgotten() -> None:
    history = of((1, 100.0), (2, 200.0), (3, 300.0), (4, 400.0))
    history.propose(100.0, 500.0)
    assert history.follow(110.0, change(100.0, 5, 6), most=3, for_s=100)
    assert [row[1] for row in history.to_json()[0]] == [3, 4, 5]
    history.follow(125.0, None, most=3, for_s=100)
    assert [row[1] for row in history.to_json()[0]] == [4, 5]
