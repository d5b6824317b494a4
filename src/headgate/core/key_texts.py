"""``key=value,key=value``: what is said of something that has a name, as a workload or a service model.

>>> key_texts("workload", "ramp:from=1,to=2", "ramp", ("from", "to", "over"), "ramp:from=1,to=2,over=1m", "from=1,to=2")
{'from': '1', 'to': '2'}
"""

from __future__ import annotations

from collections.abc import Collection

from headgate.core.errors import InputError, UnknownNameError


def key_texts(kind: str, spec: str, name: str, keys: Collection[str], example: str, rest: str) -> dict[str, str]:
    """The text given for each key; what has one key may leave it out.

    ``spec`` is the whole of it and ``rest`` what comes after its name.
    """
    if len(keys) == 1 and "=" not in rest:
        return dict.fromkeys(keys, rest)
    values: dict[str, str] = {}
    for part in rest.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise InputError(f"{kind} {spec!r} has {part!r}, which is not key=value; write for example {example}.")
        if key not in keys:
            raise UnknownNameError(f"key of {kind} {name}", key, keys)
        if key in values:
            raise InputError(f"{kind} {spec!r} gives {key} twice; once is allowed.")
        values[key] = value
    return values
