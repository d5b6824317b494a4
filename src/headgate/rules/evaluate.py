"""Which triggers hold, for all rules and operators at once, updated reading by reading.

A trigger holds once readings beyond its threshold span its time (``all readings``), or once the readings of that time
are beyond it on average, at the median or in a share of them. Only readings taken at the present size count: a change
of size restarts every period. A metric that is missing from a reading is skipped by rules that scale out and ends the
period of rules that scale in; a gap in the readings ends both, because nothing is known of it.

Every pair of a trigger and an operator is one element of flat arrays, so that a reading costs the same few array
operations for one rule as for a thousand. For ``all readings`` the only state is the start of the period; the other
kinds share one row of readings per operator and metric, no longer than the longest time of a trigger.

Errata of rouaux that are corrected here: the conjunction of Alg. 4.2 starts at true, the age of a reading is now minus
then, all readings must be beyond the threshold (Alg. 4.3 takes any), and rules for all operators are added to an
operator's own (Alg. 4.1 replaces them).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from headgate.core.types import Instant, Sample
from headgate.core.window import Window
from headgate.policies.frame.readings import reading_of
from headgate.rules.model import ALL_OPERATORS, Comparison, Direction, ReadingsKind, Rule, Trigger

FRESH_FOR_S = 300.0
"""Readings older than this do not count, and a gap this long ends a period."""
_USUAL_GAPS = 3.0
"""Where readings are rarer than that by nature, a gap is one of this many usual distances."""
_ROUNDING_S = 1e-9


@dataclass(slots=True)
class _RecentReadings:
    """The readings of one metric of one operator that windows may still need."""

    keep_s: float
    times_s: deque[Instant] = field(default_factory=deque)
    values: deque[float] = field(default_factory=deque)

    def add(self, at_s: Instant, value: float) -> None:
        self.times_s.append(at_s)
        self.values.append(value)
        while self.times_s[0] < at_s - self.keep_s - _ROUNDING_S:
            self.times_s.popleft()
            self.values.popleft()

    def clear(self) -> None:
        self.times_s.clear()
        self.values.clear()

    def last(self, duration_s: float) -> list[float]:
        """The values of the last ``duration_s``."""
        if not self.times_s:
            return []
        if duration_s == self.keep_s:
            return list(self.values)
        first = bisect_left(self.times_s, self.times_s[-1] - duration_s - _ROUNDING_S)
        return list(islice(self.values, first, None))


@dataclass(frozen=True, slots=True)
class Holding:
    """The present state of a trigger for an operator."""

    trigger: Trigger
    value: float | None
    """The newest reading, or the average, median or share of its period."""
    since_s: Instant | None
    """Since when all readings have been beyond the threshold; ``None`` when they are not, or need not be."""
    read_s: Instant | None
    """When the newest reading was taken."""
    holds: bool


class Evaluator:
    """Follows the readings of a window for a set of rules."""

    def __init__(self, rules: Sequence[Rule], operators: Sequence[str]) -> None:
        self._operators = tuple(operators)
        keys = dict.fromkeys(trigger.key for rule in rules for trigger in rule.triggers)
        self._keys = tuple(keys)
        columns = {key: column for column, key in enumerate(keys)}
        self.pairs: list[tuple[int, int]] = []
        """Each rule with each operator it is for, as indices; an operator's own rules and those for all, in order."""
        triggers: list[Trigger] = []
        starts: list[int] = []
        row: list[int] = []
        column: list[int] = []
        is_in: list[bool] = []
        self._span: list[slice] = []
        """Where the triggers of each operator stand."""
        for index, name in enumerate(self._operators):
            first = len(triggers)
            for number, rule in enumerate(rules):
                if rule.operator not in (name, ALL_OPERATORS):
                    continue
                starts.append(len(triggers))
                self.pairs.append((number, index))
                triggers.extend(rule.triggers)
                row.extend([index] * len(rule.triggers))
                column.extend(columns[trigger.key] for trigger in rule.triggers)
                is_in.extend([rule.direction is Direction.IN] * len(rule.triggers))
            self._span.append(slice(first, len(triggers)))
        self._triggers = triggers
        self._starts = np.array(starts, dtype=np.intp)
        self._row = np.array(row, dtype=np.intp)
        self._column = np.array(column, dtype=np.intp)
        self._is_in = np.array(is_in, dtype=bool)
        # Below is above with both signs turned: one comparison serves both.
        self._sign = np.array([1.0 if t.comparison is Comparison.ABOVE else -1.0 for t in triggers])
        self._threshold = np.array([t.threshold.number for t in triggers]) * self._sign
        self._needed_s = np.array([t.for_at_least_s for t in triggers])
        self._is_all = np.array([t.readings.kind is ReadingsKind.ALL for t in triggers], dtype=bool)
        shape = (len(self._operators), max(1, len(keys)))
        self._values = np.full(shape, np.nan)
        self._read_s = np.full(shape, np.nan)
        """When each metric was last read."""
        self._first_s = np.full(shape, np.nan)
        """Since when it has been read without a gap at the present size."""
        self._missed_s = np.full(shape, -np.inf)
        """When it was last missing from a reading."""
        self._since_s = np.full(len(triggers), np.nan)
        self._fed_s = [-math.inf] * len(self._operators)
        self._settled_s: list[Instant | None] = [None] * len(self._operators)
        self._gap_s = [0.0] * len(self._operators)
        self._usual_s = np.zeros(len(self._operators))
        self._window: Window | None = None
        self._make_windows()

    def _make_windows(self) -> None:
        """One row of readings per operator and metric, and one window in it per time, shared by all triggers."""
        rows: dict[tuple[int, int], _RecentReadings] = {}
        windows: dict[tuple[int, int, float], list[int]] = {}
        for index in np.flatnonzero(~self._is_all):
            place = (int(self._row[index]), int(self._column[index]))
            duration_s = float(self._needed_s[index])
            row = rows.setdefault(place, _RecentReadings(0.0))
            row.keep_s = max(row.keep_s, duration_s)
            windows.setdefault((*place, duration_s), []).append(int(index))
        self._rows: list[list[tuple[int, _RecentReadings]]] = [[] for _ in self._operators]
        for (operator, column), row in rows.items():
            self._rows[operator].append((column, row))
        self._windows: list[list[tuple[_RecentReadings, float, list[int]]]] = [[] for _ in self._operators]
        for (operator, column, duration_s), members in windows.items():
            self._windows[operator].append((rows[operator, column], duration_s, members))
        self._beyond = np.zeros(len(self._triggers), dtype=bool)
        self._measure = np.full(len(self._triggers), np.nan)

    # ---------------------------------------------------------------------------------------------------------- feeding

    def update(self, window: Window) -> None:
        """Add the readings since the last call; another window resets everything."""
        if not self._triggers:
            return
        if self._window is not window:
            self._forget_all()
            self._window = window
        fresh: list[tuple[int, list[Sample]]] = []
        for index, name in enumerate(self._operators):
            newest = window.sample(name)
            settled_s = window.settled_since_s(name)
            if settled_s != self._settled_s[index]:
                self._settled_s[index] = settled_s
                self._gap_s[index] = self._usual_s[index] = 0.0
                self._forget(index)
                # A reading taken at the instant of a change led to it.
                self._fed_s[index] = -math.inf if settled_s is None else settled_s
            if newest is not None and newest.at_s > self._fed_s[index]:
                since_s = self._fed_s[index]
                fresh.append((index, [s for s in window.samples(name, since_s) if s.at_s > since_s]))
        # Usually there is one new reading each; a new window gives all its readings in turn.
        while fresh:
            self._take([(index, samples[0]) for index, samples in fresh])
            fresh = [(index, samples[1:]) for index, samples in fresh if len(samples) > 1]

    def _forget_all(self) -> None:
        for index in range(len(self._operators)):
            self._settled_s[index] = None
            self._fed_s[index] = -math.inf
            self._gap_s[index] = self._usual_s[index] = 0.0
            self._forget(index)

    def _forget(self, index: int) -> None:
        self._read_s[index] = np.nan
        self._first_s[index] = np.nan
        self._missed_s[index] = -np.inf
        self._since_s[self._span[index]] = np.nan
        self._beyond[self._span[index]] = False
        for _, row in self._rows[index]:
            row.clear()

    def _take(self, readings: Sequence[tuple[int, Sample]]) -> None:
        at_s = np.full(len(self._operators), np.nan)
        for index, sample in readings:
            self._note_gap(index, sample)
            at_s[index] = sample.at_s
            self._values[index] = [_number(reading_of(sample, key)) for key in self._keys] or [math.nan]
        is_new = ~np.isnan(at_s)
        read = is_new[:, None] & ~np.isnan(self._values)
        times_s = np.broadcast_to(at_s[:, None], read.shape)
        self._first_s = np.where(read & np.isnan(self._first_s), times_s, self._first_s)
        self._read_s = np.where(read, times_s, self._read_s)
        self._missed_s = np.where(is_new[:, None] & ~read, times_s, self._missed_s)
        self._follow(at_s, is_new)
        for index, sample in readings:
            self._follow_windows(index, sample.at_s)

    def _note_gap(self, index: int, sample: Sample) -> None:
        before_s, usual_s = self._fed_s[index], self._gap_s[index]
        gap_s = sample.at_s - before_s
        self._fed_s[index] = sample.at_s
        if not math.isfinite(gap_s):
            return
        self._usual_s[index] = self._fresh_for_s(usual_s or gap_s, sample)
        if usual_s and gap_s > self._usual_s[index]:
            self._forget(index)
        self._gap_s[index] = gap_s

    def _fresh_for_s(self, gap_s: float, sample: Sample) -> float:
        return max(FRESH_FOR_S, _USUAL_GAPS * gap_s, 2 * (sample.trigger_interval_s or 0.0))

    def _follow(self, at_s: NDArray[np.float64], is_new: NDArray[np.bool_]) -> None:
        """Since when each trigger's metric has been beyond its threshold."""
        values = self._values[self._row, self._column]
        with np.errstate(invalid="ignore"):
            beyond = values * self._sign > self._threshold
        started_s = np.where(np.isnan(self._since_s), at_s[self._row], self._since_s)
        skipped = np.isnan(values) & ~self._is_in
        followed_s = np.where(beyond, started_s, np.where(skipped, self._since_s, np.nan))
        self._since_s = np.where(is_new[self._row], followed_s, self._since_s)

    def _follow_windows(self, index: int, at_s: Instant) -> None:
        for column, row in self._rows[index]:
            if not math.isnan(value := float(self._values[index, column])):
                row.add(at_s, value)
        for row, duration_s, members in self._windows[index]:
            values = row.last(duration_s)
            values.sort()
            for member in members if values else ():
                self._measure[member], self._beyond[member] = _measured(self._triggers[member], values)

    # ---------------------------------------------------------------------------------------------------------- asking

    def holding(self, now: Instant) -> NDArray[np.bool_]:
        """Which triggers hold now."""
        if not self._triggers:
            return np.zeros(0, dtype=bool)
        read_s = self._read_s[self._row, self._column]
        fresh_for_s = np.maximum(self._usual_s, FRESH_FOR_S)[self._row]
        start_s = np.where(self._is_all, self._since_s, self._first_s[self._row, self._column])
        with np.errstate(invalid="ignore"):
            is_fresh = now - read_s <= fresh_for_s
            spans = read_s - start_s >= self._needed_s - _ROUNDING_S
            is_whole = self._missed_s[self._row, self._column] < read_s - np.where(self._is_all, 0.0, self._needed_s)
        beyond = self._is_all | self._beyond
        return np.asarray(is_fresh & spans & beyond & (is_whole | ~self._is_in))

    def fired(self, holding: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The pairs of a rule and an operator all of whose triggers hold."""
        if not self._triggers:
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero(np.logical_and.reduceat(holding, self._starts))

    def beyond(self) -> NDArray[np.intp]:
        """Return the pairs all of whose triggers are beyond their thresholds, however briefly."""
        if not self._triggers:
            return np.zeros(0, dtype=np.intp)
        beyond = np.where(self._is_all, ~np.isnan(self._since_s), self._beyond)
        return np.flatnonzero(np.logical_and.reduceat(beyond, self._starts))

    def begun(self) -> dict[int, int]:
        """By operator, the first pair all of whose triggers are beyond their thresholds, however briefly."""
        pairs = self.beyond()
        if not len(pairs):
            return {}
        operators, first = np.unique(self._row[self._starts[pairs]], return_index=True)
        return dict(zip(operators.tolist(), pairs[first].tolist(), strict=True))

    def read_s(self, operator: int) -> Instant | None:
        """When an operator last gave a reading of any metric that rules refer to."""
        times_s = self._read_s[operator]
        known = times_s[~np.isnan(times_s)]
        return float(known.max()) if known.size else None

    def is_fresh(self, operator: int, now: Instant) -> bool:
        read_s = self.read_s(operator)
        return read_s is not None and now - read_s <= max(FRESH_FOR_S, float(self._usual_s[operator]))

    def of_pair(self, pair: int, holding: NDArray[np.bool_]) -> list[Holding]:
        """The state of each trigger of a pair."""
        first = int(self._starts[pair])
        last = int(self._starts[pair + 1]) if pair + 1 < len(self._starts) else len(self._triggers)
        return [self._holding_of(index, bool(holding[index])) for index in range(first, last)]

    def _holding_of(self, index: int, holds: bool) -> Holding:
        trigger = self._triggers[index]
        if self._is_all[index]:
            value, since_s = float(self._values[self._row[index], self._column[index]]), float(self._since_s[index])
        else:
            value, since_s = float(self._measure[index]), math.nan
        read_s = float(self._read_s[self._row[index], self._column[index]])
        return Holding(trigger, _known(value), _known(since_s), _known(read_s), holds)


def _measured(trigger: Trigger, values: Sequence[float]) -> tuple[float, bool]:
    """The average, median or share of the sorted values of a period, and whether it is beyond the threshold."""
    threshold = trigger.threshold.number
    is_above = trigger.comparison is Comparison.ABOVE
    match trigger.readings.kind:
        case ReadingsKind.SHARE:
            beyond = len(values) - bisect_right(values, threshold) if is_above else bisect_left(values, threshold)
            share = beyond / len(values)
            return 100 * share, 100 * share >= trigger.readings.percent - 1e-9
        case ReadingsKind.MEDIAN:
            measure = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
        case _:
            # Exact, so that the order in which readings arrive does not matter.
            measure = math.fsum(values) / len(values)
    return measure, measure > threshold if is_above else measure < threshold


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _number(value: float | None) -> float:
    return math.nan if value is None else value
