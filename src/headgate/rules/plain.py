"""A policy as plain values, the common ground of YAML and JSON; what is at its default is left out."""

from __future__ import annotations

from typing import Any

from headgate.core.metrics import Aggregation
from headgate.rules.keys import VERSION
from headgate.rules.model import (
    ALL_OPERATORS,
    ALL_READINGS,
    Constraint,
    Direction,
    Rule,
    RulePolicy,
    ScaleFactor,
    ScaleLimit,
    Trigger,
)
from headgate.rules.units import Quantity, Unit, written_duration


def to_plain(policy: RulePolicy) -> dict[str, Any]:
    """Dictionaries, lists, text and numbers that read back as the same policy."""
    plain: dict[str, Any] = {"version": VERSION}
    if policy.metrics:
        plain["metrics"] = list(policy.metrics)
    plain["rules"] = [_rule(rule) for rule in policy.rules]
    if policy.constraints:
        plain["constraints"] = [_constraint(constraint) for constraint in policy.constraints]
    return plain


def _rule(rule: Rule) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": rule.name, rule.direction.value: rule.operator, "by": _size(rule.factor)}
    if rule.limit is not None:
        plain["never_above" if rule.direction is Direction.OUT else "never_below"] = _size(rule.limit)
    plain["when"] = [_trigger(trigger) for trigger in rule.triggers]
    if rule.no_scale_out_since_s:
        plain["with_no_scale_out_since"] = written_duration(rule.no_scale_out_since_s)
    if rule.no_scale_in_since_s:
        plain["with_no_scale_in_since"] = written_duration(rule.no_scale_in_since_s)
    return plain


def _trigger(trigger: Trigger) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "metric": trigger.metric,
        trigger.comparison.value: _quantity(trigger.threshold),
        "for_at_least": written_duration(trigger.for_at_least_s),
    }
    if trigger.readings != ALL_READINGS:
        plain["on"] = str(trigger.readings)
    if trigger.over_instances is not Aggregation.MEAN:
        plain["over_instances"] = trigger.over_instances.value
    return plain


def _constraint(constraint: Constraint) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": constraint.name}
    if constraint.operator != ALL_OPERATORS:
        plain["operator"] = constraint.operator
    if constraint.at_least is not None:
        plain["at_least"] = constraint.at_least
    if constraint.at_most is not None:
        plain["at_most"] = constraint.at_most
    if constraint.forbid is not None:
        plain["forbid"] = constraint.forbid.value
    if constraint.during:
        periods = [schedule.text for schedule in constraint.during]
        plain["during"] = periods[0] if len(periods) == 1 else periods
        if constraint.time_zone != "UTC":
            plain["time_zone"] = constraint.time_zone
    return plain


def _size(size: ScaleFactor | ScaleLimit) -> int | str:
    return str(size) if size.relative else int(size.amount)


def _quantity(quantity: Quantity) -> int | float | str:
    if quantity.unit is not Unit.PLAIN:
        return str(quantity)
    whole = quantity.value.is_integer() and abs(quantity.value) < 2**53
    return int(quantity.value) if whole else quantity.value
