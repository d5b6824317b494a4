"""The loads on which promises are tried: a day of each public trace, and shapes that are made up.

Each is a day as ``workloads/day_load.py`` makes it, whose busiest half per cent of minutes needs ``PEAK_INSTANCES``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from headgate.forecast.base import FloatArray
from headgate.workloads.day_load import STEP_S, day_names, make_day
from headgate.workloads.steps import Steps

SERVICE_RATE_PER_S = 50.0
PEAK_INSTANCES = 12.0


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
    return day_names()


@cache
def make_load(name: str, seed: int = 0) -> Load:
    """A load by name; needs the folder of traces for those that are real."""
    day = make_day(name, seed, PEAK_INSTANCES * SERVICE_RATE_PER_S)
    return Load(name, seed, day.kind, load_names().index(name) % 2 == 0, day.factor, day.rates_per_s)
