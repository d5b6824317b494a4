"""The loop's time does not jump with the wall clock."""

from __future__ import annotations

import threading
import time

import pytest

from headgate.runtime.loop import SystemClock


@pytest.mark.parametrize("jump_s", [-86400.0, 86400.0])
def test_a_jump_of_the_wall_clock_is_not_seen(monkeypatch: pytest.MonkeyPatch, jump_s: float) -> None:
    clock = SystemClock()
    before_s, wall_s = clock.now(), time.time()
    monkeypatch.setattr(time, "time", lambda: wall_s + jump_s)
    assert 0 <= clock.now() - before_s < 60


def test_it_starts_at_the_time_of_the_wall() -> None:
    assert SystemClock().now() == pytest.approx(time.time(), abs=60)


def test_waiting_ends_when_stop_is_set() -> None:
    stop = threading.Event()
    stop.set()
    clock = SystemClock()
    clock.wait_until(clock.now() + 3600, stop)
