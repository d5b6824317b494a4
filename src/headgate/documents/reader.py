"""Read a document: parse the text, validate it by a form, and give every mistake its line and column."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from headgate.core.errors import InputError, cause_of
from headgate.documents.errors import DocumentError, Problem
from headgate.documents.form import AT_KEY, Form
from headgate.documents.nodes import Mapping, Node, Position, Scalar, Sequence
from headgate.documents.text import parse_nodes

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
