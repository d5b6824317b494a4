"""Frozen values of many fields, made in a fraction of the time.

Whoever makes a frozen dataclass pays for each field that it is closed already while it is being filled. Here one is
filled while it is open and closed afterwards; what comes out is of the same class, and as frozen as any other.

>>> from headgate.core.types import Target
>>> quickly(Target)(2, code="steady", reason="enough") == Target(2, "steady", "enough")
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, make_dataclass
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def quickly(kind: Callable[P, T]) -> Callable[P, T]:
    """What a frozen dataclass with slots does when it is called, for those that are made at every cycle."""
    given = fields(kind)  # type: ignore[arg-type] # a class, of which only the call matters to its type here
    same = [(one.name, object, field(default=one.default, default_factory=one.default_factory)) for one in given]

    def close(made: object) -> None:
        # Python allows it because both have the same slots, and nothing else.
        made.__class__ = kind  # type: ignore[assignment]

    # Closed as the last thing that is done when one is made: what comes out is of the class that was asked for.
    return make_dataclass(f"Open{getattr(kind, '__name__', '')}", same, slots=True, namespace={"__post_init__": close})
