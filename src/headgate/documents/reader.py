"""Read a document: parse the text, validate it by a form, and give every mistake its line and column."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, MarkedYAMLWarning, YAMLError, YAMLWarning
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from headgate.core.errors import InputError, cause_of
from headgate.documents.form import AT_KEY, Form
from headgate.documents.nodes import Mapping, Node, Position, Scalar, ScalarKind, Sequence, described

MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake and its position."""

    source: str
    position: Position
    message: str

    def __str__(self) -> str:
        return f"{self.source}:{self.position.line}:{self.position.column}: {self.message}"


class DocumentError(InputError):
    """Everything that is wrong with one document, in the order of the lines."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda problem: problem.position))
        shown = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        if len(self.problems) > MOST_SHOWN:
            shown.append(f"{source}: and {len(self.problems) - MOST_SHOWN} more.")
        head = [] if len(shown) == 1 else [f"{source} has {len(self.problems)} errors:"]
        super().__init__("\n".join([*head, *shown]))


LONGEST_TEXT = 2_000_000
"""Characters of a document; thousands of rules are shorter."""
_DEEPEST = 50
"""Levels of nesting; a rule file has five."""
_START = Position(1, 1)
_KINDS = {
    "tag:yaml.org,2002:int": ScalarKind.NUMBER,
    "tag:yaml.org,2002:float": ScalarKind.NUMBER,
    "tag:yaml.org,2002:bool": ScalarKind.BOOLEAN,
    "tag:yaml.org,2002:null": ScalarKind.NOTHING,
}
_JSON_TEXT_OR_TAB = re.compile(r'"(?:\\.|[^"\\])*"|\t')


def parse_nodes(text: str, source: str, *, is_json: bool) -> tuple[Node, list[Problem]]:
    """The root of a document and the problems of its keys; text that is not YAML (JSON) is a ``DocumentError``."""
    if len(text) > LONGEST_TEXT:
        raise _error(source, _START, f"the file has {len(text)} characters; at most {LONGEST_TEXT} are read.")
    if is_json:
        text = _checked_json(text, source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", YAMLWarning)
            root = YAML(pure=True).compose(io.StringIO(text))
    except (MarkedYAMLError, MarkedYAMLWarning) as error:
        mark = error.problem_mark or error.context_mark
        at = _START if mark is None else _position(mark)
        raise _error(source, at, _syntax(error)) from error
    except (YAMLError, YAMLWarning) as error:
        raise _error(source, _position_in(text, error), f"this is not YAML: {_first_line(error)}.") from error
    except RecursionError as error:
        raise _error(source, _START, "this is nested too deeply.") from error
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, NotImplementedError, OverflowError) as error:
        # Defects of the parser itself on input that its author did not foresee.
        raise _error(source, _START, f"this is not YAML: {_first_line(error)}.") from error
    if root is None:
        return Scalar(_START, ScalarKind.NOTHING, ""), []
    converter = _Converter(source)
    return converter.node(root), converter.problems


def _checked_json(text: str, source: str) -> str:
    """JSON as YAML takes it: tabs between values become spaces, so that all columns stay."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as error:
        message = f"this is not JSON: {error.msg[:1].lower()}{error.msg[1:]}."
        raise _error(source, Position(error.lineno, error.colno), message) from error
    except RecursionError as error:
        raise _error(source, _START, "this is nested too deeply.") from error
    return _JSON_TEXT_OR_TAB.sub(lambda match: " " if match.group() == "\t" else match.group(), text)


class _Converter:
    """Converts each parsed node once, however many aliases point to it, so that a small file cannot grow."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._converted: dict[int, Node] = {}
        self.problems: list[Problem] = []

    def node(self, parsed: Any, depth: int = 0) -> Node:
        if id(parsed) not in self._converted:
            self._converted[id(parsed)] = self._convert(parsed, depth)
        return self._converted[id(parsed)]

    def _convert(self, parsed: Any, depth: int) -> Node:
        at = _position(parsed.start_mark)
        if depth > _DEEPEST:  # An alias to itself ends here too.
            raise _error(self._source, at, "this is nested too deeply.")
        if isinstance(parsed, MappingNode):
            return self._mapping(parsed, at, depth + 1)
        if isinstance(parsed, SequenceNode):
            sequence = Sequence(at)
            sequence.extend(self.node(item, depth + 1) for item in parsed.value)
            return sequence
        assert isinstance(parsed, ScalarNode)
        return Scalar(at, _KINDS.get(str(parsed.tag), ScalarKind.TEXT), parsed.value)

    def _mapping(self, parsed: MappingNode, at: Position, depth: int) -> Mapping:
        mapping = Mapping(at)
        for parsed_key, parsed_value in parsed.value:
            key = self.node(parsed_key, depth)
            if isinstance(parsed_value, ScalarNode) and not parsed_value.value and _is_empty(parsed_value):
                # Nothing is written there; the parser would point to the next line.
                value: Node = Scalar(_position(parsed_key.end_mark), ScalarKind.NOTHING, "")
            else:
                value = self.node(parsed_value, depth)
            if not isinstance(key, Scalar):
                self._problem(key.position, f"found {described(key)} as a key, expected text.")
            elif key.text in mapping:
                line = mapping.key_positions[key.text].line
                self._problem(
                    key.position, f"{key.text}: found a second time, expected once; the first is in line {line}."
                )
            else:
                mapping[key.text] = value
                mapping.key_positions[key.text] = key.position
        return mapping

    def _problem(self, at: Position, message: str) -> None:
        self.problems.append(Problem(self._source, at, message))


def _is_empty(parsed: ScalarNode) -> bool:
    return bool(parsed.start_mark.index == parsed.end_mark.index)


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
        "but got '<stream end>'": "; is a quote or a bracket not closed?",
        "found unexpected end of stream": "; is a quote or a bracket not closed?",
    }
    message = f"this is not YAML: {problem}{f' ({context})' if context else ''}"
    hint = next((words for sign, words in hints.items() if sign in message), ".")
    return f"{message}{hint}"


def _position_in(text: str, error: YAMLError | YAMLWarning) -> Position:
    """The position of a character that is not allowed."""
    index = getattr(error, "position", None)
    if not isinstance(index, int):
        return _START
    before = text[:index]
    return Position(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _error(source: str, at: Position, message: str) -> DocumentError:
    return DocumentError(source, [Problem(source, at, message)])


T = TypeVar("T")


@dataclass(frozen=True)
class Document:
    """A parsed document; ``source`` is what errors call it, such as the file's name."""

    source: str
    root: Node
    problems: tuple[Problem, ...]

    def read(self, form: type[Form[T]], context: object = None) -> T:
        """The object that the document describes; raises a ``DocumentError`` with everything that is wrong."""
        if isinstance(self.root, Scalar) and self.root.is_nothing:
            message = f"the file is empty; {form.when_empty}."
            raise DocumentError(self.source, [Problem(self.source, self.root.position, message)])
        problems = list(self.problems)
        made: Form[T] | None = None
        try:
            made = form.model_validate(self.root, context=context)
        except ValidationError as error:
            problems += [
                Problem(self.source, _locate(self.root, found["loc"], at_key=found["type"] == AT_KEY), found["msg"])
                for found in error.errors(include_url=False, include_input=False)
            ]
        if made is None or problems:
            raise DocumentError(self.source, problems)
        return made.built


def parse(text: str, source: str, *, is_json: bool | None = None) -> Document:
    """A document of YAML, or of JSON: by default, where the source ends in ``.json``."""
    is_json = source.lower().endswith(".json") if is_json is None else is_json
    root, problems = parse_nodes(text, source, is_json=is_json)
    return Document(source, root, tuple(problems))


def read(text: str, form: type[Form[T]], source: str, context: object = None) -> T:
    """The object that a text describes; raises a ``DocumentError`` with everything that is wrong."""
    return parse(text, source).read(form, context)


def read_text(path: Path, what: str = "") -> str:
    """The text of a file; ``what`` is what errors call it before its name."""
    named = f"{what} {path}".lstrip()
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{named} is not text in UTF-8: {error.reason} at byte {error.start}.") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{named} cannot be read: {cause_of(error)}.") from error


def _locate(root: Node, path: tuple[Any, ...], *, at_key: bool) -> Position:
    """The position of the value at a path, or of its key."""
    node, of_key = root, root.position
    for part in path:
        if isinstance(node, Mapping) and part in node:
            of_key = node.key_positions[part]
            node = node[part]
        elif isinstance(node, Sequence) and isinstance(part, int):
            node = node[part]
            of_key = node.position
        # Else a single value stands for a list of one, or it is the key itself that is wrong ("[key]").
    return of_key if at_key or path[-1:] == ("[key]",) else node.position
