"""Bursts that come by the clock: which are found, how soon, and how fast trust in them goes."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from headgate.forecast.clock_patterns import TRUSTED, ClockPatterns, ExpectedBurst

Bursts = list[tuple[float, float, float]]
"""Begin, seconds and records/s of each."""
STEP_S = 10.0
BASE_PER_S = 100.0


def load(hours: float, bursts: Bursts, *, seed: int = 1) -> list[float]:
    """Records of each step, with bursts of (begin in seconds, seconds, records per second)."""
    fine = np.full(round(hours * 360) * 10, BASE_PER_S)
    for begin_s, seconds, height in bursts:
        fine[max(0, round(begin_s)) : max(0, round(begin_s + seconds))] += height
    counts = np.random.default_rng(seed).poisson(fine.reshape(-1, round(STEP_S)).sum(axis=1))
    return [float(count) for count in counts]


def every(period_s: float, seconds: float, height: float, hours: float, first_s: float = 130.0) -> Bursts:
    return [(begin_s, seconds, height) for begin_s in np.arange(first_s, hours * 3600, period_s)]


def followed(counts: list[float], watch: Callable[[float, ClockPatterns], None] | None = None) -> ClockPatterns:
    patterns = ClockPatterns()
    for step, count in enumerate(counts):
        patterns.observe(STEP_S * step, STEP_S * (step + 1), count)
        if watch is not None:
            watch(STEP_S * (step + 1), patterns)
    return patterns


def next_burst(counts: list[float], within_s: float = 3 * 3600.0) -> ExpectedBurst:
    return min(followed(counts).expected(STEP_S * len(counts), within_s), key=lambda burst: burst.begins_s)


@pytest.mark.parametrize(
    ("period_s", "seconds", "hours", "begins_s"),
    [
        (300, 60, 0.25, 130 + 3 * 300),
        (900, 60, 0.4, 130 + 2 * 900),
        (3600, 180, 1.5, 130 + 2 * 3600),
        (1800, 600, 0.9, 130 + 2 * 1800),
        (1380, 420, 1.2, 130 + 3 * 1380),
    ],
    ids=["every 5 min", "a quarter of an hour", "an hour", "ten on and twenty off", "an odd period"],
)
def test_a_burst_is_expected_after_two_at_a_usual_distance_or_three_at_any(
    period_s: float, seconds: float, hours: float, begins_s: float
) -> None:
    burst = next_burst(load(hours, every(period_s, seconds, 400.0, hours)))
    assert burst.begins_s == pytest.approx(begins_s, abs=8)
    assert burst.lasts_s == pytest.approx(seconds, abs=8)
    assert burst.height_per_s == pytest.approx(400, rel=0.1)
    assert burst.trust > 0.5


def test_a_pattern_says_how_often_it_held() -> None:
    burst = next_burst(load(5, every(900, 60, 400.0, 5)))
    assert burst.pattern == "every 15 min, 14 of the last 14 times"
    assert burst.trust > 0.9


def test_several_patterns_are_found_at_once() -> None:
    counts = load(10, every(600, 40, 200.0, 10, 50.0) + every(2400, 150, 500.0, 10, 400.0))
    periods_s = sorted(pattern.period_s for pattern in followed(counts).patterns if pattern.trust > TRUSTED)
    assert periods_s == pytest.approx([600, 2400], rel=0.01)


def test_jitter_of_half_a_minute_and_a_missing_burst_now_and_then_are_tolerated() -> None:
    chance = np.random.default_rng(5)
    bursts = [
        (begin_s + chance.uniform(-30, 30), seconds, height)
        for begin_s, seconds, height in every(1200, 90, 400.0, 12)
        if chance.random() > 0.07
    ]
    patterns = followed(load(12, bursts)).patterns
    assert [pattern.period_s for pattern in patterns] == pytest.approx([1200], rel=0.02)
    assert patterns[0].trust > 0.4
    assert 10 < patterns[0].spread_s < 40


@pytest.mark.parametrize("growth", [1.1, 0.92])
def test_bursts_that_grow_or_shrink_are_expected_to_go_on_so(growth: float) -> None:
    bursts = [
        (begin_s, seconds, 400.0 * growth**number)
        for number, (begin_s, seconds, _) in enumerate(every(900, 120, 400.0, 2.4))
    ]
    assert next_burst(load(2.4, bursts)).height_per_s == pytest.approx(400 * growth ** len(bursts), rel=0.12)


def test_trust_is_withdrawn_after_two_failures_and_nothing_is_expected_then() -> None:
    trusts: dict[float, float] = {}

    def watch(at_s: float, patterns: ClockPatterns) -> None:
        trusts[at_s] = max((pattern.trust for pattern in patterns.patterns), default=0.0)

    followed(load(6, [burst for burst in every(900, 60, 400.0, 6) if burst[0] < 3 * 3600]), watch)
    last_s = 130.0 + 11 * 900
    assert trusts[last_s + 600] > 0.9
    assert trusts[last_s + 900 + 120] < 0.5
    assert trusts[last_s + 2 * 900 + 120] == 0.0


def test_records_of_an_expected_burst_are_separated_from_the_rest_of_the_load() -> None:
    patterns, excess = ClockPatterns(), 0.0
    for step, count in enumerate(load(4, every(900, 60, 400.0, 4))):
        excess += patterns.observe(STEP_S * step, STEP_S * (step + 1), count)
    assert excess == pytest.approx(14 * 60 * 400, rel=0.1)


@pytest.mark.parametrize("seed", range(6))
def test_bursts_at_random_make_hardly_a_pattern(seed: int) -> None:
    chance = np.random.default_rng(seed)
    bursts = [
        (begin_s, chance.uniform(60, 600), chance.uniform(150, 450)) for begin_s in chance.uniform(0, 24 * 3600, 48)
    ]
    expected = []

    def watch(at_s: float, patterns: ClockPatterns) -> None:
        expected.append(bool(patterns.expected(at_s, 300.0)))

    followed(load(24, bursts, seed=seed), watch)
    assert np.mean(expected) < 0.03


def test_state_goes_on_identically_and_periods_outlive_a_reset_of_the_clock() -> None:
    counts = load(4, every(900, 60, 400.0, 4))
    half = len(counts) // 2
    patterns = followed(counts[:half])
    again = ClockPatterns.from_json(json.loads(json.dumps(patterns.to_json())))
    for step, count in enumerate(counts[half:], start=half):
        span_s = STEP_S * step, STEP_S * (step + 1)
        assert again.observe(*span_s, count) == patterns.observe(*span_s, count)
    assert again.to_json() == patterns.to_json()

    again.reset_clock()
    assert again.expected(0.0, 3600.0) == []
    for step, count in enumerate(load(0.2, [(300.0, 60.0, 400.0)])):
        again.observe(STEP_S * step, STEP_S * (step + 1), count)
    assert [round(burst.begins_s) for burst in again.expected(720.0, 900.0)] == pytest.approx([1200], abs=8)
