"""The loads on which promises are tried: a day of each public trace, and shapes that are made up.

Each is scaled so that the busiest half per cent of its minutes needs ``PEAK_INSTANCES``. Coarse traces run on a line
between their values and are replayed faster, so that none stands still for more than five minutes; records come at
random times. A seed picks the day and the chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from headgate.forecast.contract import FloatArray
from headgate.workloads.steps import Steps
from headgate.workloads.traces import read_trace, trace_names

DAY_S = 86_400.0
STEP_S = 5.0
COARSEST_S = 300.0
SERVICE_RATE_PER_S = 50.0
PEAK_INSTANCES = 12.0
SMOOTH_WITHIN = 0.06
"""A load is smooth if nineteen of twenty minutes differ by less from the one before (as a logarithm)."""
BURST, BURSTY_SHARE = 0.4, 0.01
"""And bursty if more than one of a hundred is half as much again as the one before, or that much less."""


@dataclass(frozen=True)
class Load:
    """One day of one load."""

    name: str
    seed: int
    kind: str
    """``smooth``, ``noisy`` or ``bursty``."""
    chosen_on: bool
    """Whether constants were chosen on it; the others are to show what they are worth."""
    factor: float
    """Records here for one of the trace."""
    rates_per_s: FloatArray
    """One per ``STEP_S``."""

    @property
    def seconds(self) -> float:
        return len(self.rates_per_s) * STEP_S

    @property
    def workload(self) -> Steps:
        return Steps(
            [STEP_S * index for index in range(len(self.rates_per_s) + 1)],
            [float(rate) for rate in self.rates_per_s],
            f"{self.name}, day {self.seed}",
        )


def load_names() -> list[str]:
    """Every load, made-up ones first."""
    return [*_SHAPES, *trace_names()]


@cache
def make_load(name: str, seed: int = 0) -> Load:
    """A load by name; needs the folder of traces for those that are real."""
    chance = np.random.default_rng([seed, *name.encode()])
    if name in _SHAPES:
        rates = _SHAPES[name](chance)
    else:
        trace = read_trace(name)
        step_s = min(trace.step_s, COARSEST_S)
        rates = _day(trace.rates_per_s, step_s, seed)
    minutes = _means(rates, round(60 / STEP_S))
    factor = PEAK_INSTANCES * SERVICE_RATE_PER_S / max(1e-9, float(np.quantile(minutes, 0.995)))
    counts = chance.poisson(np.maximum(0.0, rates) * factor * STEP_S)
    scaled = counts / STEP_S
    chosen_on = load_names().index(name) % 2 == 0
    return Load(name, seed, _kind(_means(scaled, round(60 / STEP_S))), chosen_on, factor, scaled)


def _day(rates: FloatArray, step_s: float, seed: int) -> FloatArray:
    """A day, on a line between the middles of the steps; the days of a long trace are taken one after the other."""
    per_day = round(DAY_S / step_s)
    days = max(1, len(rates) // per_day)
    # The first day of a trace is often its strangest.
    first = (seed + 1) % days * per_day
    part = rates[first : first + per_day]
    at_s = np.arange(0.0, len(part) * step_s, STEP_S) + STEP_S / 2
    return np.interp(at_s, (np.arange(len(part)) + 0.5) * step_s, part)


def _means(values: FloatArray, count: int) -> FloatArray:
    whole = len(values) // count * count
    return np.asarray(values[:whole].reshape(-1, count).mean(axis=1))


def _kind(minutes: FloatArray) -> str:
    level = minutes + 0.02 * minutes.mean()
    moves = np.abs(np.log(level[1:] / level[:-1]))
    if float(np.mean(moves > BURST)) > BURSTY_SHARE:
        return "bursty"
    return "smooth" if float(np.quantile(moves, 0.95)) <= SMOOTH_WITHIN else "noisy"


def _times_s() -> FloatArray:
    return np.arange(0.0, DAY_S, STEP_S)


def _waves(chance: np.random.Generator) -> FloatArray:
    begin = chance.uniform(0, 2 * math.pi)
    return 6 + 4 * np.sin(2 * math.pi * _times_s() / (6 * 3600) + begin)


def _stairs(chance: np.random.Generator) -> FloatArray:
    """A new level every twenty minutes on average, at once."""
    times_s = _times_s()
    level = np.empty(len(times_s))
    at = 0
    while at < len(level):
        wide = max(1, int(chance.exponential(1200.0) / STEP_S))
        level[at : at + wide] = chance.uniform(1.5, 10.0)
        at += wide
    return level


def _bursts(chance: np.random.Generator) -> FloatArray:
    """A quiet load, and every half hour on average a burst of several times as much for some minutes."""
    level = np.full(len(_times_s()), 3.0)
    for _ in range(int(chance.poisson(48))):
        begin, wide = chance.integers(len(level)), int(chance.uniform(60, 600) / STEP_S)
        level[begin : begin + wide] += chance.uniform(3, 9)
    return level


def _walk(chance: np.random.Generator) -> FloatArray:
    """The logarithm goes up and down by a twentieth each minute, and is drawn back to the middle."""
    steps = chance.normal(0.0, 0.05 * math.sqrt(STEP_S / 60), len(_times_s()))
    drawn = math.exp(-STEP_S / 7200)
    place, course = 0.0, np.empty(len(steps))
    for index, step in enumerate(steps):
        place = drawn * place + step
        course[index] = place
    return np.asarray(5 * np.exp(course))


def _teeth(chance: np.random.Generator) -> FloatArray:
    """Up within forty minutes, down within one."""
    begin = chance.uniform(0, 2460)
    place = (_times_s() + begin) % 2460
    return np.where(place < 2400, 2 + 8 * place / 2400, 10 - 8 * (place - 2400) / 60)


_SHAPES: Mapping[str, Callable[[np.random.Generator], FloatArray]] = {
    "waves": _waves,
    "stairs": _stairs,
    "bursts": _bursts,
    "walk": _walk,
    "teeth": _teeth,
}
