"""A JSON schema of rule files, made of the same keys as the reader, so that editors complete and check them.

What a schema cannot say — that a unit fits a metric, that a name is known — the reader does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.rules.keys import CONSTRAINT_KEYS, FILE_KEYS, RULE_KEYS, TRIGGER_KEYS, Key


def json_schema() -> dict[str, Any]:
    """The schema, as plain data.

    >>> json_schema()["$defs"]["rule"]["required"]
    ['name', 'by', 'when']
    """
    rule = object_schema(RULE_KEYS) | {
        "oneOf": [
            {"required": ["scale_out", "never_above"], "not": {"anyOf": _any_of("scale_in", "never_below")}},
            {"required": ["scale_in"], "not": {"anyOf": _any_of("scale_out", "never_above")}},
        ]
    }
    trigger = object_schema(TRIGGER_KEYS) | {"oneOf": _any_of("above", "below")}
    constraint = object_schema(CONSTRAINT_KEYS) | {
        "anyOf": _any_of("at_least", "at_most", "forbid"),
        "dependentRequired": {"time_zone": ["during"]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scaling rules of Headgate",
        **object_schema(FILE_KEYS),
        "anyOf": _any_of("rules", "constraints"),
        "$defs": {"rule": rule, "trigger": trigger, "constraint": constraint},
    }


def object_schema(keys: Mapping[str, Key]) -> dict[str, Any]:
    """What a schema says of a mapping with these keys."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"description": key.help, **key.schema} for name, key in keys.items()},
        "required": [name for name, key in keys.items() if key.required],
    }


def _any_of(*names: str) -> list[dict[str, Any]]:
    return [{"required": [name]} for name in names]
