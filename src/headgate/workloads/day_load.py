"""A day of a public or synthetic load, as a job would meet it; a seed picks the day and its randomness.

It is scaled so that the busiest half per cent of its minutes reaches a given rate. Coarse traces are interpolated
linearly and replayed faster, so that no value lasts longer than five minutes. Arrivals are Poisson.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError, UnknownNameError
from headgate.workloads.shapes import plain, require_length, require_rate
from headgate.workloads.steps import Steps
from headgate.workloads.traces import read_trace, trace_names

DAY_S = 86_400.0
STEP_S = 5.0
Rates = NDArray[np.float64]


def _times_s() -> Rates:
    return np.arange(0.0, DAY_S, STEP_S)


def _waves(chance: np.random.Generator) -> Rates:
    begin = chance.uniform(0, 2 * math.pi)
    return np.asarray(6 + 4 * np.sin(2 * math.pi * _times_s() / (6 * 3600) + begin))


def _stairs(chance: np.random.Generator) -> Rates:
    """A new level every twenty minutes on average, at once."""
    times_s = _times_s()
    level = np.empty(len(times_s))
    at = 0
    while at < len(level):
        wide = max(1, int(chance.exponential(1200.0) / STEP_S))
        level[at : at + wide] = chance.uniform(1.5, 10.0)
        at += wide
    return level


def _bursts(chance: np.random.Generator) -> Rates:
    """A quiet load, and every half hour on average a burst of several times as much for some minutes."""
    level = np.full(len(_times_s()), 3.0)
    for _ in range(int(chance.poisson(48))):
        begin, wide = chance.integers(len(level)), int(chance.uniform(60, 600) / STEP_S)
        level[begin : begin + wide] += chance.uniform(3, 9)
    return level


def _walk(chance: np.random.Generator) -> Rates:
    """The logarithm goes up and down by a twentieth each minute, and is drawn back to the middle."""
    steps = chance.normal(0.0, 0.05 * math.sqrt(STEP_S / 60), len(_times_s()))
    drawn = math.exp(-STEP_S / 7200)
    place, course = 0.0, np.empty(len(steps))
    for index, step in enumerate(steps):
        place = drawn * place + step
        course[index] = place
    return np.asarray(5 * np.exp(course))


def _teeth(chance: np.random.Generator) -> Rates:
    """Up within forty minutes, down within one."""
    begin = chance.uniform(0, 2460)
    place = (_times_s() + begin) % 2460
    return np.where(place < 2400, 2 + 8 * place / 2400, 10 - 8 * (place - 2400) / 60)


DAY_SHAPES: Mapping[str, Callable[[np.random.Generator], Rates]] = {
    "waves": _waves,
    "stairs": _stairs,
    "bursts": _bursts,
    "walk": _walk,
    "teeth": _teeth,
}


COARSEST_S = 300.0
BUSIEST = 0.995
"""The share of minutes that are below the peak."""
MINUTE_S = 60.0
SMOOTH_WITHIN = 0.06
"""A load is smooth if nineteen of twenty minutes differ by less from the one before (as a logarithm)."""
BURST, BURSTY_SHARE = 0.4, 0.01
"""And bursty if more than one of a hundred is half as much again as the one before, or that much less."""


@dataclass(frozen=True, eq=False)
class DayRates:
    """One day: records per second, one value per ``STEP_S``."""

    factor: float
    """Records here for one of the trace."""
    rates_per_s: Rates
    kind: str
    """``smooth``, ``noisy`` or ``bursty``."""


@lru_cache(maxsize=64)
def make_day(name: str, seed: int, peak_per_s: float, lasting_s: float | None = None) -> DayRates:
    """Return a day of a load; recorded loads need the folder of traces.

    With ``lasting_s`` it is a part of that length, whose start the seed picks.
    """
    if name not in day_names():
        raise UnknownNameError("day", name, day_names())
    require_rate("peak", peak_per_s)
    if lasting_s is not None:
        require_length("lasting", lasting_s)
    if seed < 0:
        raise InputError(f"seed={seed} is not allowed; it must not be negative.")
    chance = np.random.default_rng([seed, *name.encode()])
    if name in DAY_SHAPES:
        rates = DAY_SHAPES[name](chance)
    else:
        trace = read_trace(name)
        rates = _interpolated(trace.rates_per_s, min(trace.step_s, COARSEST_S), seed)
    if lasting_s is not None:
        rates = _part(rates, lasting_s, chance)
    return DayRates(*scaled_to_peak(rates, peak_per_s, chance))


class DayLoad(Steps):
    """A day as a workload, which can be reseeded."""

    word: ClassVar[str] = "day"
    """What its specification begins with."""
    make: ClassVar[Callable[[str, int, float, float | None], DayRates]] = staticmethod(make_day)

    def __init__(self, name: str, peak_per_s: float, *, lasting_s: float | None = None, seed: int = 0) -> None:
        day = type(self).make(name, seed, peak_per_s, lasting_s)
        length = "" if lasting_s is None else f",lasting={plain(lasting_s)}s"
        super().__init__(
            [STEP_S * index for index in range(len(day.rates_per_s) + 1)],
            day.rates_per_s.tolist(),
            f"{self.word}:{name},peak={plain(peak_per_s)}{length},seed={seed}",
            notes=(f"multiplied by {day.factor:.6g}, for {plain(peak_per_s)} records/s in the busiest minutes",),
        )
        self.kind = day.kind
        self._made_of = (name, peak_per_s, lasting_s, seed)

    def reseeded(self, by: int) -> DayLoad:
        """Return the load of another seed."""
        name, peak_per_s, lasting_s, seed = self._made_of
        return type(self)(name, peak_per_s, lasting_s=lasting_s, seed=seed + by)


def day_names() -> list[str]:
    """Return all names of day loads, synthetic ones first."""
    return [*DAY_SHAPES, *trace_names()]


def named_day(spec: str) -> str | None:
    """Return the load whose day a specification names; ``None`` for other specifications.

    >>> named_day("day:waves,peak=500"), named_day("constant:10")
    ('waves', None)
    """
    kind, _, rest = (part.strip() for part in spec.partition(":"))
    return rest.partition(",")[0].strip() if kind.lower() == "day" else None


def scaled_to_peak(rates: Rates, peak_per_s: float, chance: np.random.Generator) -> tuple[float, Rates, str]:
    """Return a factor, the rates of random arrivals at that multiple, and their kind."""
    # A nearly empty part is scaled by its maximum.
    busiest = float(np.quantile(_minutes(rates), BUSIEST)) or float(rates.max())
    factor = peak_per_s / max(1e-9, busiest)
    scaled = chance.poisson(np.maximum(0.0, rates) * factor * STEP_S) / STEP_S
    scaled.flags.writeable = False
    return factor, scaled, _kind(_minutes(scaled))


def _interpolated(rates: Rates, step_s: float, seed: int) -> Rates:
    """Return a day interpolated between the middles of the steps; consecutive seeds take consecutive days."""
    per_day = round(DAY_S / step_s)
    days = max(1, len(rates) // per_day)
    # The first day of a trace is often its strangest.
    first = (seed + 1) % days * per_day
    part = rates[first : first + per_day]
    at_s = np.arange(0.0, len(part) * step_s, STEP_S) + STEP_S / 2
    return np.interp(at_s, (np.arange(len(part)) + 0.5) * step_s, part)


def _part(rates: Rates, lasting_s: float, chance: np.random.Generator) -> Rates:
    count = max(round(MINUTE_S / STEP_S), round(lasting_s / STEP_S))
    # A trace shorter than a day leaves little or no choice.
    first = int(chance.integers(max(1, len(rates) - count + 1)))
    return rates[first : first + count]


def _minutes(rates: Rates) -> Rates:
    count = round(MINUTE_S / STEP_S)
    whole = len(rates) // count * count
    return np.asarray(rates[:whole].reshape(-1, count).mean(axis=1))


def _kind(minutes: Rates) -> str:
    level = minutes + 0.02 * minutes.mean()
    moves = np.abs(np.log(level[1:] / level[:-1]))
    if float(np.mean(moves > BURST)) > BURSTY_SHARE:
        return "bursty"
    return "smooth" if float(np.quantile(moves, 0.95)) <= SMOOTH_WITHIN else "noisy"
