"""The clock of tests."""

import threading

import pytest

from headgate.runtime.loop import Clock
from headgate.testing import FakeClock


def test_it_is_a_clock() -> None:
    clock: Clock = FakeClock(100)
    assert clock.now() == 100


def test_waiting_for_a_time_makes_it_come() -> None:
    clock = FakeClock()
    clock.wait_until(60, threading.Event())
    assert clock.now() == 60


@pytest.mark.parametrize("stopped", [False, True])
def test_time_never_goes_back_and_stands_still_for_who_was_stopped(stopped: bool) -> None:
    clock, stop = FakeClock(100), threading.Event()
    if stopped:
        stop.set()
    clock.wait_until(50, stop)
    assert clock.now() == 100
    clock.wait_until(150, stop)
    assert clock.now() == (100 if stopped else 150)


def test_it_is_moved_forward_only() -> None:
    clock = FakeClock()
    clock.advance(2.5)
    assert clock.now() == 2.5
    with pytest.raises(ValueError, match="never goes back"):
        clock.advance(-1)
