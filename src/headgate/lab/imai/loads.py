"""The three loads of imai's figure 5, one value per minute for a week, scaled to a peak of 1.

World Cup 98 is the document's own week. Its tweets and flights are not published: two generated weeks with a daily
cycle stand in for them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache

import numpy as np

from headgate.forecast.contract import FloatArray
from headgate.workloads.traces import read_trace

DAY_MINUTES = 1440
WEEK_MINUTES = 7 * DAY_MINUTES


def _wc98() -> FloatArray:
    monday = datetime(1998, 6, 29)  # noqa: DTZ001  the trace is in GMT
    return read_trace("wc98").between(monday, monday + timedelta(days=7))


def _tweets() -> FloatArray:
    """A deep night, an evening peak, and minutes that differ from each other by a few percent."""
    return _daily(seed=1, night=0.35, evening=0.25, slow=0.03, fast=0.03)


def _flights() -> FloatArray:
    """A shallow night and little noise: radio coverage does not come and go."""
    return _daily(seed=2, night=0.25, evening=0.05, slow=0.015, fast=0.008)


def _daily(seed: int, *, night: float, evening: float, slow: float, fast: float) -> FloatArray:
    random = np.random.default_rng(seed)
    hour = np.arange(WEEK_MINUTES) / 60
    cycle = 1 - night * np.cos(2 * np.pi * (hour - 4) / 24) - evening * np.cos(4 * np.pi * (hour - 9) / 24) / 2
    wander = np.empty(WEEK_MINUTES)
    level = 0.0
    for minute, step in enumerate(random.normal(0, slow, WEEK_MINUTES)):
        # Half of a deviation is forgotten in an hour.
        level = 0.5 ** (1 / 60) * level + np.sqrt(1 - 0.5 ** (2 / 60)) * step
        wander[minute] = level
    return np.asarray(cycle * np.exp(wander + random.normal(0, fast, WEEK_MINUTES)))


_LOADS: dict[str, Callable[[], FloatArray]] = {"wc98": _wc98, "tweets": _tweets, "flights": _flights}


@cache
def load_shape(name: str) -> FloatArray:
    """A load by name, as shares of its peak."""
    values = _LOADS[name]()
    return np.asarray(values / values.max())
