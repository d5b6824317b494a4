"""Scenarios of the load for the next five minutes.

Several simple forecasts (means, trends, the season) are averaged with weights by their past errors. Scenarios are that
forecast times past *error paths*: the ratios of actual to forecast, bin by bin, over one earlier horizon. The newest
paths, an even sample of older ones and the worst ones are used, so no shape of distribution is assumed.

The loops are compiled by numba where it is installed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.core.types import JSON, Instant
from headgate.forecast.base import FloatArray
from headgate.forecast.clock_patterns import CERTAIN, ExpectedBurst
from headgate.forecast.compiled import compiled
from headgate.policies.pilot.load import BIN_S, BINS_PER_MINUTE, RECENT_BINS, LoadHistory, mean

HORIZON_BINS = 30
MEANS_BINS = (2, 6, 18)
TRENDS_BINS = (3, 6, 18, 60)
FORECASTS = len(MEANS_BINS) + len(TRENDS_BINS) + 1
"""Number of base forecasts: means, trends and, last, the season."""
LEVEL_MINUTES = 3
"""The seasonal forecast is scaled by the ratio of the newest minutes to the same minutes one season ago."""
INITIAL_FORECASTS = (0, len(MEANS_BINS), len(MEANS_BINS) + 1)
"""Forecasts that are each taken as possible while too little is known: the newest mean and the two newest trends."""
FEWEST_PATHS = 4
EVERY_BINS = 9
"""An error path is recorded once per this many bins."""
NEWEST, SAMPLED, WORST = 24, 24, 12
WORST_WEIGHT = 0.15
ALIKE_WITHIN = 0.4
"""Standard deviation, in the logarithm of the load, of the weight of a path by the load at which it began."""
LEAST_ALIKE = 0.02
ERROR_MEMORY = 0.99
MOST_GROWTH = 1.2
"""No scenario exceeds this multiple of the largest load so far or of the forecast, where much has been observed."""
UNKNOWN_SPREAD = 0.08
"""Standard deviation of the logarithm of the load per square root of a minute, before anything is known."""
LEAST_CORRELATION = 0.5
SHORTEST_SEASON_MINUTES = 30
_SCORES = np.array([-1.6, -1.0, -0.6, -0.3, 0.0, 0.3, 0.6, 1.0, 1.6, 2.3])


@compiled
def base_forecasts(history: FloatArray) -> FloatArray:
    """Return one row per base forecast; the row of the season stays NaN here."""
    rows = np.full((FORECASTS, HORIZON_BINS), np.nan)
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
                # A trend is extrapolated only as far ahead as it reaches back.
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
def combined_forecast(rows: FloatArray, errors: FloatArray) -> FloatArray:
    """Return the mean of the base forecasts, weighted by their errors to the power of -4, without NaN rows."""
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
def seasonal_forecast(minutes: FloatArray, season: int, per_minute: int, recent: float) -> FloatArray:
    """Return the bins that followed one season ago, scaled to the ``recent`` level."""
    now = len(minutes) - season
    first, total = max(0, now - LEVEL_MINUTES), 0.0
    for minute in range(first, now):
        total += minutes[minute]
    then = total / (now - first) / per_minute
    scale = recent / then if then > 0 else 1.0
    found = np.empty(HORIZON_BINS)
    for ahead in range(HORIZON_BINS):
        found[ahead] = minutes[min(now + ahead // per_minute, len(minutes) - 1)] / per_minute * scale
    return found


@compiled
def updated_forecast_errors(errors: FloatArray, predicted: FloatArray, actual: float, memory: float) -> FloatArray:
    """Return the decayed mean absolute errors of the base forecasts after one more outcome."""
    found = np.empty(len(errors))
    for place in range(len(errors)):
        error = abs(predicted[place] - actual)
        if math.isnan(errors[place]):
            found[place] = error
        elif math.isnan(error):
            found[place] = errors[place]
        else:
            found[place] = memory * errors[place] + (1 - memory) * error
    return found


@dataclass(frozen=True, slots=True)
class Scenarios:
    """Possible arrivals per bin from now on, one row per scenario, with weights that add up to 1."""

    counts: FloatArray
    weights: FloatArray
    forecast: FloatArray


@dataclass(slots=True)
class _ErrorPath:
    """Actual over forecast arrivals in each bin of one past horizon."""

    ratios: FloatArray
    level: float
    """Records per bin when the path began."""
    badness: float
    """The mean ratio: how much more arrived than forecast."""
    began: int
    """The bin in which it began."""


class ScenarioForecaster:
    """Learns how the load develops and returns scenarios of it."""

    def __init__(self, span_bins: tuple[int, int] = (3, 9)) -> None:
        self.span_bins = span_bins
        """First and last bin ahead over which forecasts are scored: those in which a new instance would help."""
        self._errors = np.full(FORECASTS, np.nan)
        self._recent_forecasts: deque[tuple[int, FloatArray]] = deque()
        self._open: deque[tuple[int, FloatArray, float]] = deque()
        self._newest: deque[_ErrorPath] = deque(maxlen=NEWEST)
        self._sampled: list[_ErrorPath] = []
        self._worst: list[_ErrorPath] = []
        self._stack: tuple[FloatArray, FloatArray, FloatArray] | None = None
        self._path_count = 0
        self.season_minutes: int | None = None
        """The period of the load; ``None`` if it shows none."""
        self._season_checked_bin = 0

    def observe(self, load: LoadHistory, bins: int) -> None:
        """Learn from the newest complete ``bins`` of the load."""
        lookback = max(TRENDS_BINS) + HORIZON_BINS
        counts = load.counts(lookback + bins - 1) if bins else np.empty(0)
        for left in range(bins - 1, -1, -1):
            number = load.newest_bin - left
            until = len(counts) - left
            history = counts[max(0, until - lookback) : max(0, until)]
            if len(history) < 2:
                continue
            self._score(number, history)
            forecasts = self._base_forecasts(load, history)
            first, last = self.span_bins
            predicted = forecasts[:, first - 1 : last]
            self._recent_forecasts.append((number, np.add.reduce(predicted, axis=1) / predicted.shape[1]))
            if number % EVERY_BINS == 0:
                self._open.append((number, combined_forecast(forecasts, self._errors), _level(history)))
            self._close(number, history)
        if load.newest_bin - self._season_checked_bin >= 10 * BINS_PER_MINUTE:
            self._season_checked_bin = load.newest_bin
            self.season_minutes = _season(load.minutes())

    def reset_clock(self) -> None:
        """Forget timestamps: the clock was reset, so open forecasts cannot be scored."""
        self._recent_forecasts.clear()
        self._open.clear()
        self._season_checked_bin = 0

    def scenarios(self, load: LoadHistory) -> Scenarios:
        """Return scenarios of the next ``HORIZON_BINS``."""
        history = load.recent(max(TRENDS_BINS))
        forecasts = self._base_forecasts(load, history)
        level = _level(history)
        if len(self._newest) + len(self._sampled) < FEWEST_PATHS or load.is_unprecedented:
            return _initial_scenarios(forecasts, load, history)
        forecast = np.minimum(combined_forecast(forecasts, self._errors), MOST_GROWTH * max(load.largest, 1.0))
        ratios, levels, path_weights = self._stacked()
        alike = LEAST_ALIKE + np.exp(-0.5 * (np.log((levels + 1) / (level + 1)) / ALIKE_WITHIN) ** 2)
        weights = alike * path_weights
        counts = np.minimum(forecast * ratios, MOST_GROWTH * np.maximum(load.largest, forecast))
        return Scenarios(counts, weights / np.add.reduce(weights), forecast)

    def forget_between(self, first: int, last: int) -> None:
        """Forget the errors of forecasts that reach into these bins: what happened there is expected from now on."""
        self._stack = None
        begins = range(first - HORIZON_BINS, last + RECENT_BINS + 1)
        newest = [path for path in self._newest if path.began not in begins]
        self._newest = deque(newest, maxlen=NEWEST)
        self._sampled = [path for path in self._sampled if path.began not in begins]
        self._worst = [path for path in self._worst if path.began not in begins]
        self._open = deque(forecast for forecast in self._open if forecast[0] not in begins)

    def _stacked(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the ratios of all stored error paths, the levels at which they began, and their weights."""
        if self._stack is None:
            paths = [*self._newest, *self._sampled, *self._worst]
            weights = np.ones(len(paths))
            weights[len(paths) - len(self._worst) :] = WORST_WEIGHT
            levels = np.array([path.level for path in paths])
            self._stack = (np.array([path.ratios for path in paths]), levels, weights)
        return self._stack

    def _base_forecasts(self, load: LoadHistory, history: FloatArray) -> FloatArray:
        rows, minutes, season = base_forecasts(history), load.minutes(), self.season_minutes
        if season is not None and len(minutes) > season:
            recent = mean(history[-LEVEL_MINUTES * BINS_PER_MINUTE :])
            rows[-1] = seasonal_forecast(minutes, season, BINS_PER_MINUTE, recent)
        return rows

    def _score(self, number: int, history: FloatArray) -> None:
        first, last = self.span_bins
        while self._recent_forecasts and self._recent_forecasts[0][0] + last <= number:
            forecast_at, predicted = self._recent_forecasts.popleft()
            back = number - forecast_at
            actual = history[len(history) - back + first - 1 : len(history) - back + last]
            if back > len(history) or not len(actual):
                continue
            self._errors = updated_forecast_errors(self._errors, predicted, mean(actual), ERROR_MEMORY)

    def _close(self, number: int, history: FloatArray) -> None:
        while self._open and self._open[0][0] + HORIZON_BINS <= number:
            began, predicted, level = self._open.popleft()
            back = number - began
            if back > len(history):
                continue
            actual = history[len(history) - back : len(history) - back + HORIZON_BINS]
            ratios = (actual + 0.5) / (predicted + 0.5)
            self._store(_ErrorPath(ratios, level, mean(ratios), began))

    def _store(self, path: _ErrorPath) -> None:
        self._stack = None
        self._newest.append(path)
        self._path_count += 1
        if len(self._sampled) < SAMPLED:
            self._sampled.append(path)
        else:
            # Deterministic reservoir sampling, for reproducible runs: the golden ratio spreads places evenly.
            place = int((self._path_count * 0.6180339887498949 % 1.0) * self._path_count)
            if place < SAMPLED:
                self._sampled[place] = path
        self._worst = sorted([*self._worst, path], key=lambda path: -path.badness)[:WORST]

    def to_json(self) -> dict[str, JSON]:
        return {
            "errors": _without_nan(self._errors),
            "said": [[number, _without_nan(predicted)] for number, predicted in self._recent_forecasts],
            "open": [[number, path.tolist(), level] for number, path, level in self._open],
            "newest": [_saved(path) for path in self._newest],
            "sampled": [_saved(path) for path in self._sampled],
            "worst": [_saved(path) for path in self._worst],
            "seen": self._path_count,
            "season_minutes": self.season_minutes,
            "season_looked": self._season_checked_bin,
            "span_bins": list(self.span_bins),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> ScenarioForecaster:
        first, last = saved["span_bins"]
        made = cls((int(first), int(last)))
        made._errors = _with_nan(saved["errors"])
        for number, predicted in saved["said"]:
            made._recent_forecasts.append((int(number), _with_nan(predicted)))
        for number, path, level in saved["open"]:
            made._open.append((int(number), np.array(path, dtype=np.float64), float(level)))
        made._newest.extend(_restored(path) for path in saved["newest"])
        made._sampled = [_restored(path) for path in saved["sampled"]]
        made._worst = [_restored(path) for path in saved["worst"]]
        made._path_count = int(saved["seen"])
        made.season_minutes = None if saved["season_minutes"] is None else int(saved["season_minutes"])
        made._season_checked_bin = int(saved["season_looked"])
        return made


def with_bursts(scenarios: Scenarios, bursts: Sequence[ExpectedBurst], now: Instant, level_per_s: float) -> Scenarios:
    """Add bursts that are expected by the clock; of one that is uncertain, some scenarios have it and some have not.

    ``level_per_s`` is the excess of the present burst over the rest of the load, as measured now.
    """
    counts, weights, forecast = scenarios.counts, scenarios.weights, scenarios.forecast
    for burst in bursts:
        added = _burst_counts(burst, now, len(counts), level_per_s)
        if not added.any():
            continue
        forecast = forecast + burst.trust * (added.sum(axis=0) / len(added))
        if burst.trust >= CERTAIN:
            counts = counts + added
        else:
            counts = np.concatenate((counts + added, counts))
            weights = np.concatenate((burst.trust * weights, (1 - burst.trust) * weights))
    return Scenarios(counts, weights, forecast)


def _burst_counts(burst: ExpectedBurst, now: Instant, rows: int, level_per_s: float) -> FloatArray:
    """Return the records of a burst in each future bin, one row per scenario."""
    places = np.arange(rows)
    # Different orders of the same scores, so that late bursts are not always the high ones.
    scores, others = _SCORES[places % len(_SCORES)], _SCORES[places * 7 % len(_SCORES)]
    begins_s = burst.begins_s - now + burst.spread_s * scores
    if not burst.has_begun:
        # It has not come yet.
        begins_s = np.maximum(begins_s, 0.0)
    ends_s = begins_s + burst.lasts_s
    height = max(burst.height_per_s, level_per_s) if burst.has_begun else burst.height_per_s
    heights = height * np.maximum(0.2, 1 + burst.height_spread * others)
    edges_s = BIN_S * np.arange(HORIZON_BINS + 1)
    covered_s = np.clip(edges_s[None, :], begins_s[:, None], ends_s[:, None]) - begins_s[:, None]
    return np.asarray(heights[:, None] * (covered_s[:, 1:] - covered_s[:, :-1]))


def _initial_scenarios(forecasts: FloatArray, load: LoadHistory, history: FloatArray) -> Scenarios:
    """Return scenarios for a load without usable history: the present level, or its trend, with a default spread."""
    # The shorter the history, the less its maximum limits what follows.
    known_bins = min(len(load), RECENT_BINS) if load.is_unprecedented else len(load)
    most = (MOST_GROWTH + HORIZON_BINS / max(1, known_bins)) * max(load.largest, float(history.max()), 1.0)
    centres = np.minimum(forecasts[INITIAL_FORECASTS, :], most)
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
    """Return the period of the load in minutes by autocorrelation; ``None`` if there is none."""
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
    # Only lags after the correlation first fell count: near lag 0 everything correlates.
    falls = np.flatnonzero(correlation[:last] < LEAST_CORRELATION / 2)
    if not len(inner) or not len(falls):
        return None
    begin = max(SHORTEST_SEASON_MINUTES, int(falls[0]))
    if begin >= last:
        return None
    best = begin + int(np.argmax(correlation[begin:last]))
    return best if correlation[best] >= LEAST_CORRELATION else None


def _without_nan(values: FloatArray) -> list[JSON]:
    return [None if math.isnan(value) else value for value in values]


def _with_nan(saved: JSON) -> FloatArray:
    return np.array([math.nan if value is None else float(value) for value in saved])


def _saved(path: _ErrorPath) -> list[JSON]:
    return [path.ratios.tolist(), path.level, path.badness, path.began]


def _restored(saved: JSON) -> _ErrorPath:
    ratios, level, badness, began = saved
    return _ErrorPath(np.array(ratios, dtype=np.float64), float(level), float(badness), int(began))
