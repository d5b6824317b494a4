"""Waits before a query that failed is started again."""

from __future__ import annotations

import pytest

from headgate.core.errors import InputError
from headgate.runtime.managed.failures import Backoff, Restarts


def test_waits_double_up_to_the_longest() -> None:
    waits = Backoff(Restarts(first_s=2.0, longest_s=10.0, jitter=0.0))
    assert [waits.next_s() for _ in range(5)] == [2.0, 4.0, 8.0, 10.0, 10.0]


def test_waits_vary_within_the_jitter_and_are_the_same_for_the_same_seed() -> None:
    restarts = Restarts(first_s=1.0, longest_s=1.0, jitter=0.25, most_in_a_row=None)
    first, same, other = (Backoff(restarts, seed) for seed in (7, 7, 8))
    waits_s = [first.next_s() for _ in range(50)]
    assert waits_s == [same.next_s() for _ in range(50)]
    assert waits_s != [other.next_s() for _ in range(50)]
    assert 0.75 <= min(waits_s) < max(waits_s) <= 1.25


def test_a_finished_batch_resets_the_count() -> None:
    waits = Backoff(Restarts(first_s=1.0, jitter=0.0, most_in_a_row=2))
    for _ in range(5):
        waits.next_s()
        waits.next_s()
        assert not waits.is_exhausted
        waits.forget()
    assert waits.next_s() == 1.0


@pytest.mark.parametrize(
    ("most", "failures", "exhausted"), [(0, 1, True), (3, 3, False), (3, 4, True), (None, 999, False)]
)
def test_it_gives_up_after_too_many_failures_in_a_row(most: int | None, failures: int, *, exhausted: bool) -> None:
    waits = Backoff(Restarts(most_in_a_row=most))
    for _ in range(failures):
        waits.next_s()
    assert waits.is_exhausted is exhausted


@pytest.mark.parametrize(
    "settings",
    [{"first_s": 0.0}, {"first_s": 5.0, "longest_s": 1.0}, {"jitter": 1.0}, {"jitter": -0.1}, {"most_in_a_row": -1}],
)
def test_settings_that_make_no_sense_are_refused_with_what_was_given(settings: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(settings.values())):g}"):
        Restarts(**settings)  # type: ignore[arg-type]  # as a user might
