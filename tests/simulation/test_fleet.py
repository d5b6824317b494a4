"""The instances of a simulated operator: which of them come, and which are let go of."""

import math

import pytest

from headgate.core.types import Instances, Startup
from headgate.simulation.contract import Warmed
from headgate.simulation.fleet import SimulatedFleet


def starting() -> SimulatedFleet:
    """One instance ready, one that will be at 30 s, and one at 40 s."""
    fleet = SimulatedFleet(1, lambda: 30.0)
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


def test_an_instance_that_is_requested_again_starts_from_the_beginning() -> None:
    fleet = starting()
    fleet.bring_to(1, 20.0)
    fleet.bring_to(2, 25.0)
    assert fleet.next_ready_s == 55.0


def test_asking_for_the_size_that_is_coming_changes_nothing() -> None:
    fleet = starting()
    assert not fleet.bring_to(3, 20.0)
    assert fleet.next_ready_s == 30.0


def test_the_instance_that_starts_fastest_is_ready_first() -> None:
    drawn_s = iter((50.0, 20.0, 30.0))
    fleet = SimulatedFleet(1, lambda: next(drawn_s))
    fleet.bring_to(4, 0.0)
    ready = []
    for at_s in (20.0, 30.0, 50.0):
        fleet.join(at_s)
        ready.append(fleet.ready)
    assert ready == [2, 3, 4]


def test_an_instance_is_paid_for_from_the_request_until_it_has_left() -> None:
    fleet = SimulatedFleet(1, lambda: 30.0, drain_s=2.0)
    fleet.bring_to(3, 10.0)
    fleet.join(40.0)
    fleet.bring_to(1, 60.0)
    fleet.left(60.0, [60.0, 65.0])
    # One all the time; two from 10 s on, until 2 s after they were through.
    assert fleet.sizes(100.0).tolist() == [
        [0, 10, 1, 1],
        [10, 40, 1, 3],
        [40, 60, 3, 3],
        [60, 62, 1, 3],
        [62, 67, 1, 2],
        [67, 100, 1, 1],
    ]


def test_an_instance_that_was_cancelled_or_lost_is_not_paid_for_any_longer() -> None:
    fleet = SimulatedFleet(2, lambda: 30.0)
    fleet.bring_to(3, 10.0)
    fleet.bring_to(2, 20.0)
    fleet.lose(50.0)
    assert fleet.sizes(60.0).tolist() == [[0, 10, 2, 2], [10, 20, 2, 3], [20, 50, 2, 2], [50, 60, 1, 1]]


def test_a_start_up_is_reported_when_it_has_started_and_when_it_is_complete() -> None:
    fleet = SimulatedFleet(1, lambda: 30.0)
    fleet.bring_to(2, 10.0)
    fleet.join(40.0)
    assert fleet.startups(45.0, []) == (Startup("2", 10.0, 30.0),)
    assert fleet.startups(46.0, []) == ()
    assert fleet.startups(56.0, [Warmed(40.0, 44.0, 55.0)]) == (Startup("2", 10.0, 30.0, 34.0, 45.0),)
    assert fleet.startups(56.0, [Warmed(40.0, 44.0, 55.0)]) == ()


def test_an_instance_that_left_before_it_was_warm_is_not_reported() -> None:
    fleet = SimulatedFleet(1, lambda: 30.0)
    fleet.bring_to(2, 10.0)
    fleet.join(40.0)
    fleet.bring_to(0, 41.0)
    fleet.left(41.0, [41.0, 41.0])
    assert fleet.startups(56.0, [Warmed(40.0, 44.0, 55.0)]) == ()


def test_an_instance_that_got_no_work_is_reported_without_a_first_task() -> None:
    fleet = SimulatedFleet(1, lambda: 30.0)
    fleet.bring_to(2, 10.0)
    fleet.join(40.0)
    assert fleet.startups(40.0, []) == (Startup("2", 10.0, 30.0),)
    assert fleet.startups(219.0, []) == ()
    assert fleet.startups(220.0, []) == (Startup("2", 10.0, 30.0, None, None),)
