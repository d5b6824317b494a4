"""Simple forecasts of the load, and what they come to together: the loops of ``outlook.py``, for a compiler."""

from __future__ import annotations

import math

import numpy as np

from headgate.forecast.compiled import compiled
from headgate.forecast.contract import FloatArray

HORIZON_BINS = 30
MEANS_BINS = (2, 6, 18)
TRENDS_BINS = (3, 6, 18, 60)
EXPERTS = len(MEANS_BINS) + len(TRENDS_BINS) + 1
"""Means, trends, and the season, which comes last."""
LEVEL_MINUTES = 3
"""A season is raised or lowered by what so many minutes before now were, then and now."""


@compiled
def extrapolated(history: FloatArray) -> FloatArray:
    """What each expert says of the bins to come, one row each; of the season nothing is said here."""
    rows = np.full((EXPERTS, HORIZON_BINS), np.nan)
    place = 0
    for bins in MEANS_BINS:
        count = min(bins, len(history))
        rows[place, :] = _mean(history, count)
        place += 1
    for bins in TRENDS_BINS:
        count = min(bins, len(history))
        if count < 3:
            rows[place, :] = rows[0, 0]
        else:
            middle, first = (count - 1) / 2, len(history) - count
            along, spread = 0.0, 0.0
            for index in range(count):
                along += (index - middle) * history[first + index]
                spread += (index - middle) * (index - middle)
            mean, slope = _mean(history, count), along / spread
            for ahead in range(HORIZON_BINS):
                # Only as far ahead as it is long.
                rows[place, ahead] = max(0.0, mean + slope * (middle + min(ahead + 1, count)))
        place += 1
    return rows


@compiled
def _mean(history: FloatArray, count: int) -> float:
    total = 0.0
    for index in range(len(history) - count, len(history)):
        total += history[index]
    return total / count


@compiled
def combined(rows: FloatArray, errors: FloatArray) -> FloatArray:
    """The experts' mean, by the fourth power of how small their errors were; those that say nothing do not count."""
    worst = 1.0
    for error in errors:
        if not math.isnan(error):
            worst = max(worst, error)
    least = math.inf
    for place in range(len(errors)):
        if not math.isnan(rows[place, 0]):
            least = min(least, worst if math.isnan(errors[place]) else errors[place])
    least = max(1e-9, least)
    found, total = np.zeros(rows.shape[1]), 0.0
    for place in range(len(errors)):
        if math.isnan(rows[place, 0]):
            continue
        ratio = least / max(worst if math.isnan(errors[place]) else errors[place], least)
        weight = (ratio * ratio) * (ratio * ratio)
        total += weight
        for ahead in range(rows.shape[1]):
            found[ahead] += weight * rows[place, ahead]
    for ahead in range(rows.shape[1]):
        found[ahead] = max(0.0, found[ahead] / total)
    return found


@compiled
def last_season(minutes: FloatArray, season: int, per_minute: int, recent: float) -> FloatArray:
    """The bins to come as they were a season of so many minutes ago, at the level of what came recently."""
    now = len(minutes) - season
    first, total = max(0, now - LEVEL_MINUTES), 0.0
    for minute in range(first, now):
        total += minutes[minute]
    then = total / (now - first) / per_minute
    raised = recent / then if then > 0 else 1.0
    found = np.empty(HORIZON_BINS)
    for ahead in range(HORIZON_BINS):
        found[ahead] = minutes[min(now + ahead // per_minute, len(minutes) - 1)] / per_minute * raised
    return found


@compiled
def followed(errors: FloatArray, said: FloatArray, actual: float, memory: float) -> FloatArray:
    """The errors of the experts, with how far what they said was from what came; so much of the others is kept."""
    found = np.empty(len(errors))
    for place in range(len(errors)):
        error = abs(said[place] - actual)
        if math.isnan(errors[place]):
            found[place] = error
        elif math.isnan(error):
            found[place] = errors[place]
        else:
            found[place] = memory * errors[place] + (1 - memory) * error
    return found
