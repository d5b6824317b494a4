"""A JSON schema of rule files, made of the same keys as the reader, so that editors complete and check them.

What a schema cannot say — that a unit fits a metric, that a name is known — the reader does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.rules.keys import Key


def object_schema(keys: Mapping[str, Key]) -> dict[str, Any]:
    """What a schema says of a mapping with these keys."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"description": key.help, **key.schema} for name, key in keys.items()},
        "required": [name for name, key in keys.items() if key.required],
    }
