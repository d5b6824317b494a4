"""YAML nodes."""

from __future__ import annotations

import io
import warnings
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, MarkedYAMLWarning, YAMLError, YAMLWarning
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

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

_KINDS = {
    "tag:yaml.org,2002:int": ScalarKind.NUMBER,
    "tag:yaml.org,2002:float": ScalarKind.NUMBER,
    "tag:yaml.org,2002:bool": ScalarKind.BOOLEAN,
    "tag:yaml.org,2002:null": ScalarKind.NOTHING,
}
_DEEPEST = 50
"""Levels of nesting; a rule file has five."""


def yaml_nodes(text: str, source: str) -> Node:
    """What is written in a text, with positions; syntax errors are told like all others."""
    if len(text) > LONGEST_TEXT:
        raise _error(source, Position(1, 1), f"the file has {len(text)} characters; at most {LONGEST_TEXT} are read.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", YAMLWarning)
            root = YAML(pure=True).compose(io.StringIO(text))
    except (MarkedYAMLError, MarkedYAMLWarning) as error:
        mark = error.problem_mark or error.context_mark
        at = Position(1, 1) if mark is None else _position(mark)
        raise _error(source, at, _syntax(error)) from error
    except (YAMLError, YAMLWarning) as error:
        raise _error(source, _position_in(text, error), f"this is not YAML: {_first_line(error)}.") from error
    except RecursionError as error:
        raise _error(source, Position(1, 1), "this is nested too deeply.") from error
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, NotImplementedError, OverflowError) as error:
        # What the parser itself stumbles over; its author did not foresee such a file either.
        raise _error(source, Position(1, 1), f"this is not YAML: {_first_line(error)}.") from error
    if root is None:
        return Scalar(Position(1, 1), ScalarKind.NOTHING, "")
    return _Converter(source).node(root)


class _Converter:
    """Each node is converted once, however many aliases point to it: a small file cannot grow without bounds."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._done: dict[int, Node] = {}

    def node(self, node: Any, depth: int = 0) -> Node:
        if id(node) not in self._done:
            self._done[id(node)] = self._converted(node, depth)
        return self._done[id(node)]

    def _entry(self, key: Any, value: Any, depth: int) -> tuple[Node, Node]:
        if isinstance(value, ScalarNode) and not value.value and value.start_mark.index == value.end_mark.index:
            # Nothing stands there; the parser would point to the next line.
            return self.node(key, depth), Scalar(_position(key.end_mark), ScalarKind.NOTHING, "")
        return self.node(key, depth), self.node(value, depth)

    def _converted(self, node: Any, depth: int) -> Node:
        at = _position(node.start_mark)
        if depth > _DEEPEST:  # An alias to itself ends here too.
            raise _error(self._source, at, "this is nested too deeply.")
        if isinstance(node, MappingNode):
            return Mapping(at, tuple(self._entry(key, value, depth + 1) for key, value in node.value))
        if isinstance(node, SequenceNode):
            return Sequence(at, tuple(self.node(item, depth + 1) for item in node.value))
        assert isinstance(node, ScalarNode)
        return Scalar(at, _KINDS.get(str(node.tag), ScalarKind.TEXT), node.value)


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _syntax(error: MarkedYAMLError | MarkedYAMLWarning) -> str:
    problem = " ".join(str(error.problem or error.context or "").split())
    if "\\t" in problem or "'\t'" in problem:
        return "this is not YAML: found a tab, expected spaces for indentation."
    context = " ".join(str(error.context).split()) if error.context and error.problem else ""
    hints = {
        "mapping values are not allowed here": "; is there a ':' too much, or a text that needs quotes?",
        "could not find expected ':'": "; is a ':' missing after a key?",
        "expected <block end>": "; is the indentation the same as in the lines around it?",
        "undefined alias": '; a "*" for all operators needs quotes.',
        "while scanning an alias": '; a "*" for all operators needs quotes.',
        "found unexpected end of stream": "; is a quote or a bracket not closed?",
    }
    told = f"this is not YAML: {problem}{f' ({context})' if context else ''}"
    hint = next((words for sign, words in hints.items() if sign in told), ".")
    return f"{told}{hint}"


def _position_in(text: str, error: YAMLError | YAMLWarning) -> Position:
    """Where a character stands that must not be there."""
    index = getattr(error, "position", None)
    if not isinstance(index, int):
        return Position(1, 1)
    before = text[:index]
    return Position(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _error(source: str, at: Position, message: str) -> RuleErrors:
    return RuleErrors(source, [Problem(source, at, message)])
