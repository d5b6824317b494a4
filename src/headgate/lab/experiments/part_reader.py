"""What the parts of an experiment file have in common: names that differ, short forms, files that are named."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headgate.core.errors import InputError
from headgate.documents.nodes import Position
from headgate.lab.experiments.keys import (
    BATCH_KEYS,
    FILE_KEYS,
    JOB_KEYS,
    MEANT,
    OBJECTIVE_KEYS,
    POLICY_KEYS,
    WORKLOAD_KEYS,
)
from headgate.lab.experiments.model import JobPart, LoadPart, ObjectivePart, PolicyPart
from headgate.rules.fields import FieldReader, Fields, number_not_negative
from headgate.rules.keys import Key
from headgate.rules.nodes import Mapping as MappingNode
from headgate.rules.nodes import Node, Scalar, ScalarKind, described
from headgate.rules.nodes import Sequence as SequenceNode

_LONGEST_NAME = 60
P = TypeVar("P", LoadPart, JobPart, PolicyPart, ObjectivePart)


class PartReader(FieldReader):
    """Reads keys and values of parts; a subclass knows which there are."""

    def __init__(self, path: Path) -> None:
        known = (FILE_KEYS, WORKLOAD_KEYS, JOB_KEYS, POLICY_KEYS, OBJECTIVE_KEYS, BATCH_KEYS)
        super().__init__(str(path), MEANT, known)
        self._path = path
        self._folder = path.parent
        self._files: dict[str, str] = {}

    def _parts(self, fields: Fields, key: str, read: Callable[[Node], P | None]) -> tuple[P, ...]:
        """The parts of a list, whose names all differ."""
        listed = fields[key][1] if key in fields else None
        if isinstance(listed, SequenceNode) and not listed.items:
            self._problem(listed, f"{key}: found an empty list, expected at least one.")
        places: dict[str, Position] = {}

        def unique(node: Node) -> P | None:
            part = read(node)
            if part is None:
                return None
            first = places.setdefault(part.name, node.position)
            if first == node.position:
                return part
            where = f"the first is in line {first.line}"
            self._problem(node, f"{key}: {part.name!r} is there twice; give this one a name, {where}.")
            return None

        return tuple(self._list(fields, key, unique))

    def _part_fields(self, node: Node, what: str, keys: dict[str, Key], main: str) -> Fields:
        """The keys of a part; one that is only a text stands for its main key."""
        if isinstance(node, Scalar) and node.kind is ScalarKind.TEXT:
            return {main: (node, node)}
        return self._fields(node, what, keys)

    def _name(self, fields: Fields) -> str | None:
        if "name" not in fields:
            return None
        return self._made(fields["name"][1], lambda: _usable_name(fields["name"][1]))

    def _positive_duration(self, fields: Fields, key: str) -> float | None:
        found = self._duration(fields, key)
        if found == 0:
            self._problem(fields[key][1], f"{key}: found 0 s, expected a time above 0.")
        return found

    def _note_file(self, name: str) -> None:
        self._files[name] = content_hash(self._folder / name)


def content_hash(path: Path) -> str:
    """Tells what is in a file, or in a folder of Parquet parts, which is one load."""
    found = hashlib.sha256()
    for part in sorted(path.rglob("*.parquet")) if path.is_dir() else [path]:
        found.update(part.read_bytes())
    return found.hexdigest()[:16]


def _usable_name(node: Node) -> str:
    if isinstance(node, MappingNode | SequenceNode) or not node.text.strip() or len(node.text) > _LONGEST_NAME:
        raise InputError(f"name: found {described(node)}, expected a text of at most {_LONGEST_NAME} characters.")
    return node.text.strip()


def above_zero(text: object) -> float:
    number = number_not_negative(text)
    if number == 0:
        raise InputError(f"found {text!r}, expected a number above 0.")
    return number
