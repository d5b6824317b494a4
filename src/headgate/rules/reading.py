"""From what was written to the model, with every mistake of a file found in one go.

A part that cannot be read is left out and said; whatever depends on it is not complained about a second time.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

from headgate.core.errors import InputError
from headgate.core.metrics import Aggregation
from headgate.rules.fields import FieldReader, Fields
from headgate.rules.keys import CONSTRAINT_KEYS, FILE_KEYS, MEANT, RULE_KEYS, TRIGGER_KEYS, VERSION
from headgate.rules.metrics import metric_named
from headgate.rules.model import (
    ALL_OPERATORS,
    ALL_READINGS,
    Comparison,
    Constraint,
    Direction,
    Forbidden,
    Readings,
    Rule,
    RulePolicy,
    ScaleFactor,
    ScaleLimit,
    Trigger,
    require_name,
)
from headgate.rules.nodes import Mapping, Node, Position, RuleErrors, Scalar, ScalarKind, Sequence
from headgate.rules.schedule import Schedule, time_zone
from headgate.rules.units import Quantity, parse_quantity

T = TypeVar("T")
N = TypeVar("N", Rule, Constraint)
C = TypeVar("C", Aggregation, Forbidden)


@dataclass(frozen=True, slots=True)
class Known:
    """Names that exist outside of the file; operators are not checked where they are not known."""

    operators: Collection[str] | None = None
    metrics: Collection[str] = ()


def read_policy(root: Node, source: str, known: Known | None = None) -> RulePolicy:
    """The policy that a file describes; raises :class:`RuleErrors` with everything that is wrong."""
    return _Reader(source, known or Known()).policy(root)


class _Reader(FieldReader):
    def __init__(self, source: str, known: Known) -> None:
        super().__init__(source, MEANT, (RULE_KEYS, TRIGGER_KEYS, CONSTRAINT_KEYS))
        self._known = known
        self._metrics = set(known.metrics)
        self._named: dict[tuple[type, str, str], Position] = {}

    # ------------------------------------------------------------------------------------------------------- the parts

    def policy(self, root: Node) -> RulePolicy:
        if isinstance(root, Scalar) and root.kind is ScalarKind.NOTHING:
            self._problem(root, "the file is empty; expected 'rules:' or 'constraints:' with a list under it.")
            raise RuleErrors(self._source, self._problems)
        fields = self._fields(root, "a rule file", FILE_KEYS)
        self._version(fields, VERSION)
        metrics = self._list(fields, "metrics", self._own_metric)
        self._metrics.update(metrics)
        rules = self._list(fields, "rules", self._rule)
        constraints = self._list(fields, "constraints", self._constraint)
        if fields and "rules" not in fields and "constraints" not in fields and not self._problems:
            self._problem(root, "neither 'rules' nor 'constraints' is there; expected at least one of them.")
        if not self._problems:
            # Metrics that somebody else vouches for become the policy's own: it is complete by itself.
            used = {trigger.metric for rule in rules for trigger in rule.triggers}
            vouched = sorted(used & set(self._known.metrics) - set(metrics))
            policy = self._made(root, lambda: RulePolicy(tuple(rules), tuple(constraints), (*metrics, *vouched)))
            if policy is not None:
                return policy
        raise RuleErrors(self._source, self._problems)

    def _own_metric(self, node: Node) -> str | None:
        name = self._text(node, "a metric", "a name such as fraud_score")
        if name is None:
            return None
        return self._made(node, lambda: require_name("metric", name))

    def _rule(self, node: Node) -> Rule | None:
        before = len(self._problems)
        fields = self._fields(node, "a rule", RULE_KEYS)
        name = self._name(fields)
        direction, operator = self._action(node, fields)
        factor = self._value(fields, "by", ScaleFactor.parse)
        limit = self._limit(fields, direction)
        triggers = self._triggers(fields)
        out_s = self._duration(fields, "with_no_scale_out_since")
        in_s = self._duration(fields, "with_no_scale_in_since")
        if len(self._problems) > before or direction is None or operator is None or factor is None or name is None:
            return None
        rule = self._made(
            node, lambda: Rule(name, operator, direction, factor, tuple(triggers), limit, out_s or 0.0, in_s or 0.0)
        )
        return rule and self._unique(rule, node)

    def _action(self, node: Node, fields: Fields) -> tuple[Direction | None, str | None]:
        given = [direction for direction in Direction if direction.value in fields]
        if len(given) == 2:
            self._problem(fields["scale_in"][0], "scale_in: found scale_out beside it, expected one of them in a rule.")
            return None, None
        if not given:
            if isinstance(node, Mapping):
                self._problem(node, "scale_out or scale_in is missing: say which operator the rule is for.")
            return None, None
        return given[0], self._operator(fields[given[0].value][1], given[0].value)

    def _limit(self, fields: Fields, direction: Direction | None) -> ScaleLimit | None:
        wrong, right = ("never_below", "never_above") if direction is Direction.OUT else ("never_above", "never_below")
        limit = self._value(fields, right, ScaleLimit.parse)
        if direction is not None and wrong in fields:
            self._problem(
                fields[wrong][0], f"{wrong}: found in a rule that {_acts(direction)}, expected {right} there."
            )
        elif direction is Direction.OUT and right not in fields:
            self._problem(
                fields[direction.value][0],
                "never_above is missing: say how far the rule may scale out, such as 8, or x4 of the original size.",
            )
        return limit

    def _triggers(self, fields: Fields) -> list[Trigger]:
        if "when" not in fields:
            return []
        node = fields["when"][1]
        items = node.items if isinstance(node, Sequence) else (node,)
        if not items:
            self._problem(node, "when: found an empty list, expected at least one condition.")
        return [trigger for item in items if (trigger := self._trigger(item)) is not None]

    def _trigger(self, node: Node) -> Trigger | None:
        before = len(self._problems)
        fields = self._fields(node, "a condition", TRIGGER_KEYS)
        metric = self._value(fields, "metric", self._metric)
        comparison, threshold = self._threshold(node, fields)
        lasting_s = self._duration(fields, "for_at_least")
        readings = self._value(fields, "on", Readings.parse) or ALL_READINGS
        over = self._value(fields, "over_instances", lambda text: _choice(text, Aggregation)) or Aggregation.MEAN
        if len(self._problems) > before or metric is None or comparison is None or lasting_s is None:
            return None
        at = fields["over_instances"][1] if over is not Aggregation.MEAN else fields[comparison.value][1]
        if threshold is None:
            return None
        return self._made(at, lambda: Trigger(metric, comparison, threshold, lasting_s, readings, over))

    def _threshold(self, node: Node, fields: Fields) -> tuple[Comparison | None, Quantity | None]:
        given = [comparison for comparison in Comparison if comparison.value in fields]
        if len(given) == 2:
            self._problem(
                fields["below"][0], "below: found above beside it, expected one of them; make two conditions of it."
            )
            return None, None
        if not given:
            if isinstance(node, Mapping):
                self._problem(node, "above or below is missing: say what value the metric must be beyond.")
            return None, None
        return given[0], self._value(fields, given[0].value, _quantity)

    def _constraint(self, node: Node) -> Constraint | None:
        before = len(self._problems)
        fields = self._fields(node, "a constraint", CONSTRAINT_KEYS)
        name = self._name(fields)
        operator = self._operator(fields["operator"][1], "operator") if "operator" in fields else ALL_OPERATORS
        at_least = self._value(fields, "at_least", _count)
        at_most = self._value(fields, "at_most", _count)
        forbid = self._value(fields, "forbid", lambda text: _choice(text, Forbidden))
        during = self._during(fields)
        zone = self._value(fields, "time_zone", _zone) or "UTC"
        if "time_zone" in fields and "during" not in fields:
            self._problem(fields["time_zone"][0], "time_zone: found without during, expected both or neither.")
        if len(self._problems) > before or name is None or operator is None:
            return None
        constraint = self._made(
            node, lambda: Constraint(name, operator, at_least, at_most, forbid, tuple(during), zone)
        )
        return constraint and self._unique(constraint, node)

    def _during(self, fields: Fields) -> list[Schedule]:
        if "during" not in fields:
            return []
        node = fields["during"][1]
        items = node.items if isinstance(node, Sequence) else (node,)
        if not items:
            self._problem(node, "during: found an empty list, expected at least one period such as * 8-17 * * mon-fri.")
        found = [self._scalar(item, "during", lambda text: Schedule(str(text))) for item in items]
        return [schedule for schedule in found if schedule is not None]

    def _name(self, fields: Fields) -> str | None:
        if "name" not in fields:
            return None
        node = fields["name"][1]
        name = self._text(node, "name", "text such as queue too long")
        if name is None:
            return None
        return self._made(node, lambda: require_name("name", name))

    def _operator(self, node: Node, key: str) -> str | None:
        name = self._text(node, key, 'the name of an operator, or "*" in quotes for all')
        if name is None or self._made(node, lambda: require_name(key, name)) is None:
            return None
        operators = self._known.operators
        if operators is not None and name != ALL_OPERATORS and name not in operators:
            self._problem(node, f"{key}: {_unknown('operator', name, operators)}")
            return None
        return name

    def _metric(self, text: object) -> str:
        return metric_named(str(text), self._metrics)

    def _unique(self, found: N, node: Node) -> N | None:
        """Decisions name rules; the model refuses doubles, and this says where they are."""
        kind = type(found).__name__.lower()
        first = self._named.setdefault((type(found), found.name, found.operator), node.position)
        if first is node.position:
            return found
        self._problem(
            node,
            f"{kind} {found.name!r} for operator {found.operator!r}: found a second time, expected a name of its own; "
            f"the first is in line {first.line}.",
        )
        return None


def _acts(direction: Direction) -> str:
    return "scales out" if direction is Direction.OUT else "scales in"


def _quantity(text: object) -> Quantity:
    return parse_quantity(str(text))


def _count(text: object) -> int:
    if not str(text).isdecimal() or len(str(text)) > 9 or int(str(text)) < 1:
        raise InputError(f"found {text!r}, expected a whole number of instances of at least 1.")
    return int(str(text))


def _zone(text: object) -> str:
    time_zone(str(text))
    return str(text)


def _choice(text: object, kind: type[C]) -> C:
    wanted = str(text).strip().lower().replace("_", " ")
    for choice in kind:
        if choice.value == wanted:
            return choice
    close = difflib.get_close_matches(wanted, [choice.value for choice in kind], n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise InputError(f"found {text!r}, expected {' or '.join(choice.value for choice in kind)}.{hint}")


def _unknown(kind: str, name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f", did you mean {close[0]!r}?" if close else ";"
    return f'unknown {kind} {name!r}{hint} expected {", ".join(sorted(known))} or "*" for all.'
