"""What of a period may be missed (the error budget of an objective) and spent (money), and how much of it is used up.

``latency p95 < 10s`` allows 5 % of a day's records to be late. Those are its budget; each late record spends of it. The
burn rate says how fast: at 1 the budget lasts exactly the period, at 12 it is gone in two hours. As reliability
engineers do, it is taken over a long window, which tells what matters, and a short one, which tells whether it still
goes on.

All of it is made of differences of counters (``Sample.arrived``, ``Sample.late``), so a lost reading costs resolution
and nothing else. A counter that went back was started anew: that stretch is left out, and so is time in which nobody
looked; but records that came meanwhile and still wait are counted, for they may be late yet. While less than a period
is known, the rest of it is taken to be like what is known.

>>> keeper = BudgetKeeper(LatencySlo(10.0, period_s=3600.0))
>>> for minute in range(31):
...     keeper.observe(Sample("job", 60.0 * minute, arrived=1000 * minute, late=min(25 * minute, 300)))
>>> budget = keeper.budget(1800.0)
>>> [round(value, 6) for value in (budget.missed, budget.missed_share, budget.total, budget.spent, budget.left)]
[300.0, 0.01, 3000.0, 0.1, 2700.0]
>>> budget.burn_long, budget.burn_short
(0.0, 0.0)

Money is counted as it is paid: instances from the request for them until they have left, whether or not they are ready.

>>> keeper = SpendingKeeper({"job": 0.5}, CostLimit(30.0))
>>> for hour in range(7):
...     keeper.observe(Observation(3600.0 * hour, {}, {"job": Instances(2, 2, 2)}))
>>> spending = keeper.spending(6 * 3600.0)
>>> round(spending.spent, 6), round(spending.projected, 6), spending.per_hour
(6.0, 24.0, 1.0)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TypeAlias

from headgate.core.course import rows, span_s
from headgate.core.errors import StateError
from headgate.core.objective import DAY_S, HOUR_S, By, CostLimit, LatencySlo, Slo, SlowShareSlo, ThroughputSlo
from headgate.core.types import JSON, Instances, Instant, Observation, Sample

BUCKETS = 288
"""In a period: five minutes of a day."""


class RollingSums:
    """Sums of a few columns of numbers over the newest period."""

    def __init__(self, period_s: float, columns: int) -> None:
        self.period_s = period_s
        self._width_s = period_s / BUCKETS
        self._columns = columns
        self._buckets: deque[tuple[int, list[float]]] = deque()
        """The number of a bucket, counted from the zero of the clock, and what it holds; rising, without empty ones."""
        self._between: tuple[int, int, list[float]] | None = None
        """The numbers of the oldest and the newest bucket, and the sums of those between them, which are complete."""

    def add(self, from_s: Instant, to_s: Instant, amounts: Sequence[float]) -> None:
        """Count amounts that came evenly between two times; times never go back."""
        first, last = int(from_s // self._width_s), int(to_s // self._width_s)
        if first == last:
            self._put(last, amounts, 1.0)
            return
        # Of a stretch longer than the period only the newest part is of interest.
        for number in range(max(first, last - BUCKETS), last + 1):
            start_s, end_s = max(from_s, number * self._width_s), min(to_s, (number + 1) * self._width_s)
            if end_s > start_s:
                self._put(number, amounts, (end_s - start_s) / (to_s - from_s))
        while self._buckets and self._buckets[0][0] < last - BUCKETS:
            self._buckets.popleft()

    def _put(self, number: int, amounts: Sequence[float], share: float) -> None:
        newest, held = self._buckets[-1] if self._buckets else (None, [])
        if newest is None or newest < number:
            held = [0.0] * self._columns
            self._buckets.append((number, held))
        for column, amount in enumerate(amounts):
            held[column] += amount * share

    def over(self, span_s: float, now_s: Instant) -> tuple[float, ...]:
        """The sums over the last ``span_s`` seconds before ``now_s``, at most a period."""
        since_s = now_s - span_s
        totals = [0.0] * self._columns
        buckets: Iterable[tuple[int, list[float]]] = reversed(self._buckets)
        if len(self._buckets) > 2 and (self._buckets[0][0] + 1) * self._width_s >= since_s:
            # Each decision needs the whole period, and nearly all of it does not change.
            totals, buckets = list(self._complete()), (self._buckets[-1], self._buckets[0])
        for number, held in buckets:
            start_s = number * self._width_s
            end_s = min(start_s + self._width_s, now_s)
            if end_s <= since_s:
                break
            share = 1.0 if start_s >= since_s else (end_s - since_s) / (end_s - start_s)
            for column, amount in enumerate(held):
                totals[column] += share * amount
        return tuple(totals)

    def _complete(self) -> list[float]:
        oldest, newest = self._buckets[0][0], self._buckets[-1][0]
        if self._between is None or self._between[:2] != (oldest, newest):
            between = islice(self._buckets, 1, len(self._buckets) - 1)
            self._between = oldest, newest, [sum(column) for column in zip(*(held for _, held in between), strict=True)]
        return self._between[2]

    def to_json(self) -> list[JSON]:
        return [[number, *held] for number, held in self._buckets]

    def restore(self, saved: Sequence[Sequence[float]]) -> None:
        """Go on with what was saved; anything else than rising numbers with finite amounts is a ``ValueError``."""
        found = [(int(number), [float(amount) for amount in held]) for number, *held in saved]
        numbers = [number for number, _ in found]
        if numbers != sorted(set(numbers)) or any(len(held) != self._columns for _, held in found):
            raise ValueError(f"{len(found)} buckets that do not rise, or have other than {self._columns} columns")
        if not all(math.isfinite(amount) for _, held in found for amount in held):
            raise ValueError("an amount that is not finite")
        self._buckets, self._between = deque(found), None


LONG_SHARE = 1 / 24
"""The long window over which a burn rate is taken, of the period: an hour of a day."""
SHORT_SHARE = 1 / BUCKETS
"""The short one: five minutes of a day."""

Missing: TypeAlias = Callable[[Sample, Sample], tuple[float, float] | None]
"""Records, or seconds, between two readings, and those of them that missed the objective; ``None``: not known."""


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What was counted since a run began."""

    counted: float
    missed: float
    covered_s: float

    @property
    def missed_share(self) -> float | None:
        """The share that missed the objective; ``None`` before there was anything to miss it."""
        return self.missed / self.counted if self.counted > 0 else None


@dataclass(frozen=True, slots=True)
class Budget:
    """An error budget as it stands. It is counted in records or in seconds, as the objective is."""

    slo: Slo
    counted: float
    """Records, or seconds, of the last period that are known."""
    missed: float
    """Those of them that missed the objective."""
    covered_s: float
    """How much of the last period is known."""
    burn_long: float | None
    burn_short: float | None
    """How many times faster than allowed the budget is being spent; ``None`` when nothing is known of the window."""
    run: RunCounts | None = None
    """The counts of the whole run, however long; ``None`` where they were not saved."""

    @property
    def long_s(self) -> float:
        return self.slo.period_s * LONG_SHARE

    @property
    def short_s(self) -> float:
        return self.slo.period_s * SHORT_SHARE

    @property
    def missed_share(self) -> float | None:
        """The share that missed the objective; ``None`` before there was anything to miss it."""
        return self.missed / self.counted if self.counted > 0 else None

    @property
    def is_young(self) -> bool:
        """Whether less than a period is known, so that the size of its budget is a guess."""
        return self.covered_s < 0.999 * self.slo.period_s

    @property
    def is_exceeded(self) -> bool:
        """Whether more was missed than allowed: of the budget of a period, or of what is known of a young one."""
        if self.is_young:
            return self.missed > self.slo.allowed_share * (
                self.counted if self.slo.by is By.RECORDS else self.covered_s
            )
        return self.spent > 1

    @property
    def total(self) -> float:
        """What may be missed in a whole period."""
        if self.slo.by is By.TIME:
            return self.slo.allowed_share * self.slo.period_s
        return self.slo.allowed_share * self.counted * max(1.0, self.slo.period_s / self.covered_s)

    @property
    def spent(self) -> float:
        """The share of the period's budget that is used up; above 1 the objective is broken."""
        if self.missed <= 0:
            return 0.0
        return self.missed / self.total if self.total > 0 else math.inf

    @property
    def left(self) -> float:
        """Records, or seconds, that may still be missed; below 0 it is more than was allowed."""
        return self.total - self.missed

    def to_json(self) -> dict[str, JSON]:
        return {
            "asked": str(self.slo),
            "by": str(self.slo.by),
            "period_s": self.slo.period_s,
            "covered_s": self.covered_s,
            "allowed_share": self.slo.allowed_share,
            "missed_share": self.missed_share,
            "counted": self.counted,
            "missed": self.missed,
            "total": self.total,
            "spent": self.spent,
            "left": self.left,
            "run": None if self.run is None else asdict(self.run),
            "burn": [
                {"over_s": self.long_s, "rate": self.burn_long},
                {"over_s": self.short_s, "rate": self.burn_short},
            ],
        }


class BudgetKeeper:
    """Keeps the error budget of one operator, reading by reading."""

    def __init__(self, slo: Slo) -> None:
        self.slo = slo
        self._missing = missing_by(slo)
        self._sums = RollingSums(slo.period_s, columns=3)
        """Counted, missed, and seconds that are known."""
        self._run: list[float] | None = [0.0, 0.0, 0.0]
        """The same of the whole run."""
        self._before: Sample | None = None
        self._until_s = -math.inf
        """Everything up to here is counted."""
        self._waiting = 0.0
        """Records that waited then: they are counted, too."""

    def observe(self, sample: Sample) -> None:
        """Count what came since the reading before; one that is not newer, or was counted before, adds nothing."""
        before = self._before
        if not math.isfinite(sample.at_s) or (before is not None and sample.at_s <= before.at_s):
            return
        self._before = sample
        if sample.at_s <= self._until_s:
            return
        found = None if before is None else self._missing(before, sample)
        self._until_s = sample.at_s
        if before is not None and found is not None:
            self._add(before.at_s, sample.at_s, (*found, sample.at_s - before.at_s))
        elif self._missing is _late_records:
            arrived = max(0.0, float(sample.backlog or 0.0) - self._waiting)
            self._add(sample.at_s, sample.at_s, (arrived, 0.0, 0.0))
        self._waiting = self._waiting if sample.backlog is None else float(sample.backlog)

    def _add(self, from_s: Instant, to_s: Instant, amounts: tuple[float, float, float]) -> None:
        self._sums.add(from_s, to_s, amounts)
        if self._run is not None:
            self._run = [total + amount for total, amount in zip(self._run, amounts, strict=True)]

    def budget(self, now_s: Instant) -> Budget | None:
        """How the budget stands; ``None`` when nothing of the last period is known."""
        period_s, allowed = self.slo.period_s, self.slo.allowed_share
        counted, missed, covered_s = self._sums.over(period_s, now_s)
        if covered_s <= 0:
            return None

        def burn(share: float) -> float | None:
            of_window, missed_of_window, known_s = self._sums.over(period_s * share, now_s)
            return _burn(of_window, missed_of_window, allowed) if known_s > 0 else None

        # One that waited while counters were started anew may have been counted as late by both.
        run = None if self._run is None else RunCounts(self._run[0], min(self._run[1], self._run[0]), self._run[2])
        return Budget(self.slo, counted, min(missed, counted), covered_s, burn(LONG_SHARE), burn(SHORT_SHARE), run)

    def to_json(self) -> dict[str, JSON]:
        return {
            "slo": str(self.slo),
            "until_s": self._until_s,
            "waiting": self._waiting,
            "run": self._run,
            "buckets": self._sums.to_json(),
        }

    def restore(self, saved: Mapping[str, JSON], *, is_same_run: bool = False) -> None:
        """Go on with what was counted before; for another objective, or if it is damaged, a ``StateError``.

        The counts of the run go on only within it.
        """
        try:
            run = saved.get("run")
            run = None if run is None else [float(amount) for amount in run]
            if run is not None and (len(run) != 3 or not all(map(math.isfinite, run))):
                raise ValueError(f"counts of a run {run}")
            until_s, waiting = float(saved["until_s"]), float(saved.get("waiting", 0.0))
            if not (until_s < math.inf and 0 <= waiting < math.inf):
                raise ValueError(f"counted until {until_s}, with {waiting} records waiting")
            if saved["slo"] != str(self.slo):
                # Readings until then counted as late what was late by another bound.
                self._until_s = until_s
                raise StateError(f"the saved budget is of '{saved['slo']}'; the objective is '{self.slo}' now.")
            self._sums.restore(saved["buckets"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the saved budget is damaged: {error!r}.") from error
        # The next reading may be of another engine, whose counters have another start.
        self._until_s, self._waiting, self._before = until_s, waiting, None
        if is_same_run:
            self._run = run


def _burn(counted: float, missed: float, allowed: float) -> float:
    if missed <= 0:
        return 0.0
    return missed / (allowed * counted) if allowed * counted > 0 else math.inf


def missing_by(slo: Slo) -> Missing:
    """How to tell what lies between two readings, and how much of it missed the objective."""
    match slo:
        case LatencySlo(by=By.RECORDS):
            return _late_records
        case LatencySlo(bound_s=bound_s):
            return lambda before, sample: _late_time(before, sample, bound_s)
        case SlowShareSlo():
            return _slow_records
        case ThroughputSlo():
            return lambda before, sample: _behind(before, sample, slo)


def _late_records(before: Sample, sample: Sample) -> tuple[float, float] | None:
    arrived, late = _difference(before.arrived, sample.arrived), _difference(before.late, sample.late)
    return None if arrived is None or late is None else (arrived, late)


def _late_time(before: Sample, sample: Sample, bound_s: float) -> tuple[float, float] | None:
    """Seconds, and those in which a record that was not done was older than the bound."""
    waits = [(batch.ended_s, batch.latency_s) for batch in sample.batches if batch.records]
    if sample.latency_s is not None:
        waits.append((sample.at_s, float(sample.latency_s)))
    if not waits:
        return None
    late = [(end_s - (latency_s - bound_s), end_s) for end_s, latency_s in waits if latency_s > bound_s]
    return sample.at_s - before.at_s, span_s(rows(late, 2), before.at_s, sample.at_s)


def _slow_records(before: Sample, sample: Sample) -> tuple[float, float] | None:
    """Of each second's records those are slow that still wait; more than all of them cannot be."""
    arrived = _difference(before.arrived, sample.arrived)
    if arrived is None or sample.backlog is None:
        return None
    return arrived, min(arrived, float(sample.backlog) * (sample.at_s - before.at_s))


def _behind(before: Sample, sample: Sample, slo: ThroughputSlo) -> tuple[float, float] | None:
    """What came, or how long it took, and all of it where the job fell behind meanwhile."""
    elapsed_s = sample.at_s - before.at_s
    counted = elapsed_s if slo.by is By.TIME else _difference(before.arrived, sample.arrived)
    violated = slo.violated_by(sample)
    return None if violated is None or counted is None else (counted, counted if violated else 0.0)


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or after < before else float(after - before)


def paid_instances(instances: Instances) -> int:
    """Requested instances are paid for whether or not they are ready yet, ready ones whether or not still requested."""
    return max(instances.requested, instances.ready)


@dataclass(frozen=True, slots=True)
class Spending:
    """What was spent in the last period, in the unit of the prices."""

    spent: float
    covered_s: float
    """How much of the last period is known."""
    period_s: float
    per_hour: float
    """What an hour costs at the size that the job has now."""
    limit: CostLimit | None = None
    run_spent: float | None = None
    """What the whole run has cost, however long; ``None`` where that was not saved."""
    run_s: float = 0.0
    """How much of the run is known."""

    @property
    def projected(self) -> float | None:
        """What a whole period comes to at the mean pace of what is known; ``None`` before there is any."""
        if self.covered_s <= 0:
            return None
        return self.spent * max(1.0, self.period_s / self.covered_s)

    @property
    def left(self) -> float | None:
        """What may still be spent in this period; ``None`` without a limit."""
        return None if self.limit is None else self.limit.amount - self.spent

    def to_json(self) -> dict[str, JSON]:
        return {
            "spent": self.spent,
            "covered_s": self.covered_s,
            "period_s": self.period_s,
            "per_hour": self.per_hour,
            "projected": self.projected,
            "limit": None if self.limit is None else self.limit.amount,
            "left": self.left,
            "run_spent": self.run_spent,
            "run_s": self.run_s,
        }


class SpendingKeeper:
    """Keeps what the operators of a job cost together, observation by observation."""

    def __init__(self, prices: Mapping[str, float], limit: CostLimit | None = None) -> None:
        self.prices = dict(prices)
        """Of an instance for an hour, by operator; those without a price cost nothing that is known."""
        self.limit = limit
        self._sums = RollingSums(DAY_S if limit is None else limit.period_s, columns=2)
        """Money, and seconds that are known."""
        self._before_s: Instant | None = None
        self._until_s = float("-inf")
        self._per_hour = 0.0
        self._run: tuple[float | None, float] = (0.0, 0.0)
        """Money, and seconds that are known, of the whole run."""

    def observe(self, observation: Observation) -> None:
        """Count what the instances cost since the observation before."""
        before_s, at_s = self._before_s, observation.at_s
        if not math.isfinite(at_s) or (before_s is not None and at_s <= before_s):
            return
        self._before_s = at_s
        self._per_hour = sum(
            price * paid_instances(observation.instances[name])
            for name, price in self.prices.items()
            if name in observation.instances
        )
        if at_s <= self._until_s:
            return
        self._until_s = at_s
        if before_s is not None:
            elapsed_s = at_s - before_s
            cost = self._per_hour * elapsed_s / HOUR_S
            self._sums.add(before_s, at_s, (cost, elapsed_s))
            spent, known_s = self._run
            self._run = (None if spent is None else spent + cost, known_s + elapsed_s)

    def spent(self, span_s: float, now_s: Instant) -> tuple[float, float]:
        """What was spent in the last ``span_s`` seconds, and how many of these are known."""
        money, known_s = self._sums.over(span_s, now_s)
        return money, min(span_s, known_s)

    def spending(self, now_s: Instant) -> Spending:
        money, known_s = self.spent(self._sums.period_s, now_s)
        return Spending(money, known_s, self._sums.period_s, self._per_hour, self.limit, *self._run)

    def to_json(self) -> dict[str, JSON]:
        return {
            "period_s": self._sums.period_s,
            "until_s": self._until_s,
            "per_hour": self._per_hour,
            "run": list(self._run),
            "buckets": self._sums.to_json(),
        }

    def restore(self, saved: Mapping[str, JSON], *, is_same_run: bool = False) -> None:
        """Go on with what was counted before; for another period, or if it is damaged, a ``StateError``.

        What the run has cost goes on only within it.
        """
        try:
            if saved["period_s"] != self._sums.period_s:
                raise StateError(
                    f"the saved spending is over {saved['period_s']:g} s; the period is {self._sums.period_s:g} s now."
                )
            until_s, per_hour = float(saved["until_s"]), float(saved["per_hour"])
            run_spent, run_s = saved.get("run", (None, 0.0))
            run = (None if run_spent is None else float(run_spent), float(run_s))
            self._sums.restore(saved["buckets"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the saved spending is damaged: {error!r}.") from error
        self._until_s, self._per_hour, self._before_s = until_s, per_hour, None
        if is_same_run:
            self._run = run
