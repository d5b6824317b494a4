"""What the instances of a job cost: so far in the last period, at this pace, and against what may be spent.

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
from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.budget import RollingSums
from headgate.core.errors import StateError
from headgate.core.objective import DAY_S, HOUR_S, CostLimit
from headgate.core.types import JSON, Instances, Instant, Observation


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
