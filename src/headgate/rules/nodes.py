"""A rule file as it was written: values with their positions, and what is wrong with them, all at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from headgate.documents import DocumentError as RuleErrors
from headgate.documents import Position, Problem

__all__ = ["Position", "Problem", "RuleErrors"]
LONGEST_TEXT = 2_000_000
"""Characters of a rule file; far more than thousands of rules take."""


class ScalarKind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Scalar:
    position: Position
    kind: ScalarKind
    text: str
    """As written, without quotes."""


@dataclass(frozen=True, slots=True)
class Mapping:
    position: Position
    entries: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    position: Position
    items: tuple[Node, ...]


Node: TypeAlias = Scalar | Mapping | Sequence


def described(node: Node) -> str:
    """What was found, for a message."""
    match node:
        case Mapping(entries=entries):
            return "keys and values" if entries else "nothing"
        case Sequence(items=items):
            return "a list" if items else "an empty list"
        case Scalar(kind=ScalarKind.NOTHING):
            return "nothing"
        case Scalar(text=text):
            shown = text if len(text) <= 60 else f"{text[:60]}…"
            return repr(shown)
