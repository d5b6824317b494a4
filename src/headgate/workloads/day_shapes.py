"""Days that are made up: rates, one per step, whose heights mean nothing until somebody scales them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

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
