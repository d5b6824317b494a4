"""Eight applications after imai's Table II and figure 6, with throughput curves of ours, as the document prints none.

They agree with its text: the peak load of each application, that models are trained on 3, 4, 6, 8 and 24 instances
(1 to 14 for flight distances), and that VHT does not scale at all and just sustains its peak load. The models of unique
visitor, page view and hashtag count know nothing beyond 24 instances, where the applications sustain less; whether a
model predicts too much there depends on its training samples.

A true curve is the universal scalability law, a·m / (1 + s·(m − 1) + k·m·(m − 1)), less a share lost to a
bottleneck beyond ``bottleneck_from`` instances. The throughput in a block of minutes is drawn from a normal
distribution around it, whose deviation is a share of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property, partial

import numpy as np

from headgate.forecast.base import FloatArray
from headgate.policies.capacity.mst import Measured
from headgate.workloads.traces import read_trace

_SMALL = (3, 4, 6, 8, 24)
_FLIGHT = (1, 2, 3, 5, 6, 8, 9, 11, 12, 14)
_REPEATS = 3
"""Measurements per size in training and validation; the document does not say how many it made."""


@dataclass(frozen=True)
class StreamQuery:
    """An application; throughputs in MB/s, as in the document."""

    name: str
    load: str
    """The name of its load."""
    peak: float
    """Highest load of the week."""
    single: float
    """a: throughput of a single instance."""
    contention: float
    """s: share of the work that does not run in parallel."""
    coherence: float = 0.0
    """k: cost of coordination between instances."""
    bottleneck: float = 0.0
    """Share lost at ``largest`` instances beyond ``bottleneck_from``."""
    bottleneck_from: int = 24
    noise: float = 0.04
    """Deviation of the throughput, as a share of its mean."""
    training_sizes: tuple[int, ...] = _SMALL
    validation_sizes: tuple[int, ...] = (12, 16, 20)
    largest: int = 128

    @cached_property
    def means(self) -> FloatArray:
        """Expected throughput of 1, 2, … instances."""
        m = np.arange(1.0, self.largest + 1.0)
        carried = self.single * m / (1 + self.contention * (m - 1) + self.coherence * m * (m - 1))
        beyond = np.maximum(m - self.bottleneck_from, 0.0) / self.largest
        return np.asarray(carried * (1 - self.bottleneck * np.sqrt(beyond)))

    @cached_property
    def deviations(self) -> FloatArray:
        return np.asarray(self.noise * self.means)

    def measure(self, sizes: tuple[int, ...], random: np.random.Generator) -> tuple[Measured, ...]:
        """Draw offline measurements of some sizes."""
        return tuple(
            (size, float(random.normal(self.means[size - 1], self.deviations[size - 1])))
            for size in sizes
            for _ in range(_REPEATS)
        )


QUERIES = (
    StreamQuery("grep", "wc98", peak=32, single=0.62, contention=0.004, coherence=1.5e-5, noise=0.06),
    StreamQuery("rolling-count", "wc98", peak=10, single=0.26, contention=0.011, noise=0.07),
    StreamQuery(
        "unique-visitor",
        "wc98",
        peak=48,
        single=0.95,
        contention=0.002,
        bottleneck=0.15,
        bottleneck_from=12,
        noise=0.08,
    ),
    StreamQuery("page-view", "wc98", peak=46, single=0.85, contention=0.001, bottleneck=0.12, noise=0.06),
    StreamQuery("data-clean", "wc98", peak=5, single=0.115, contention=0.008, noise=0.08),
    StreamQuery("vht", "wc98", peak=49, single=50.5, contention=1.0, noise=0.01),
    StreamQuery("rolling-hashtag-count", "tweets", peak=200, single=3.1, contention=0.001, bottleneck=0.18, noise=0.05),
    StreamQuery(
        "rolling-flight-distances",
        "flights",
        peak=0.83,
        single=0.085,
        contention=0.015,
        noise=0.04,
        training_sizes=_FLIGHT,
        validation_sizes=(4, 7, 10, 13),
        largest=24,
    ),
)


DAY_MINUTES = 1440
WEEK_MINUTES = 7 * DAY_MINUTES


def _wc98(monday: datetime) -> FloatArray:
    return read_trace("wc98").between(monday, monday + timedelta(days=7))


def _week_of(trace: str, week: int) -> FloatArray:
    """Return a week of a trace, interpolated to minutes."""
    read = read_trace(trace)
    minutes = np.arange(week * WEEK_MINUTES, (week + 1) * WEEK_MINUTES)
    return np.interp(minutes * 60 / read.step_s, np.arange(len(read.rates_per_s)), read.rates_per_s)


def _tweets() -> FloatArray:
    """Return a week with deep nights, evening peaks and a few percent of noise."""
    return _daily(seed=1, night=0.35, evening=0.25, slow=0.03, fast=0.03)


def _flights() -> FloatArray:
    """Return a week with shallow nights and little noise, as radio coverage is steady."""
    return _daily(seed=2, night=0.25, evening=0.05, slow=0.015, fast=0.008)


def _daily(seed: int, *, night: float, evening: float, slow: float, fast: float) -> FloatArray:
    random = np.random.default_rng(seed)
    hour = np.arange(WEEK_MINUTES) / 60
    cycle = 1 - night * np.cos(2 * np.pi * (hour - 4) / 24) - evening * np.cos(4 * np.pi * (hour - 9) / 24) / 2
    wander = np.empty(WEEK_MINUTES)
    level = 0.0
    for minute, step in enumerate(random.normal(0, slow, WEEK_MINUTES)):
        # The half-life of a deviation is an hour.
        level = 0.5 ** (1 / 60) * level + np.sqrt(1 - 0.5 ** (2 / 60)) * step
        wander[minute] = level
    return np.asarray(cycle * np.exp(wander + random.normal(0, fast, WEEK_MINUTES)))


_LOADS: dict[str, Callable[[], FloatArray]] = {
    "wc98": partial(_wc98, datetime(1998, 6, 29, tzinfo=UTC)),
    "wc98-22-june": partial(_wc98, datetime(1998, 6, 22, tzinfo=UTC)),
    "wc98-15-june": partial(_wc98, datetime(1998, 6, 15, tzinfo=UTC)),
    "tweets": _tweets,
    "flights": _flights,
    "twitter-2021": partial(_week_of, "twitter", 0),
    "tweets-about-google": partial(_week_of, "tweets-goog", 0),
    "nasa-first-week": partial(_week_of, "nasa", 0),
    "nasa-second-week": partial(_week_of, "nasa", 1),
}


@cache
def load_shape(name: str) -> FloatArray:
    """Return a load by name, as shares of its peak."""
    values = _LOADS[name]()
    return np.asarray(values / values.max())
