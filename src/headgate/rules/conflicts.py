"""Which rule decides the size of an operator when the conditions of several hold.

The largest size wins: a scale-out beats a scale-in, of several scale-outs the largest is taken, of several scale-ins
the most cautious. A scale-out whose conditions hold but which its guard time or its limit stops still speaks for the
present size, so that nothing is taken away from an operator that a rule would like to see larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.types import Instant
from headgate.core.units import format_duration
from headgate.core.window import Window
from headgate.rules.evaluate import Holding
from headgate.rules.model import ALL_OPERATORS, Comparison, Direction, Rule, RulePolicy


@dataclass(frozen=True, slots=True)
class Wish:
    """The size that a rule whose triggers all hold wants for one operator."""

    rule: Rule
    current: int
    target: int
    """The size within its own limit and guard times."""
    held: tuple[Holding, ...]
    stopped_by: str = ""
    """Its guard time or limit, in words; empty when it acts."""
    stop_code: str = ""


def make_wish(
    rule: Rule, held: Sequence[Holding], now: Instant, window: Window, operator: str, current: int, original: int
) -> Wish:
    """The wish of a rule all of whose triggers hold."""
    why = guard_time(rule, now, window, operator)
    if why:
        return Wish(rule, current, current, tuple(held), why, "guard-time")
    wanted = rule.factor.applied(current, rule.direction)
    if rule.direction is Direction.OUT:
        assert rule.limit is not None
        limit = rule.limit.instances(original, rule.direction)
        target = max(current, min(wanted, limit))
    else:
        limit = 1 if rule.limit is None else rule.limit.instances(original, rule.direction)
        target = min(current, max(wanted, limit))
    if target == current:
        word = "above" if rule.direction is Direction.OUT else "below"
        relative = (
            "" if rule.limit is None or not rule.limit.relative else f" ({rule.limit} of the original {original})"
        )
        return Wish(rule, current, current, tuple(held), f"it may never go {word} {limit}{relative}", "at-limit")
    return Wish(rule, current, target, tuple(held))


def guard_time(rule: Rule, now: Instant, window: Window, operator: str) -> str:
    """Why it is too soon for a rule, in words; empty when it is not."""
    for wait_s, last, way in (
        (rule.no_scale_out_since_s, window.last_scale_out(operator), "out"),
        (rule.no_scale_in_since_s, window.last_scale_in(operator), "in"),
    ):
        if last is not None and now - last.at_s < wait_s:
            ago = format_duration(now - last.at_s)
            return f"it was scaled {way} {ago} ago, and the rule wants no scale-{way} for {format_duration(wait_s)}"
    return ""


def resolve(wishes: Sequence[Wish]) -> tuple[Wish, list[Wish]]:
    """The wish that wins, and those that it overrules, in the order of the rules."""
    counting = [wish for wish in wishes if wish.rule.direction is Direction.OUT or not wish.stopped_by]
    # The first of equals; a rule that acts comes before one that is stopped.
    winner = max(counting or wishes, key=lambda wish: (wish.target, not wish.stopped_by))
    return winner, [wish for wish in wishes if wish is not winner]


def overlaps(policy: RulePolicy) -> list[str]:
    """Rules that may want to scale an operator out and in at once, in words: allowed, but seldom meant."""
    found = []
    simple = [rule for rule in policy.rules if len(rule.triggers) == 1]
    for out in (rule for rule in simple if rule.direction is Direction.OUT):
        for back in (rule for rule in simple if rule.direction is Direction.IN):
            high, low = out.triggers[0], back.triggers[0]
            same_operator = out.operator == back.operator or ALL_OPERATORS in (out.operator, back.operator)
            facing = (high.comparison, low.comparison) == (Comparison.ABOVE, Comparison.BELOW)
            if same_operator and facing and high.key == low.key and high.threshold.number < low.threshold.number:
                found.append(
                    f"{out.name!r} and {back.name!r} both hold while {high.key} is above {high.threshold} and below "
                    f"{low.threshold}; the scale-out wins then."
                )
    return found
