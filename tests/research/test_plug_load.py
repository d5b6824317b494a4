"""Smart plugs: work depends on messages and on who sends them."""

from __future__ import annotations

import pytest

from headgate.research.plug_load import plug_load, sort_work


def work_of_a_batch(messages: float, devices: float) -> float:
    load = plug_load([(0, messages / 10, devices), (1, messages / 10, devices)], window=1650, noise=0)
    assert load.messages.arrivals(0, 10) == pytest.approx(messages)
    return load.work.arrivals(0, 10)


def test_many_devices_are_more_work_than_many_messages() -> None:
    assert work_of_a_batch(500, 500) == pytest.approx(500 + 500 * sort_work(1650))
    assert work_of_a_batch(2000, 5) == pytest.approx(2000 + 5 * sort_work(1650))
    assert work_of_a_batch(500, 500) > 4 * work_of_a_batch(2000, 5)


def test_no_more_devices_speak_than_there_are_messages() -> None:
    assert work_of_a_batch(100, 500) == pytest.approx(100 + 100 * sort_work(1650))


def test_a_longer_window_is_more_work_per_device() -> None:
    assert sort_work(1900) > sort_work(1650)


def test_it_follows_the_profile_and_the_seed() -> None:
    profile = [(0, 100, 100), (30, 300, 400), (60, 100, 100)]
    first, again, other = (plug_load(profile, window=1650, seed=seed) for seed in (1, 1, 2))
    times_s = range(0, 3600, 10)
    rates = [[load.messages.rate_per_s(at_s) for at_s in times_s] for load in (first, again, other)]
    assert rates[0] == rates[1] != rates[2]
    assert first.messages.end_s == 3600
    middle, start = first.messages.arrivals(1700, 1900) / 200, first.messages.arrivals(0, 200) / 200
    assert 1.8 < middle / start < 3.5
