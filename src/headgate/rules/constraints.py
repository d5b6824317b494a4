"""Constraint rules as guards: bounds and forbidden scaling, always or in periods, around any policy.

Bounds come after all guards that set how far a change goes, so that none of these exceeds them again. Forbidding can
only hold, so it comes last and nothing undoes it. No constraint exceeds the bounds of the objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headgate.core.contracts import Guard
from headgate.core.guards import (
    GuardTimes,
    HoldWhilePending,
    HoldWhileRecovering,
    Monotonicity,
    NeverInBlind,
)
from headgate.core.objective import Objective
from headgate.core.step import EachOperator
from headgate.core.types import Instant, Verdict
from headgate.core.window import Window
from headgate.rules.model import Constraint, Forbidden

_HOLDING = (GuardTimes, Monotonicity, HoldWhilePending, HoldWhileRecovering, NeverInBlind)
"""Guards that let a change pass or stop it, but never set its size."""


@dataclass(frozen=True, slots=True)
class ConstraintBounds(EachOperator):
    """Never fewer and never more instances than the constraints of the moment allow; the larger size wins."""

    name: ClassVar[str] = "constraint-bounds"
    constraints: tuple[Constraint, ...]
    min_instances: int
    max_instances: int

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        target, why, at_s = verdict.target, "", window.epoch_s(now)
        active = [rule for rule in self.constraints if rule.applies_to(verdict.operator) and rule.applies_at(at_s)]
        for rule in active:
            if rule.at_most is not None and target > max(rule.at_most, self.min_instances):
                target, why = max(rule.at_most, self.min_instances), f"{rule.name!r} allows at most {rule.at_most}"
        for rule in active:
            if rule.at_least is not None and target < min(rule.at_least, self.max_instances):
                target, why = min(rule.at_least, self.max_instances), f"{rule.name!r} asks for at least {rule.at_least}"
        return target, why


@dataclass(frozen=True, slots=True)
class ForbiddenScaling(EachOperator):
    """No scale-in, or no scaling at all, while a constraint forbids it."""

    name: ClassVar[str] = "constraint-forbids"
    lets_holds_pass: ClassVar[bool] = True
    constraints: tuple[Constraint, ...]

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.change == 0:
            return verdict.target, ""
        at_s = window.epoch_s(now)
        for rule in self.constraints:
            concerned = rule.forbid is Forbidden.ANY_SCALING or verdict.change < 0
            if concerned and rule.applies_to(verdict.operator) and rule.applies_at(at_s):
                return verdict.current, f"{rule.name!r} forbids {rule.forbid} now"
        return verdict.target, ""


def constrained(
    guards: tuple[Guard, ...], constraints: Sequence[Constraint], objective: Objective
) -> tuple[Guard, ...]:
    """The guards with those of the constraints in their places."""
    bounding = tuple(rule for rule in constraints if rule.at_least is not None or rule.at_most is not None)
    forbidding = tuple(rule for rule in constraints if rule.forbid is not None)
    bounds = ConstraintBounds(bounding, objective.min_instances, objective.max_instances)
    place = next((index for index, guard in enumerate(guards) if isinstance(guard, _HOLDING)), len(guards))
    return (
        *guards[:place],
        *((bounds,) if bounding else ()),
        *guards[place:],
        *((ForbiddenScaling(forbidding),) if forbidding else ()),
    )
