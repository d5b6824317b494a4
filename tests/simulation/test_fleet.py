"""The instances of a simulated operator: which of them come, and which are let go of."""

import math

import pytest

from headgate.core.types import Instances
from headgate.simulation.fleet import Fleet


def starting() -> Fleet:
    """One instance ready, one that will be at 30 s, and one at 40 s."""
    fleet = Fleet(1, startup_s=30.0)
    fleet.bring_to(2, 0.0)
    fleet.bring_to(3, 10.0)
    return fleet


@pytest.mark.parametrize(
    ("planned", "ready_at_30_s", "ready_at_40_s", "next_ready_s"),
    [(3, 2, 3, 30.0), (2, 2, 2, 30.0), (1, 1, 1, math.inf), (0, 0, 0, math.inf)],
)
def test_scaling_in_cancels_the_instance_that_would_be_ready_last_and_only_then_one_that_is_ready(
    planned: int, ready_at_30_s: int, ready_at_40_s: int, next_ready_s: float
) -> None:
    fleet = starting()
    fleet.bring_to(planned, 20.0)
    assert fleet.next_ready_s == next_ready_s
    for at_s, ready in ((30.0, ready_at_30_s), (40.0, ready_at_40_s)):
        fleet.join(at_s)
        assert fleet.instances == Instances(planned, planned, ready)


def test_an_instance_that_is_asked_for_again_starts_from_the_beginning() -> None:
    fleet = starting()
    fleet.bring_to(1, 20.0)
    fleet.bring_to(2, 25.0)
    assert fleet.next_ready_s == 55.0


def test_asking_for_the_size_that_is_coming_changes_nothing() -> None:
    fleet = starting()
    assert not fleet.bring_to(3, 20.0)
    assert fleet.next_ready_s == 30.0
