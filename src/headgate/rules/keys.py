"""The keys of a rule file: what each is for and what may stand there. Reader and schema are both made of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headgate.core.metrics import Aggregation

VERSION = 1
DURATION = {"type": ["string", "number"], "pattern": r"^\s*(\d+(\.\d+)?|\.\d+)\s*(ms|s|m|h|d)?\s*$", "minimum": 0}
_SIZE = {
    "oneOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^\s*([xX×]\s*(\d+(\.\d+)?|\.\d+)|\+?\d+)\s*$"},
    ]
}
_QUANTITY = {"type": ["number", "string"], "pattern": r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*[a-zA-Z%/ ]*$"}
_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_COUNT = {"type": "integer", "minimum": 1}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping; ``schema`` is what a JSON schema says of its value."""

    help: str
    schema: dict[str, Any]
    required: bool = False


FILE_KEYS = {
    "version": Key("The version of this format.", {"const": VERSION}),
    "metrics": Key("Names of metrics of your own that rules refer to.", {"type": "array", "items": _NAME}),
    "rules": Key("When to scale which operator, and how far.", {"type": "array", "items": {"$ref": "#/$defs/rule"}}),
    "constraints": Key(
        "What holds whatever the policy decides.", {"type": "array", "items": {"$ref": "#/$defs/constraint"}}
    ),
}
RULE_KEYS = {
    "name": Key("What decisions and explanations call the rule.", _NAME, required=True),
    "scale_out": Key('The operator to add instances to, or "*" for each of them.', _NAME),
    "scale_in": Key('The operator to remove instances from, or "*" for each of them.', _NAME),
    "by": Key(
        "How far one action goes: 2 instances, or x2 for twice (or half) the present size.", _SIZE, required=True
    ),
    "never_above": Key("The largest size to scale out to: 8, or x4 of the original size.", _SIZE),
    "never_below": Key("The smallest size to scale in to: 2, or x1 of the original size.", _SIZE),
    "when": Key(
        "The conditions; all must hold.",
        {
            "oneOf": [
                {"$ref": "#/$defs/trigger"},
                {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/trigger"}},
            ]
        },
        required=True,
    ),
    "with_no_scale_out_since": Key("Only if the operator was not scaled out for this long, such as 5m.", DURATION),
    "with_no_scale_in_since": Key("Only if the operator was not scaled in for this long, such as 5m.", DURATION),
}
TRIGGER_KEYS = {
    "metric": Key("What is compared, such as backlog, latency or utilization.", _NAME, required=True),
    "above": Key("Beyond this: 300, 300 records, 30 %, 5 s or 300 records/s.", _QUANTITY),
    "below": Key("Under this: 300, 300 records, 30 %, 5 s or 300 records/s.", _QUANTITY),
    "for_at_least": Key(
        "How long it must have been so, such as 30s; 0s for a single reading.", DURATION, required=True
    ),
    "on": Key(
        "Which readings must be so: all readings, average, median or a share such as 90 % of readings.",
        {
            "type": "string",
            "pattern": r"^\s*(all( readings)?|average|median|\d+(\.\d+)?\s*(%|percent) of (the )?readings)\s*$",
        },
    ),
    "over_instances": Key(
        "How the readings of several instances become one.",
        {"enum": [aggregation.value for aggregation in Aggregation]},
    ),
}
CONSTRAINT_KEYS = {
    "name": Key("What decisions and explanations call the constraint.", _NAME, required=True),
    "operator": Key('The operator it is about; "*", for each of them, where not given.', _NAME),
    "at_least": Key("Never fewer instances.", _COUNT),
    "at_most": Key("Never more instances.", _COUNT),
    "forbid": Key("What must not happen.", {"enum": ["scale in", "any scaling"]}),
    "during": Key(
        "When it holds, in the manner of cron, such as * 8-17 * * mon-fri; always, where not given.",
        {"oneOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]},
    ),
    "time_zone": Key("The time zone of 'during', such as Europe/Berlin; UTC where not given.", {"type": "string"}),
}
MEANT = {
    "operator": "scale_out",
    "scaleout": "scale_out",
    "scalein": "scale_in",
    "trigger": "when",
    "triggers": "when",
    "if": "when",
    "conditions": "when",
    "max": "never_above",
    "min": "never_below",
    "for": "for_at_least",
    "duration": "for_at_least",
    "cooldown": "with_no_scale_out_since",
    "greater_than": "above",
    "less_than": "below",
    "over": "above",
    "under": "below",
    "aggregation": "on",
    "statistic": "on",
    "timezone": "time_zone",
    "tz": "time_zone",
    "schedule": "during",
    "cron": "during",
    "step": "by",
    "limits": "constraints",
}
"""What people who know other systems may write, and the key that does it here."""
