"""What may arrive next: several simple forecasts, weighted by how they did, and how far reality was from them before.

Instead of a distribution of a shape that somebody assumed, the future is a set of scenarios: the forecast times the
course that actual over foretold took at some time in the past. The newest count, some from long ago, and the worst.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.core.types import JSON
from headgate.forecast.base import FloatArray
from headgate.forecast.compiled import compiled
from headgate.policies.pilot.load import BIN_S, BINS_PER_MINUTE, NEWS_BINS, LoadHistory, mean

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


UNTOLD_EXPERTS = (0, len(MEANS_BINS), len(MEANS_BINS) + 1)
"""As long as too little has been seen to go by, any of these may be right: the newest mean, the two newest trends."""
FEWEST_COURSES = 4
EVERY_BINS = 9
"""A course of actual over foretold is kept every so many bins."""
NEWEST, SAMPLED, WORST = 24, 24, 12
WORST_WEIGHT = 0.15
ALIKE_WITHIN = 0.4
"""A course counts for what it is when the load is at about the level at which it began; the logarithm of the ratio."""
LEAST_ALIKE = 0.02
ERROR_MEMORY = 0.99
MOST_GROWTH = 1.2
"""A rate is never assumed above so many times the largest seen, or the forecast, where much has been seen."""
UNKNOWN_SPREAD = 0.08
"""Before anything is known: standard deviation of the logarithm of the load, per square root of a minute."""
LEAST_CORRELATION = 0.5
SHORTEST_SEASON_MINUTES = 30
_SCORES = np.array([-1.6, -1.0, -0.6, -0.3, 0.0, 0.3, 0.6, 1.0, 1.6, 2.3])


@dataclass(frozen=True, slots=True)
class Scenarios:
    """Records per bin that may arrive from now on, one row per scenario."""

    counts: FloatArray
    weights: FloatArray
    """Add up to 1."""
    forecast: FloatArray


@dataclass(slots=True)
class _Course:
    ratios: FloatArray
    level: float
    badness: float


class Outlook:
    """Learns how the load goes on."""

    def __init__(self, span_bins: tuple[int, int] = (3, 9)) -> None:
        self.span_bins = span_bins
        """The bins ahead over which forecasts are compared: from when a new instance would help."""
        self._errors = np.full(EXPERTS, np.nan)
        self._said: deque[tuple[int, FloatArray]] = deque()
        self._open: deque[tuple[int, FloatArray, float]] = deque()
        self._newest: deque[_Course] = deque(maxlen=NEWEST)
        self._sampled: list[_Course] = []
        self._worst: list[_Course] = []
        self._stack: tuple[FloatArray, FloatArray, FloatArray] | None = None
        self._seen = 0
        self.season_minutes: int | None = None
        """The period that the load repeats itself after; ``None`` where none shows."""
        self._season_looked = 0

    def observe(self, load: LoadHistory, bins: int) -> None:
        """Take in that so many bins became complete; asked for once per reading."""
        looked_back = max(TRENDS_BINS) + HORIZON_BINS
        counts = load.counts(looked_back + bins - 1) if bins else np.empty(0)
        for left in range(bins - 1, -1, -1):
            number = load.newest_bin - left
            until = len(counts) - left
            history = counts[max(0, until - looked_back) : max(0, until)]
            if len(history) < 2:
                continue
            self._score(number, history)
            experts = self._experts(load, history)
            first, last = self.span_bins
            foretold = experts[:, first - 1 : last]
            self._said.append((number, np.add.reduce(foretold, axis=1) / foretold.shape[1]))
            if number % EVERY_BINS == 0:
                self._open.append((number, combined(experts, self._errors), _level(history)))
            self._close(number, history)
        if load.newest_bin - self._season_looked >= 10 * BINS_PER_MINUTE:
            self._season_looked = load.newest_bin
            self.season_minutes = _season(load.minutes())

    def begin_anew(self) -> None:
        """Times are other than they were: what was foretold for one of them comes to nothing."""
        self._said.clear()
        self._open.clear()
        self._season_looked = 0

    def scenarios(self, load: LoadHistory) -> Scenarios:
        """What may arrive in the next ``HORIZON_BINS``."""
        history = load.recent(max(TRENDS_BINS))
        experts = self._experts(load, history)
        level = _level(history)
        if len(self._newest) + len(self._sampled) < FEWEST_COURSES or load.is_beyond_experience:
            return _untold(experts, load, history)
        forecast = np.minimum(combined(experts, self._errors), MOST_GROWTH * max(load.largest, 1.0))
        ratios, levels, counted = self._stacked()
        alike = LEAST_ALIKE + np.exp(-0.5 * (np.log((levels + 1) / (level + 1)) / ALIKE_WITHIN) ** 2)
        weights = alike * counted
        counts = np.minimum(forecast * ratios, MOST_GROWTH * np.maximum(load.largest, forecast))
        return Scenarios(counts, weights / np.add.reduce(weights), forecast)

    def _stacked(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """All courses that are kept, the levels at which they began, and what each counts for."""
        if self._stack is None:
            courses = [*self._newest, *self._sampled, *self._worst]
            counted = np.ones(len(courses))
            counted[len(courses) - len(self._worst) :] = WORST_WEIGHT
            levels = np.array([one.level for one in courses])
            self._stack = (np.array([one.ratios for one in courses]), levels, counted)
        return self._stack

    # ------------------------------------------------------------------------------------------------------ experts

    def _experts(self, load: LoadHistory, history: FloatArray) -> FloatArray:
        rows, minutes, season = extrapolated(history), load.minutes(), self.season_minutes
        if season is not None and len(minutes) > season:
            recent = mean(history[-LEVEL_MINUTES * BINS_PER_MINUTE :])
            rows[-1] = last_season(minutes, season, BINS_PER_MINUTE, recent)
        return rows

    def _score(self, number: int, history: FloatArray) -> None:
        first, last = self.span_bins
        while self._said and self._said[0][0] + last <= number:
            said_at, said = self._said.popleft()
            back = number - said_at
            actual = history[len(history) - back + first - 1 : len(history) - back + last]
            if back > len(history) or not len(actual):
                continue
            self._errors = followed(self._errors, said, mean(actual), ERROR_MEMORY)

    # ---------------------------------------------------------------------------------------- actual over foretold

    def _close(self, number: int, history: FloatArray) -> None:
        while self._open and self._open[0][0] + HORIZON_BINS <= number:
            began, foretold, level = self._open.popleft()
            back = number - began
            if back > len(history):
                continue
            actual = history[len(history) - back : len(history) - back + HORIZON_BINS]
            ratios = (actual + 0.5) / (foretold + 0.5)
            self._keep(_Course(ratios, level, mean(ratios)))

    def _keep(self, course: _Course) -> None:
        self._stack = None
        self._newest.append(course)
        self._seen += 1
        if len(self._sampled) < SAMPLED:
            self._sampled.append(course)
        else:
            # A reservoir without chance: the golden ratio spreads places evenly, so that runs can be repeated.
            place = int((self._seen * 0.6180339887498949 % 1.0) * self._seen)
            if place < SAMPLED:
                self._sampled[place] = course
        self._worst = sorted([*self._worst, course], key=lambda one: -one.badness)[:WORST]

    def to_json(self) -> dict[str, JSON]:
        return {
            "errors": [None if math.isnan(error) else error for error in self._errors],
            "said": [[number, [None if math.isnan(one) else one for one in said]] for number, said in self._said],
            "open": [[number, path.tolist(), level] for number, path, level in self._open],
            "newest": [_saved(course) for course in self._newest],
            "sampled": [_saved(course) for course in self._sampled],
            "worst": [_saved(course) for course in self._worst],
            "seen": self._seen,
            "season_minutes": self.season_minutes,
            "season_looked": self._season_looked,
            "span_bins": list(self.span_bins),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> Outlook:
        first, last = saved["span_bins"]
        made = cls((int(first), int(last)))
        made._errors = np.array([math.nan if error is None else float(error) for error in saved["errors"]])
        for number, said in saved["said"]:
            made._said.append((int(number), np.array([math.nan if one is None else float(one) for one in said])))
        for number, path, level in saved["open"]:
            made._open.append((int(number), np.array(path, dtype=np.float64), float(level)))
        made._newest.extend(_restored(one) for one in saved["newest"])
        made._sampled = [_restored(one) for one in saved["sampled"]]
        made._worst = [_restored(one) for one in saved["worst"]]
        made._seen = int(saved["seen"])
        made.season_minutes = None if saved["season_minutes"] is None else int(saved["season_minutes"])
        made._season_looked = int(saved["season_looked"])
        return made


def _untold(experts: FloatArray, load: LoadHistory, history: FloatArray) -> Scenarios:
    """What may arrive where the past does not tell: as much as now, or what it comes to if it goes on like this."""
    # The shorter the record, the less is said by the largest in it.
    told_by = min(len(load), NEWS_BINS) if load.is_beyond_experience else len(load)
    most = (MOST_GROWTH + HORIZON_BINS / max(1, told_by)) * max(load.largest, float(history.max()), 1.0)
    centres = np.minimum(experts[UNTOLD_EXPERTS, :], most)
    spread = UNKNOWN_SPREAD * np.sqrt(np.arange(1, HORIZON_BINS + 1) * BIN_S / 60)
    noise = 1 / math.sqrt(max(1.0, _level(history)))
    ratios = np.exp(_SCORES[:, None] * np.sqrt(spread**2 + noise**2))
    weights = np.tile(np.exp(-(_SCORES**2) / 2), len(centres))
    return Scenarios(
        np.concatenate([centre * ratios for centre in centres]), weights / weights.sum(), centres.mean(axis=0)
    )


def _level(history: FloatArray) -> float:
    return mean(history[-6:]) if len(history) else 0.0


def _season(minutes: FloatArray) -> int | None:
    """The period that the load repeats itself after, in minutes; ``None`` where none shows."""
    if len(minutes) < 3 * SHORTEST_SEASON_MINUTES:
        return None
    centred = minutes - minutes.mean()
    size = 1 << (2 * len(centred) - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    overlap = np.arange(len(centred), 0, -1)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum), size)[: len(centred)] / overlap
    if covariance[0] <= 0:
        return None
    correlation = covariance / covariance[0]
    last = len(centred) // 2
    inner = correlation[SHORTEST_SEASON_MINUTES:last]
    # A lag counts only if the load has come back to it: near lag 0 everything correlates.
    falls = np.flatnonzero(correlation[:last] < LEAST_CORRELATION / 2)
    if not len(inner) or not len(falls):
        return None
    begin = max(SHORTEST_SEASON_MINUTES, int(falls[0]))
    if begin >= last:
        return None
    best = begin + int(np.argmax(correlation[begin:last]))
    return best if correlation[best] >= LEAST_CORRELATION else None


def _saved(course: _Course) -> list[JSON]:
    return [course.ratios.tolist(), course.level, course.badness]


def _restored(saved: JSON) -> _Course:
    ratios, level, badness = saved
    return _Course(np.array(ratios, dtype=np.float64), float(level), float(badness))
