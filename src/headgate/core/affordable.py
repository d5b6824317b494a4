"""The guard that limits what a job costs, and says so when the limit and the objective exclude each other.

No period costs more than the limit. A size may be grown to if it is payable for the next 1/24 of the period (an hour
of a day), and held as long as it is payable for the next 1/96; a size that no longer is returns to one that is payable
for longer. Unknown time at the start counts as if the smallest sizes had been paid: their cost is reserved, so that
they can always be paid. Money becomes available again when the period has moved past the time at which it was spent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar

from headgate.core.objective import HOUR_S, CostLimit
from headgate.core.types import Decision, GuardNote, Verdict
from headgate.core.window import Window

TO_KEEP = (1 / 1440, 1 / 288, 1 / 96)
"""The share of the period for which a size must be payable to stay at it."""
TO_GROW = (*TO_KEEP, 1 / 24)
"""For how long it must be payable to be grown to; longer, so that a size is not left and taken by turns."""
ROUNDING = 1e-6
"""Who pays for just what is allowed, all the time, must not be short of a hair."""
_ANY: Mapping[str, tuple[int, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Affordable:
    """Grows no further than the money left for the rolling period pays for, and comes back when it runs out."""

    name: ClassVar[str] = "affordable"
    limit: CostLimit
    prices: Mapping[str, float]
    """Of an instance for an hour, by operator."""
    smallest: Mapping[str, int]
    """The fewest instances that each operator may have, whatever they cost."""
    allowed: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: _ANY)
    """The only sizes that are possible, where not all are; rising."""

    def __call__(self, window: Window, decision: Decision) -> Decision:
        targets = decision.targets
        to_grow = min(self._per_hour_left(window, share) for share in TO_GROW)
        grown = {name: verdict.current for name, verdict in decision.verdicts.items() if verdict.change > 0}
        self._cut(targets, grown, to_grow)
        if self._per_hour(targets) > min(self._per_hour_left(window, share) for share in TO_KEEP):
            self._cut(targets, self.smallest, to_grow)
        verdicts = {}
        for name, verdict in decision.verdicts.items():
            target = targets[name]
            why = "" if target == verdict.target else self._why(window, verdict, target)
            note = GuardNote(self.name, verdict.target, target, why)
            verdicts[name] = replace(verdict, target=target, notes=(*verdict.notes, note))
        return replace(decision, verdicts=verdicts)

    def _per_hour(self, sizes: Mapping[str, int]) -> float:
        return sum(self.prices.get(name, 0.0) * size for name, size in sizes.items())

    def _per_hour_left(self, window: Window, share: float) -> float:
        """What an hour may cost, for the next part of the period, so that the limit holds at the end of it."""
        span_s = share * self.limit.period_s
        spent, known_s = window.spent(self.limit.period_s - span_s)
        put_aside = self._per_hour(self.smallest) * (self.limit.period_s - span_s - known_s) / HOUR_S
        return ((1 + ROUNDING) * self.limit.amount - spent - put_aside) * HOUR_S / span_s

    def _cut(self, targets: dict[str, int], lowest: Mapping[str, int], per_hour: float) -> None:
        """Take instances away until an hour costs no more than it may, or all are at their lowest."""
        able = {name for name in lowest if self.prices.get(name)} & targets.keys()
        while able and self._per_hour(targets) > per_hour:
            dearest = max(sorted(able), key=lambda name: self.prices[name] * (targets[name] - lowest[name]))
            smaller = self._next_smaller(dearest, targets[dearest])
            if smaller < lowest[dearest]:
                able.remove(dearest)
            else:
                targets[dearest] = smaller

    def _next_smaller(self, operator: str, size: int) -> int:
        possible = self.allowed.get(operator)
        return size - 1 if possible is None else max((other for other in possible if other < size), default=-1)

    def _why(self, window: Window, verdict: Verdict, target: int) -> str:
        """What each side of the bargain would take."""
        spent, _ = window.spent(self.limit.period_s)
        period = _period(self.limit)
        text = (
            f"objective and '{self.limit}' cannot both be had: {verdict.target} instances cost "
            f"{self._per_period(verdict, verdict.target)} per {period}, {_money(spent)} of {_money(self.limit.amount)} "
            f"is spent, and what is left pays for {target} ({self._per_period(verdict, target)} per {period})"
        )
        priced = {size.instances: size.late_share for size in verdict.alternatives}
        if target in priced:
            return f"{text}, with {100 * priced[target]:.2g} % of the records expected to be late"
        late = late_share(window, verdict, target)
        return text if late is None else f"{text}, with at least {100 * late:.2g} % of the records late at this load"

    def _per_period(self, verdict: Verdict, size: int) -> str:
        return _money(self.prices.get(verdict.operator, 0.0) * size * self.limit.period_s / HOUR_S)


def late_share(window: Window, verdict: Verdict, size: int) -> float | None:
    """Return the share of records that exceeds the capacity of a size and cannot be on time; ``None`` if unknown."""
    sample, instances = window.sample(verdict.operator), window.instances(verdict.operator)
    if sample is None or instances is None or instances.ready <= 0:
        return None
    rate, processed = sample.input_rate_per_s, sample.processed_rate_per_s
    if not rate or processed is None:
        return None
    carried = float(processed) * size / instances.ready
    return 1 - carried / float(rate) if carried < rate else None


def _period(limit: CostLimit) -> str:
    return str(limit).rpartition(" per ")[2]


def _money(amount: float) -> str:
    return f"{amount:.4g}" if abs(amount) < 1000 else f"{amount:.0f}"
