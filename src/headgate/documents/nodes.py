"""The values of a document with their positions: what the parser gives and forms read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from headgate.core.types import JSON

LONGEST_SHOWN = 60
_TRUE = ("true", "yes", "on")


class Position(NamedTuple):
    """Both count from 1, as in editors."""

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
    """The value as written, without quotes: a number keeps its digits."""

    @property
    def is_nothing(self) -> bool:
        return self.kind is ScalarKind.NOTHING


class Mapping(dict[str, "Node"]):
    """Values by key; ``name`` is the key under which a named mapping stands."""

    __slots__ = ("key_positions", "name", "position")

    def __init__(self, position: Position) -> None:
        super().__init__()
        self.position = position
        self.key_positions: dict[str, Position] = {}
        self.name = ""

    @classmethod
    def single(cls, key: str, value: Scalar) -> Mapping:
        """A mapping with one key, which is not written."""
        mapping = cls(value.position)
        mapping[key] = value
        mapping.key_positions[key] = value.position
        return mapping

    def named(self, name: str) -> Mapping:
        """A copy with a name: an alias may stand under several."""
        copy = Mapping(self.position)
        copy.update(self)
        copy.key_positions = self.key_positions
        copy.name = name
        return copy


class Sequence(list["Node"]):
    __slots__ = ("position",)

    def __init__(self, position: Position) -> None:
        super().__init__()
        self.position = position


Node: TypeAlias = Scalar | Mapping | Sequence


def plain(node: object) -> JSON:
    """The value as plain data."""
    match node:
        case Mapping():
            return {name: plain(value) for name, value in node.items()}
        case Sequence():
            return [plain(item) for item in node]
        case Scalar(kind=ScalarKind.NOTHING):
            return None
        case Scalar(kind=ScalarKind.BOOLEAN, text=text):
            return text.lower() in _TRUE
        case Scalar(kind=ScalarKind.NUMBER, text=text):
            return int(text) if text.isdecimal() else _number(text)
        case _:
            return node.text if isinstance(node, Scalar) else node


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:  # a number that only YAML knows, such as 0x1F
        return text


def described(node: object) -> str:
    """What was found, for a message."""
    match node:
        case Mapping():
            return "keys and values" if node else "nothing"
        case Sequence():
            return "a list" if node else "an empty list"
        case Scalar(kind=ScalarKind.NOTHING):
            return "nothing"
        case Scalar(text=text):
            return repr(shortened(text))
        case _:
            return repr(node)


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
