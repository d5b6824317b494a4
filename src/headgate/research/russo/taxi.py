"""Arrivals like those of a city's taxis: a week with its nights and evenings, good and bad days, and chance.

The numbers are ours. The hourly shape, rounded to 5 %, and the two spreads are of the size that New York's half-hourly
passenger counts of 2014 show; the mean of 329 trips a minute is that of the 173 million trips of 2013.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MEAN_PER_MINUTE = 329.0
MINUTES_PER_YEAR = 525_600

_WEEKDAY = (
    75, 45, 30, 20, 15, 25, 60, 105, 125, 120, 110, 110, 110, 110, 115, 110, 90, 115, 145, 155, 150, 150, 145, 125,
)  # fmt: skip
_WEEKEND = (
    160, 140, 115, 85, 55, 25, 25, 35, 55, 80, 105, 120, 130, 130, 130, 125, 110, 125, 140, 140, 130, 125, 125, 120,
)  # fmt: skip
_DAY_SPREAD = 0.1
_HALF_HOUR_SPREAD = 0.1
_HALF_HOUR_MEMORY = 0.9


def taxi_counts(minutes: int = MINUTES_PER_YEAR, *, seed: int = 0) -> NDArray[np.int64]:
    """Arrivals in each minute, starting on a Monday at midnight.

    The hour of the week gives the mean; a factor per day and one per half hour, which remembers the half hour before,
    both about 10 % and log-normal, make some days and hours busier than others; what arrives in a minute is Poisson.
    The expected mean over all minutes is 329.

    >>> counts = taxi_counts(7 * 1440)
    >>> bool(counts[19 * 60 : 20 * 60].mean() > 3 * counts[3 * 60 : 4 * 60].mean())
    True
    """
    random = np.random.default_rng(seed)
    minute = np.arange(minutes)
    week = np.array(_WEEKDAY * 5 + _WEEKEND * 2, dtype=np.float64)
    shape = np.interp(minute / 60 % 168, np.arange(169), np.append(week, week[0]))
    days = minutes // 1440 + 2
    day = np.interp(minute / 1440, np.arange(days) + 0.5, random.normal(0, _DAY_SPREAD, days))
    half_hours = np.zeros(minutes // 30 + 2)
    shocks = random.normal(0, _HALF_HOUR_SPREAD * np.sqrt(1 - _HALF_HOUR_MEMORY**2), len(half_hours))
    for index in range(1, len(half_hours)):
        half_hours[index] = _HALF_HOUR_MEMORY * half_hours[index - 1] + shocks[index]
    half_hour = np.interp(minute / 30, np.arange(len(half_hours)), half_hours)
    busy = shape * np.exp(day + half_hour)
    return np.asarray(random.poisson(MEAN_PER_MINUTE / busy.mean() * busy), dtype=np.int64)
