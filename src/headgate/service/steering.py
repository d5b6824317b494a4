"""What people asked for while a job runs: a size that is forced, scaling that is paused. It has the last word on sizes.

No policy and no other guard undoes it; only the quotas of a group come after it, for they are what there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from headgate.core.step import EachOperator
from headgate.core.types import Instant, Verdict
from headgate.core.units import format_duration
from headgate.core.window import Window
from headgate.rules.model import ALL_OPERATORS
from headgate.service.store.changes import Change, ChangeKind

BOTH, IN, OUT = "both", "in", "out"
DIRECTIONS = (BOTH, IN, OUT)


class Steering(EachOperator):
    """The pauses and forced sizes of one job; ``take`` replaces them all at once."""

    name: ClassVar[str] = "steered"

    def __init__(self) -> None:
        self._sizes: dict[str, Change] = {}
        self._pauses: dict[str, Change] = {}

    def take(self, changes: Iterable[Change]) -> None:
        in_force = tuple(changes)
        self._sizes = {one.name: one for one in in_force if one.kind is ChangeKind.SIZE}
        self._pauses = {one.name: one for one in in_force if one.kind is ChangeKind.PAUSE}

    def paused(self, operator: str, now: Instant) -> Change | None:
        """The pause that holds for an operator; its own comes before that of all."""
        for name in (operator, ALL_OPERATORS):
            found = self._pauses.get(name)
            if found is not None and found.holds_at(now):
                return found
        return None

    def forced(self, operator: str, now: Instant) -> Change | None:
        found = self._sizes.get(operator)
        return found if found is not None and found.holds_at(now) else None

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        forced = self.forced(verdict.operator, now)
        if forced is not None:
            size = int(forced.body["size"])
            return size, f"{forced.who} forces {size} instances{_left(forced, now)}: {forced.why}"
        paused = self.paused(verdict.operator, now)
        if paused is None or verdict.change == 0:
            return verdict.target, ""
        direction = paused.body["direction"]
        if direction == BOTH or (direction == IN) == (verdict.change < 0):
            which = "scaling" if direction == BOTH else f"scaling {direction}"
            return verdict.current, f"{paused.who} has paused {which}{_left(paused, now)}: {paused.why}"
        return verdict.target, ""


def _left(change: Change, now: Instant) -> str:
    return "" if change.until_s is None else f" for another {format_duration(round(change.until_s - now))}"
