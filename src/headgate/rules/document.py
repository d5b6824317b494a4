"""Rules as YAML and JSON: the form of a rule file, its schema, and the way back to text.

>>> policy = from_yaml('''
... rules:
...   - name: queue too long
...     scale_out: enrich
...     by: 2
...     never_above: 8
...     when:
...       - metric: backlog
...         above: 300
...         for_at_least: 30s
... ''')
>>> policy.rules[0].limit
ScaleLimit(amount=8.0, relative=False)
>>> from_yaml(str(policy)) == policy == from_json(to_json(policy))
True
"""

from __future__ import annotations

import difflib
import io
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import ConfigDict
from ruamel.yaml import YAML

from headgate import documents
from headgate.core.errors import InputError
from headgate.core.metrics import Aggregation
from headgate.documents import Document, Form, Mistake, Position, key, nodes
from headgate.documents.values import AtLeastOne, Duration, TextIn, Value, ValueIn, only_version, whole_number
from headgate.rules.model import (
    ALL_OPERATORS,
    ALL_READINGS,
    Comparison,
    Constraint,
    Direction,
    FiresOn,
    Forbidden,
    Readings,
    Rule,
    RulePolicy,
    ScaleFactor,
    ScaleLimit,
    Trigger,
    metric_named,
    require_name,
)
from headgate.rules.schedule import Schedule, time_zone
from headgate.rules.units import Quantity, Unit, parse_quantity, written_duration

VERSION = 1
_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_TEXT = {"type": "string"}
_SIZE = {
    "oneOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^\s*([xX×]\s*(\d+(\.\d+)?|\.\d+)|\+?\d+)\s*$"},
    ]
}
_QUANTITY = {"type": ["number", "string"], "pattern": r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*[a-zA-Z%/ ]*$"}
_READINGS = {
    "type": "string",
    "pattern": r"^\s*(all( readings)?|average|median|\d+(\.\d+)?\s*(%|percent) of (the )?readings)\s*$",
}
C = TypeVar("C", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Known:
    """Names that exist outside of the file; operators are not checked where they are not known."""

    operators: Collection[str] | None = None
    metrics: Collection[str] = ()


@dataclass
class _Reading:
    """What is known while a file is read."""

    known: Known
    metrics: set[str]
    """Of the user's own: those of the file and those known outside of it."""
    positions: dict[tuple[str, str, str], Position] = field(default_factory=dict)
    """Where rules and constraints are, by kind, name and operator."""

    def refuse_second(self, named: Rule | Constraint, node: nodes.Mapping) -> None:
        """Decisions name rules, so a name may stand once for an operator."""
        kind = type(named).__name__.lower()
        first = self.positions.setdefault((kind, named.name, named.operator), node.position)
        if first is not node.position:
            raise InputError(
                f"{kind} {named.name!r} for operator {named.operator!r}: found a second time, expected a name of its "
                f"own; the first is in line {first.line}."
            )


# ---------------------------------------------------------------------------------------------------- the single values


def _own_metric(name: str, reading: _Reading) -> str:
    reading.metrics.add(require_name("metric", name))
    return name


def _operator(name: str, reading: _Reading) -> str:
    operators = reading.known.operators
    require_name("operator", name)
    if operators is not None and name != ALL_OPERATORS and name not in operators:
        close = difflib.get_close_matches(name, list(operators), n=1, cutoff=0.5)
        hint = f", did you mean {close[0]!r}?" if close else ";"
        raise InputError(f'unknown operator {name!r}{hint} expected {", ".join(sorted(operators))} or "*" for all.')
    return name


def _choice(kind: type[C]) -> Value:
    def parse(text: str) -> C:
        wanted = text.strip().lower().replace("_", " ")
        for choice in kind:
            if choice.value == wanted:
                return choice
        close = difflib.get_close_matches(wanted, [choice.value for choice in kind], n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"found {text!r}, expected {' or '.join(choice.value for choice in kind)}.{hint}")

    return Value(parse, {"enum": [choice.value for choice in kind]})


def _time_zone(name: str) -> str:
    time_zone(name)
    return name


_count = Value(whole_number(1, "a whole number of instances"), {"type": "integer", "minimum": 1})
Name = Annotated[str, TextIn(lambda text, _: require_name("name", text), _NAME, "text such as queue too long")]
OwnMetric = Annotated[str, TextIn(_own_metric, _NAME, "a name such as fraud_score")]
Metric = Annotated[str, ValueIn(lambda name, reading: metric_named(name, reading.metrics), _NAME)]
Operator = Annotated[str, TextIn(_operator, _NAME, 'the name of an operator, or "*" in quotes for all')]
Factor = Annotated[ScaleFactor, Value(ScaleFactor.parse, _SIZE)]
Limit = Annotated[ScaleLimit, Value(ScaleLimit.parse, _SIZE)]
Threshold = Annotated[Quantity, Value(parse_quantity, _QUANTITY)]
Instances = Annotated[int, _count]
Period = Annotated[Schedule, Value(Schedule, _TEXT)]


# ------------------------------------------------------------------------------------------------------------ the forms


def _any_of(*names: str) -> list[Any]:
    return [{"required": [name]} for name in names]


class TriggerForm(Form[Trigger]):
    noun = "a condition"
    synonyms: ClassVar = {
        "for": "for_at_least",
        "duration": "for_at_least",
        "greater_than": "above",
        "over": "above",
        "less_than": "below",
        "under": "below",
        "aggregation": "on",
        "statistic": "on",
    }
    model_config = ConfigDict(json_schema_extra={"oneOf": _any_of("above", "below")})

    metric: Metric = key("What is compared, such as backlog, latency or utilization.", ...)
    above: Threshold | None = key("Beyond this: 300, 300 records, 30 %, 5 s or 300 records/s.")
    below: Threshold | None = key("Under this: 300, 300 records, 30 %, 5 s or 300 records/s.")
    for_at_least: Duration = key("How long it must have been so, such as 30s; 0s for a single reading.", ...)
    on: Annotated[Readings, Value(Readings.parse, _READINGS)] = key(
        "Which readings must be so: all readings, average, median or a share such as 90 % of readings.", ALL_READINGS
    )
    over_instances: Annotated[Aggregation, _choice(Aggregation)] = key(
        "How the readings of several instances become one.", Aggregation.MEAN
    )

    @classmethod
    def mistakes_of_keys(cls, given: nodes.Mapping) -> Iterator[Mistake]:
        if "above" in given and "below" in given:
            message = "below: found next to above, expected one of them; make two conditions of it."
            yield Mistake(message, "below", at_key=True)
        elif given and not given.keys() & {"above", "below"}:
            yield Mistake("above or below is missing: say what value the metric must be beyond.")

    def build(self, context: _Reading) -> Trigger:
        comparison = Comparison.BELOW if self.above is None else Comparison.ABOVE
        threshold = self.below if self.above is None else self.above
        assert threshold is not None
        try:
            return Trigger(self.metric, comparison, threshold, self.for_at_least, self.on, self.over_instances)
        except InputError as error:
            at = comparison.value if self.over_instances is Aggregation.MEAN else "over_instances"
            raise Mistake(str(error), at) from error


class RuleForm(Form[Rule]):
    noun = "a rule"
    synonyms: ClassVar = {
        "operator": "scale_out",
        "scaleout": "scale_out",
        "scalein": "scale_in",
        "step": "by",
        "triggers": "when",
        "if": "when",
        "conditions": "when",
        "max": "never_above",
        "min": "never_below",
        "cooldown": "with_no_scale_out_since",
    }
    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["scale_out", "never_above"], "not": {"anyOf": _any_of("scale_in", "never_below")}},
                {"required": ["scale_in"], "not": {"anyOf": _any_of("scale_out", "never_above")}},
            ]
        }
    )

    name: Name = key("What decisions and explanations call the rule.", ...)
    scale_out: Operator | None = key('The operator to add instances to, or "*" for each of them.')
    scale_in: Operator | None = key('The operator to remove instances from, or "*" for each of them.')
    by: Factor = key("How far one action goes: 2 instances, or x2 for twice (or half) the present size.", ...)
    never_above: Limit | None = key("The largest size to scale out to: 8, or x4 of the original size.")
    never_below: Limit | None = key("The smallest size to scale in to: 2, or x1 of the original size.")
    when: Annotated[tuple[TriggerForm, ...], AtLeastOne("one condition", single=True)] = key(
        "The conditions; all must hold.", ...
    )
    with_no_scale_out_since: Duration = key("Only if the operator was not scaled out for this long, such as 5m.", 0.0)
    with_no_scale_in_since: Duration = key("Only if the operator was not scaled in for this long, such as 5m.", 0.0)

    trigger: Annotated[FiresOn, _choice(FiresOn)] = key(
        "Fire as long as the conditions are met (level), or once until they have not been met (edge).", FiresOn.LEVEL
    )

    @classmethod
    def mistakes_of_keys(cls, given: nodes.Mapping) -> Iterator[Mistake]:
        out, back = "scale_out" in given, "scale_in" in given
        if out and back:
            message = "scale_in: found next to scale_out, expected one of them in a rule."
            yield Mistake(message, "scale_in", at_key=True)
        elif not out and not back:
            yield Mistake("scale_out or scale_in is missing: say which operator the rule is for.")
        elif (wrong := "never_below" if out else "never_above") in given:
            acts, right = ("scales out", "never_above") if out else ("scales in", "never_below")
            message = f"{wrong}: found in a rule that {acts}, expected {right} there."
            yield Mistake(message, wrong, at_key=True)
        elif out and "never_above" not in given:
            message = (
                "never_above is missing: say how far the rule may scale out, such as 8, or x4 of the original size."
            )
            yield Mistake(message, "scale_out", at_key=True)

    def build(self, context: _Reading) -> Rule:
        is_out = self.scale_out is not None
        rule = Rule(
            self.name,
            str(self.scale_out if is_out else self.scale_in),
            Direction.OUT if is_out else Direction.IN,
            self.by,
            tuple(trigger.built for trigger in self.when),
            self.never_above if is_out else self.never_below,
            self.with_no_scale_out_since,
            self.with_no_scale_in_since,
            self.trigger,
        )
        context.refuse_second(rule, self.node)
        return rule


class ConstraintForm(Form[Constraint]):
    noun = "a constraint"
    synonyms: ClassVar = {"timezone": "time_zone", "tz": "time_zone", "schedule": "during", "cron": "during"}
    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": _any_of("at_least", "at_most", "forbid"),
            "dependentRequired": {"time_zone": ["during"]},
        }
    )

    name: Name = key("What decisions and explanations call the constraint.", ...)
    operator: Operator = key('The operator it is about; "*", for each of them, where not given.', ALL_OPERATORS)
    at_least: Instances | None = key("Never fewer instances.")
    at_most: Instances | None = key("Never more instances.")
    forbid: Annotated[Forbidden, _choice(Forbidden)] | None = key("What must not happen.")
    during: Annotated[tuple[Period, ...], AtLeastOne("one period such as * 8-17 * * mon-fri", single=True)] = key(
        "When it holds, in the manner of cron, such as * 8-17 * * mon-fri; always, where not given.", ()
    )
    time_zone: Annotated[str, Value(_time_zone, _TEXT)] = key(
        "The time zone of 'during', such as Europe/Berlin; UTC where not given.", "UTC"
    )

    @classmethod
    def mistakes_of_keys(cls, given: nodes.Mapping) -> Iterator[Mistake]:
        if "time_zone" in given and "during" not in given:
            yield Mistake("time_zone: found without during, expected both or neither.", "time_zone", at_key=True)

    def build(self, context: _Reading) -> Constraint:
        bounds = (self.at_least, self.at_most)
        constraint = Constraint(self.name, self.operator, *bounds, self.forbid, self.during, self.time_zone)
        context.refuse_second(constraint, self.node)
        return constraint


class RuleFileForm(Form[RulePolicy]):
    noun = "a rule file"
    synonyms: ClassVar = {"limits": "constraints"}
    when_empty = "expected 'rules:' or 'constraints:' with a list under it"
    model_config = ConfigDict(json_schema_extra={"anyOf": _any_of("rules", "constraints")})

    version: Annotated[int, only_version(VERSION)] = key("The version of this format.", VERSION)
    metrics: tuple[OwnMetric, ...] = key("Names of metrics of your own that rules refer to.", ())
    rules: tuple[RuleForm, ...] = key("When to scale which operator, and how far.", ())
    constraints: tuple[ConstraintForm, ...] = key("What holds whatever the policy decides.", ())

    def build(self, context: _Reading) -> RulePolicy:
        if self.node and not self.node.keys() & {"rules", "constraints"}:
            raise InputError("neither 'rules' nor 'constraints' is there; expected at least one of them.")
        rules = tuple(form.built for form in self.rules)
        # Metrics known outside of the file become the policy's own: it is complete by itself.
        used = {trigger.metric for rule in rules for trigger in rule.triggers}
        outside = sorted(used & set(context.known.metrics) - set(self.metrics))
        return RulePolicy(rules, tuple(form.built for form in self.constraints), (*self.metrics, *outside))


# ---------------------------------------------------------------------------------------------------------- from a text


def read_policy(document: Document, known: Known | None = None) -> RulePolicy:
    """The policy that a document describes."""
    known = known or Known()
    return document.read(RuleFileForm, _Reading(known, set(known.metrics)))


def from_yaml(text: str, source: str = "rules", known: Known | None = None) -> RulePolicy:
    """The policy in a text; ``source`` is what errors call it, such as the file's name."""
    return read_policy(documents.parse(text, source), known)


def from_json(text: str, source: str = "rules.json", known: Known | None = None) -> RulePolicy:
    """The policy in a text of JSON: the same keys and values as in YAML."""
    return read_policy(documents.parse(text, source, is_json=True), known)


def json_schema() -> dict[str, Any]:
    """The JSON schema of rule files.

    >>> json_schema()["$defs"]["rule"]["required"]
    ['name', 'by', 'when']
    """
    return documents.json_schema(RuleFileForm, "Scaling rules of Headgate")


# ------------------------------------------------------------------------------------------------------------ to a text


def to_json(policy: RulePolicy) -> str:
    """Text that reads back as the same policy."""
    return json.dumps(to_plain(policy), indent=2, ensure_ascii=False) + "\n"


def to_yaml(policy: RulePolicy) -> str:
    """Text that reads back as the same policy."""
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.allow_unicode = True
    writer.width = 10_000
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    writer.dump(to_plain(policy), out)
    return out.getvalue()


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
    if rule.fires_on is not FiresOn.LEVEL:
        plain["trigger"] = rule.fires_on.value
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
