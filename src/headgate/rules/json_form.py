"""Rules as JSON: the same keys and values as in YAML, the same errors with positions.

>>> policy = from_json('{"constraints": [{"name": "small", "at_most": 4}]}')
>>> policy.constraints[0].at_most, from_json(to_json(policy)) == policy
(4, True)
"""

from __future__ import annotations

import json
import re

from headgate.rules.model import RulePolicy
from headgate.rules.nodes import (
    LONGEST_TEXT,
    Mapping,
    Node,
    Position,
    Problem,
    RuleErrors,
    Scalar,
    ScalarKind,
    Sequence,
)
from headgate.rules.plain import to_plain
from headgate.rules.reading import Known, read_policy

_SPACE = re.compile(r"[ \t\n\r]*")
_WORD = re.compile(r"[-+.0-9a-zA-Z]+")
_DEEPEST = 50
_DECODER = json.JSONDecoder()


def from_json(text: str, source: str = "rules", known: Known | None = None) -> RulePolicy:
    """The policy in a text; ``source`` is what errors call it, such as the file's name."""
    return read_policy(json_nodes(text, source), source, known)


def to_json(policy: RulePolicy) -> str:
    """Text that reads back as the same policy."""
    return json.dumps(to_plain(policy), indent=2, ensure_ascii=False) + "\n"


def json_nodes(text: str, source: str) -> Node:
    """What is written in a text, with positions; syntax errors are told like all others."""
    if len(text) > LONGEST_TEXT:
        message = f"the file has {len(text)} characters; at most {LONGEST_TEXT} are read."
        raise RuleErrors(source, [Problem(source, Position(1, 1), message)])
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as error:
        message = f"this is not JSON: {error.msg[:1].lower()}{error.msg[1:]}."
        raise RuleErrors(source, [Problem(source, Position(error.lineno, error.colno), message)]) from error
    except RecursionError as error:
        message = "this is nested too deeply."
        raise RuleErrors(source, [Problem(source, Position(1, 1), message)]) from error
    return _Scanner(text, source).node()


class _Scanner:
    """Walks through text that is known to be JSON, to find out where its values stand."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._index = 0
        self._line = 1
        self._line_start = 0
        self._counted = 0

    def node(self, depth: int = 0) -> Node:
        at = self._position(self._next())
        if depth > _DEEPEST:
            message = "this is nested too deeply."
            raise RuleErrors(self._source, [Problem(self._source, at, message)])
        opening = self._text[self._index]
        if opening == "{":
            return Mapping(at, tuple(self._entries(depth)))
        if opening == "[":
            return Sequence(at, tuple(self._items(depth)))
        if opening == '"':
            return self._string()
        match = _WORD.match(self._text, self._index)
        assert match is not None
        self._index = match.end()
        word = match.group()
        kinds = {"true": ScalarKind.BOOLEAN, "false": ScalarKind.BOOLEAN, "null": ScalarKind.NOTHING}
        return Scalar(at, kinds.get(word, ScalarKind.NUMBER), word)

    def _entries(self, depth: int) -> list[tuple[Node, Node]]:
        entries: list[tuple[Node, Node]] = []
        while self._goes_on("}"):
            self._next()
            key = self._string()
            self._next()
            self._index += 1  # the colon
            entries.append((key, self.node(depth + 1)))
        return entries

    def _items(self, depth: int) -> list[Node]:
        items: list[Node] = []
        while self._goes_on("]"):
            items.append(self.node(depth + 1))
        return items

    def _goes_on(self, end: str) -> bool:
        """Step over what opens or separates; whether another item follows it."""
        index = self._next()
        if self._text[index] == end:
            self._index += 1
            return False
        self._index += 1
        if self._text[self._next()] == end:
            self._index += 1
            return False
        return True

    def _string(self) -> Scalar:
        at = self._position(self._index)
        value, self._index = _DECODER.raw_decode(self._text, self._index)
        return Scalar(at, ScalarKind.TEXT, value)

    def _next(self) -> int:
        match = _SPACE.match(self._text, self._index)
        assert match is not None
        self._index = match.end()
        return self._index

    def _position(self, index: int) -> Position:
        # Positions are asked for in order, so every line is counted once.
        lines = self._text.count("\n", self._counted, index)
        if lines:
            self._line += lines
            self._line_start = self._text.rfind("\n", self._counted, index) + 1
        self._counted = index
        return Position(self._line, index - self._line_start + 1)
