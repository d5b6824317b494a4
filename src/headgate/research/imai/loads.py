"""The three loads of imai's figure 5, one value per minute for a week, scaled to a peak of 1.

World Cup 98 is the document's own week. Its tweets and flights are not published: two generated weeks with a daily
cycle stand in for them. Further weeks, of public traces, show how far the results hold.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache, partial

import numpy as np

from headgate.forecast.base import FloatArray
from headgate.workloads.traces import read_trace

DAY_MINUTES = 1440
WEEK_MINUTES = 7 * DAY_MINUTES


def _wc98(monday: datetime) -> FloatArray:
    return read_trace("wc98").between(monday, monday + timedelta(days=7))


def _week_of(trace: str, week: int) -> FloatArray:
    """The first or a later week of a trace, on lines between its steps where they are longer than a minute."""
    read = read_trace(trace)
    minutes = np.arange(week * WEEK_MINUTES, (week + 1) * WEEK_MINUTES)
    return np.interp(minutes * 60 / read.step_s, np.arange(len(read.rates_per_s)), read.rates_per_s)


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
    """A load by name, as shares of its peak."""
    values = _LOADS[name]()
    return np.asarray(values / values.max())
