"""The few forms of Helm's templates that our chart uses, rendered without Helm.

Values by their path, ``quote``, ``default``, ``toYaml … | indent N``, ``if``, ``else`` and ``end``, and the dash that
takes away the blanks before an action. Anything else is an error, so that the chart stays within what is tested.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

_ACTION = re.compile(r"(\s*)\{\{(-?)\s*(.*?)\s*\}\}", re.DOTALL)


def render(template: str, context: Mapping[str, Any]) -> str:
    """A template with its actions carried out."""
    output: list[str] = []
    shown = [True]
    """Whether each block that is open is shown."""
    taken: list[bool] = []
    at = 0
    for action in _ACTION.finditer(template):
        if all(shown):
            output.append(template[at : action.start()] + ("" if action[2] else action[1]))
        at = action.end()
        words = action[3]
        if words.startswith("if "):
            taken.append(bool(_value(words[3:], context)))
            shown.append(taken[-1])
        elif words == "else":
            shown[-1] = not taken[-1]
        elif words == "end":
            shown.pop()
            taken.pop()
        elif all(shown):
            output.append(str(_value(words, context)))
    assert len(shown) == 1, "a block is not ended"
    return "".join(output) + template[at:]


def _value(words: str, context: Mapping[str, Any]) -> Any:
    first, *pipes = (part.strip() for part in words.split("|"))
    if first.startswith("toYaml "):
        value: Any = _to_yaml(_path(first.removeprefix("toYaml "), context))
    else:
        value = _path(first, context)
    for pipe in pipes:
        name, _, argument = pipe.partition(" ")
        if name == "quote":
            value = json.dumps(str(value))
        elif name == "default":
            value = value or _path(argument, context)
        elif name == "indent":
            value = "\n".join(" " * int(argument) + line for line in str(value).splitlines())
        else:
            raise ValueError(f"{pipe!r} is not a form that is rendered here")
    return value


def _path(path: str, context: Mapping[str, Any]) -> Any:
    if not re.fullmatch(r"(\.\w+)+", path):
        raise ValueError(f"{path!r} is not a path of values")
    value: Any = context
    for name in path[1:].split("."):
        value = value[name]
    return value


def _to_yaml(value: Any) -> str:
    written = io.StringIO()
    YAML(typ="safe").dump(value, written)
    return written.getvalue()
