"""Loads that come by the clock, and bursts that nobody announces, as families: a seed picks the pattern and its chance.

A pattern has sharp edges, and its bursts come with jitter, are now and then missing, and grow or shrink. Times count
from the start of the load, which is the top of an hour and the first hour of a Monday.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.units import format_duration
from headgate.workloads.day_load import DAY_S, STEP_S, DayLoad, DayRates, Rates, scaled_to_peak
from headgate.workloads.shapes import require_length, require_rate

HOUR_S = 3600.0
Chance: TypeAlias = np.random.Generator


@dataclass(frozen=True, eq=False)
class ClockRates(DayRates):
    """A load of a family."""

    pattern: str
    """In words, such as ``60s every 15m``."""
    learned_s: float
    """The end of the second period of its slowest pattern; 0 where nothing repeats."""


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Records per second relative to the base, one value per second."""

    levels: Rates
    words: str
    learned_s: float


def _flush(chance: Chance) -> _Pattern:
    """A burst every so many minutes, as from a job upstream that flushes what it has collected."""
    every_s = 60.0 * float(chance.choice([2, 5, 10, 15, 20, 30]))
    width_s = min(every_s / 4, float(chance.choice([20, 30, 60, 90, 120])))
    begins_s = np.arange(chance.uniform(0, every_s), DAY_S, every_s)
    heights = _grown(chance, begins_s, float(chance.uniform(1.5, 6)))
    levels = _waves(chance, 0.2)
    _add(levels, _jittered(chance, begins_s, min(every_s / 10, 20.0)), width_s, _some_missing(chance, heights))
    return _Pattern(levels, f"{format_duration(width_s)} every {format_duration(every_s)}", 2 * every_s)


def _hour(chance: Chance) -> _Pattern:
    """Bursts at the top of the hour, lower ones at half past, and still lower ones at the quarters."""
    width_s, height = 60.0 * float(chance.integers(1, 6)), float(chance.uniform(1, 4))
    levels = _waves(chance, 0.4)
    for minute, share in ((0, 1.0), (30, 0.6), (15, 0.3), (45, 0.3)):
        begins_s = np.arange(60.0 * minute, DAY_S, HOUR_S)
        heights = _some_missing(chance, _grown(chance, begins_s, share * height))
        _add(levels, _jittered(chance, begins_s, 10.0), width_s, heights)
    return _Pattern(levels, f"{format_duration(width_s)} at the top of the hour, less at its quarters", 2 * HOUR_S)


def _onoff(chance: Chance) -> _Pattern:
    """On for some minutes and nearly off for more."""
    on_s, off_s = 60.0 * float(chance.integers(5, 21)), 60.0 * float(chance.integers(10, 41))
    begins_s = np.arange(chance.uniform(0, on_s + off_s), DAY_S, on_s + off_s)
    levels = np.full(int(DAY_S), float(chance.uniform(0.02, 0.3)))
    _add(levels, _jittered(chance, begins_s, 15.0), on_s, np.full(len(begins_s), 1.0))
    return _Pattern(levels, f"{format_duration(on_s)} on, {format_duration(off_s)} off", 2 * (on_s + off_s))


def _several(chance: Chance) -> _Pattern:
    """Bursts by two clocks at once, on a load that follows the time of day."""
    parts = [_flush(chance), _hour(chance)]
    return _Pattern(
        parts[0].levels + parts[1].levels,
        " and ".join(part.words for part in parts),
        max(part.learned_s for part in parts),
    )


def _daily(chance: Chance) -> _Pattern:
    """Four days with sharp edges at fixed times: an office that opens and closes, and a job at night."""
    opens_s, night_s = HOUR_S * float(chance.uniform(7, 10)), HOUR_S * float(chance.uniform(0.5, 5))
    open_s, width_s = HOUR_S * float(chance.uniform(8, 11)), 60.0 * float(chance.integers(5, 31))
    levels = np.full(int(4 * DAY_S), 1.0)
    days_s = np.arange(0.0, 4 * DAY_S, DAY_S)
    _add(levels, _jittered(chance, days_s + opens_s, 30.0), open_s, _grown(chance, days_s, chance.uniform(1, 4)))
    _add(levels, _jittered(chance, days_s + night_s, 30.0), width_s, _grown(chance, days_s, chance.uniform(2, 6)))
    return _Pattern(levels, f"{format_duration(width_s)} at night and {format_duration(open_s)} by day", 2 * DAY_S)


def _week(chance: Chance) -> _Pattern:
    """Three weeks: working days with an office's hours, quiet week-ends, and a job on one night of the week."""
    levels = np.full(int(21 * DAY_S), 1.0)
    days_s = np.arange(0.0, 21 * DAY_S, DAY_S)
    works = days_s[np.arange(21) % 7 < 5]
    opens_s, open_s = HOUR_S * float(chance.uniform(7, 9)), HOUR_S * float(chance.uniform(8, 11))
    _add(levels, _jittered(chance, works + opens_s, 30.0), open_s, _grown(chance, works, chance.uniform(1, 4)))
    night = days_s[np.arange(21) % 7 == int(chance.integers(7))] + HOUR_S * float(chance.uniform(1, 4))
    _add(levels, _jittered(chance, night, 30.0), HOUR_S, _grown(chance, night, chance.uniform(2, 6)))
    return _Pattern(levels, "the working week", 14 * DAY_S)


def _tails(chance: Chance) -> _Pattern:
    """Bursts at any time, with heights and lengths of which few are far above the rest."""
    begins_s = np.sort(chance.uniform(0, DAY_S, int(chance.poisson(DAY_S / (60.0 * float(chance.uniform(10, 40)))))))
    levels = _waves(chance, 0.2)
    heights, widths_s = (
        np.minimum(8.0, chance.pareto(1.5, len(begins_s)) + 0.5),
        30.0 * (1 + chance.pareto(1.5, len(begins_s))),
    )
    for begin_s, height, width_s in zip(begins_s, heights, np.minimum(1800.0, widths_s), strict=True):
        _add(levels, [begin_s], float(width_s), [height])
    return _Pattern(levels, f"{len(begins_s)} bursts at any time", 0.0)


def _waves(chance: Chance, height: float) -> Rates:
    """Return a day's wave about 1."""
    at = np.arange(int(DAY_S)) / DAY_S + chance.uniform()
    return np.asarray(1 + height * np.sin(2 * math.pi * at))


def _grown(chance: Chance, begins_s: Rates, height: float) -> Rates:
    """Return the heights of bursts, which become up to half less or as much again by the end."""
    return np.asarray(height * np.linspace(1.0, float(chance.choice([1.0, 1.0, 0.5, 1.5, 2.0])), len(begins_s)))


def _some_missing(chance: Chance, heights: Rates) -> Rates:
    return np.asarray(heights * (chance.uniform(size=len(heights)) >= float(chance.choice([0.0, 0.05, 0.1]))))


def _jittered(chance: Chance, begins_s: Rates, most_s: float) -> Rates:
    """Return times that are off by up to a jitter, which is often none."""
    jitter_s = most_s * float(chance.choice([0.0, 0.5, 1.0]))
    return np.asarray(begins_s + chance.uniform(-jitter_s, jitter_s, len(begins_s)))


def _add(levels: Rates, begins_s: Iterable[float], width_s: float, heights: Iterable[float]) -> None:
    for begin_s, height in zip(begins_s, heights, strict=True):
        first = max(0, round(begin_s))
        levels[first : max(0, round(begin_s + width_s))] += height


CLOCK_SHAPES: Mapping[str, Callable[[Chance], _Pattern]] = {
    "flush": _flush,
    "hour": _hour,
    "onoff": _onoff,
    "several": _several,
    "daily": _daily,
    "week": _week,
    "tails": _tails,
}


@lru_cache(maxsize=64)
def make_clock(name: str, seed: int, peak_per_s: float, lasting_s: float | None = None) -> ClockRates:
    """Return a load of a family, scaled as a day's load is; ``lasting_s`` cuts off its end."""
    if name not in CLOCK_SHAPES:
        raise UnknownNameError("clock", name, CLOCK_SHAPES)
    require_rate("peak", peak_per_s)
    if lasting_s is not None:
        require_length("lasting", lasting_s)
    if seed < 0:
        raise InputError(f"seed={seed} is not allowed; it must not be negative.")
    chance = np.random.default_rng([seed, *name.encode()])
    pattern = CLOCK_SHAPES[name](chance)
    steps = pattern.levels.reshape(-1, round(STEP_S)).mean(axis=1)
    if lasting_s is not None:
        steps = steps[: max(1, round(lasting_s / STEP_S))]
    factor, rates, kind = scaled_to_peak(steps, peak_per_s, chance)
    return ClockRates(factor, rates, kind, pattern.words, pattern.learned_s)


class ClockLoad(DayLoad):
    """A load of a family as a workload, which can be reseeded."""

    word = "clock"
    make = staticmethod(make_clock)
