"""Rules and their decisions in words: conditions with their times, wishes, what stopped them, what they overruled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from headgate.core.types import Instances, Instant, Number, Target
from headgate.core.units import format_duration, plain
from headgate.rules.conflicts import Wish
from headgate.rules.evaluate import Holding
from headgate.rules.model import (
    ALL_OPERATORS,
    Comparison,
    Constraint,
    Direction,
    FiresOn,
    Forbidden,
    ReadingsKind,
    Rule,
    Trigger,
)

_SIMULATED_BEFORE_S = 1e9


def moment(at_s: Instant) -> str:
    """A time for people: of the clock when live, from the start when simulated.

    >>> moment(65.0), moment(1_700_000_000.0)
    ('+65s', '22:13:20 UTC')
    """
    if at_s < _SIMULATED_BEFORE_S:
        return f"+{format_duration(at_s)}"
    return f"{datetime.fromtimestamp(at_s, UTC):%H:%M:%S} UTC"


def condition(trigger: Trigger) -> str:
    """A condition in words: ``backlog above 300 for 30s``."""
    kinds = {ReadingsKind.ALL: "", ReadingsKind.AVERAGE: " on average", ReadingsKind.MEDIAN: " at the median"}
    how = kinds.get(trigger.readings.kind, f" in {trigger.readings}")
    lasting = f" for {format_duration(trigger.for_at_least_s)}" if trigger.for_at_least_s else ""
    return f"{trigger.key} {trigger.comparison} {trigger.threshold}{how}{lasting}"


def rule_in_words(rule: Rule) -> str:
    """A rule as one sentence."""
    adds = rule.direction is Direction.OUT
    operators = _operators(rule.operator)
    if rule.factor.relative:
        times = plain(rule.factor.amount)
        action = f"make {operators} {times} times as large" if adds else f"divide the size of {operators} by {times}"
    else:
        count = f"{rule.factor} instance{'' if rule.factor.amount == 1 else 's'}"
        action = f"add {count} to {operators}" if adds else f"remove {count} from {operators}"
    limit = "" if rule.limit is None else f", never {'above' if adds else 'below'} {rule.limit}"
    limit += " of the original size" if rule.limit is not None and rule.limit.relative else ""
    guards = [
        f" with no scale-{way} since {format_duration(wait_s)}"
        for way, wait_s in (("out", rule.no_scale_out_since_s), ("in", rule.no_scale_in_since_s))
        if wait_s
    ]
    when = " and ".join(condition(trigger) for trigger in rule.triggers)
    once = ", once until that is not so" if rule.fires_on is FiresOn.EDGE else ""
    return f"{rule.name}: {action}{limit}, when {when}{' and'.join(guards)}{once}"


def constraint_in_words(constraint: Constraint) -> str:
    """A constraint as one sentence."""
    parts = []
    if constraint.at_least is not None:
        parts.append(f"at least {constraint.at_least} instances")
    if constraint.at_most is not None:
        parts.append(f"at most {constraint.at_most} instances")
    if constraint.forbid is not None:
        parts.append("no scaling in" if constraint.forbid is Forbidden.SCALE_IN else "no scaling")
    when = " or ".join(schedule.text for schedule in constraint.during)
    period = f" during {when} ({constraint.time_zone})" if when else ", always"
    return f"{constraint.name}: {' and '.join(parts)} for {_operators(constraint.operator)}{period}"


def _operators(name: str) -> str:
    return "every operator" if name == ALL_OPERATORS else name


def held_in_words(held: Holding, explained_s: float) -> str:
    """The state of a condition; times are given exactly up to ``explained_s`` and as longer than that beyond."""
    trigger, value = held.trigger, held.value
    beyond = f"{trigger.comparison} {trigger.threshold}"
    shown = "unknown" if value is None else plain(value)
    lasted = format_duration(trigger.for_at_least_s)
    match trigger.readings.kind:
        case ReadingsKind.AVERAGE:
            return f"{trigger.key} was {shown} on average over {lasted}, {beyond}"
        case ReadingsKind.MEDIAN:
            return f"{trigger.key} was {shown} at the median over {lasted}, {beyond}"
        case ReadingsKind.SHARE:
            return f"{trigger.key} was {beyond} in {shown} % of the readings over {lasted}"
        case ReadingsKind.ALL:
            if held.since_s is None or held.read_s is None:
                return f"{trigger.key} {shown} is not {beyond}"
            # The time that readings span: nothing is known after the newest of them.
            span_s = held.read_s - held.since_s
            if span_s > explained_s:
                return f"{trigger.key} {shown} has been {beyond} for over {format_duration(explained_s)}"
            since = f"since {moment(held.since_s)}, for {format_duration(span_s)}"
            return f"{trigger.key} {shown} has been {beyond} {since}"


def acting(winner: Wish, overruled: Sequence[Wish], explained_s: float) -> Target:
    """The target of a rule that acts, or the hold of one that is stopped."""
    why = " and ".join(held_in_words(held, explained_s) for held in winner.held)
    text = f"{winner.rule.name!r}: {why}"
    if winner.stopped_by:
        text = f"{text}; not now: {winner.stopped_by}"
    if overruled:
        text = f"{text}; this overrules {', '.join(_wanted(wish) for wish in overruled)}"
    code = winner.stop_code or ("rule-out" if winner.target > winner.current else "rule-in")
    return Target(winner.target, code, text, _numbers(winner.rule, winner.held, overruled))


def waiting(rule: Rule, held: Sequence[Holding], instances: Instances, explained_s: float) -> Target:
    """The hold of a rule whose conditions are met, but not for long enough yet."""
    short = [holding for holding in held if not holding.holds]
    why = " and ".join(f"{held_in_words(each, explained_s)}, not yet {_needed(each.trigger)}" for each in short)
    return Target(instances.planned, "waiting", f"{rule.name!r} waits: {why}", _numbers(rule, held, ()))


def _needed(trigger: Trigger) -> str:
    lasting = format_duration(trigger.for_at_least_s)
    return f"for {lasting}" if trigger.readings.kind is ReadingsKind.ALL else f"with readings that span {lasting}"


def _wanted(wish: Wish) -> str:
    if wish.stopped_by:
        return f"{wish.rule.name!r} ({wish.stop_code.replace('-', ' ')})"
    way = "scale out" if wish.target > wish.current else "scale in"
    return f"{wish.rule.name!r} ({way} to {wish.target})"


def _numbers(rule: Rule, held: Sequence[Holding], overruled: Sequence[Wish]) -> dict[str, Number]:
    numbers: dict[str, Number] = {"rule": rule.name}
    for holding in held:
        trigger = holding.trigger
        side = "over" if trigger.comparison is Comparison.ABOVE else "under"
        numbers[trigger.key] = holding.value
        numbers[f"{trigger.key}_{side}"] = trigger.threshold.number
    if overruled:
        numbers["overruled"] = ", ".join(wish.rule.name for wish in overruled)
    return numbers
