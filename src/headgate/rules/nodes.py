"""A rule file as it was written: values with their positions, and what is wrong with them, all at once."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from headgate.core.errors import InputError

LONGEST_TEXT = 2_000_000
"""Characters of a rule file; far more than thousands of rules take."""
MOST_PROBLEMS = 100


class Position(NamedTuple):
    """Both count from 1, as editors do."""

    line: int
    column: int


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


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    source: str
    position: Position
    message: str

    def __str__(self) -> str:
        return f"{self.source}:{self.position.line}:{self.position.column}: {self.message}"


class RuleErrors(InputError):
    """Everything that is wrong with a rule file."""

    def __init__(self, source: str, problems: SequenceOf[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda problem: problem.position))
        shown = [str(problem) for problem in self.problems[:MOST_PROBLEMS]]
        if len(self.problems) > MOST_PROBLEMS:
            shown.append(f"{source}: and {len(self.problems) - MOST_PROBLEMS} more.")
        head = [] if len(shown) == 1 else [f"{source} has {len(self.problems)} errors:"]
        super().__init__("\n".join([*head, *shown]))


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
