"""Reading what was written key by key, with every mistake of a file found in one go; for rule files and others."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from headgate.core.errors import InputError
from headgate.core.units import parse_duration_s
from headgate.rules.keys import Key
from headgate.rules.nodes import Mapping as MappingNode
from headgate.rules.nodes import Node, Problem, Scalar, ScalarKind, described
from headgate.rules.nodes import Sequence as SequenceNode

T = TypeVar("T")
Fields: TypeAlias = dict[str, tuple[Scalar, Node]]
"""The keys of a mapping with their values, as they were written."""


class FieldReader:
    """Collects problems while a subclass reads.

    - ``meant``: what people who know other systems may write, and the key that does it here
    - ``known_keys``: whose help says what was expected
    """

    def __init__(self, source: str, meant: Mapping[str, str], known_keys: Sequence[Mapping[str, Key]]) -> None:
        self._source = source
        self._meant = meant
        self._known_keys = known_keys
        self._problems: list[Problem] = []

    def _fields(self, node: Node, what: str, keys: Mapping[str, Key]) -> Fields:
        if not isinstance(node, MappingNode):
            listed = ", ".join(keys)
            self._problem(node, f"found {described(node)}, expected {what} with keys such as {listed}.")
            return {}
        fields: Fields = {}
        for key, value in node.entries:
            if not isinstance(key, Scalar):
                self._problem(key, f"found {described(key)} as a key, expected one of {', '.join(keys)}.")
            elif key.text not in keys:
                self._problem(key, _unknown_key(key.text, what, keys, self._meant))
            elif key.text in fields:
                line = fields[key.text][0].position.line
                self._problem(key, f"{key.text}: found a second time, expected once; the first is in line {line}.")
            else:
                fields[key.text] = (key, value)
        for name, key_of in keys.items():
            if key_of.required and name not in fields and not _nearly_there(name, node, self._meant):
                self._problem(node, f"{name} is missing in {what}: {_lower_first(key_of.help)}")
        return fields

    def _list(self, fields: Fields, key: str, read: Callable[[Node], T | None]) -> list[T]:
        if key not in fields:
            return []
        node = fields[key][1]
        if not isinstance(node, SequenceNode):
            self._problem(node, f"{key}: found {described(node)}, expected a list, each item after a dash.")
            return []
        return [item for one in node.items if (item := read(one)) is not None]

    def _value(self, fields: Fields, key: str, parse: Callable[[object], T]) -> T | None:
        return self._scalar(fields[key][1], key, parse) if key in fields else None

    def _scalar(self, node: Node, key: str, parse: Callable[[object], T]) -> T | None:
        if not isinstance(node, Scalar) or node.kind in (ScalarKind.NOTHING, ScalarKind.BOOLEAN):
            self._problem(node, f"{key}: found {described(node)}, expected {self._expected(key)}.")
            return None
        return self._made(node, lambda: parse(node.text), key)

    def _duration(self, fields: Fields, key: str) -> float | None:
        return self._value(fields, key, lambda text: parse_duration_s(str(text)))

    def _version(self, fields: Fields, version: int) -> None:
        node = fields["version"][1] if "version" in fields else None
        if node is None or (isinstance(node, Scalar) and (node.kind, node.text) == (ScalarKind.NUMBER, str(version))):
            return
        self._problem(node, f"version: found {described(node)}, expected {version}, the only version there is.")

    def _plain(self, fields: Fields, key: str) -> dict[str, str]:
        """A mapping of names to plain values, as text."""
        if key not in fields:
            return {}
        node = fields[key][1]
        if not isinstance(node, MappingNode):
            self._problem(node, f"{key}: found {described(node)}, expected names and values.")
            return {}
        found: dict[str, str] = {}
        for name, value in node.entries:
            if isinstance(name, Scalar) and isinstance(value, Scalar) and value.kind is not ScalarKind.NOTHING:
                found[name.text] = value.text
            else:
                self._problem(value, f"{key}: found {described(value)}, expected a plain value.")
        return found

    def _text(self, node: Node, key: str, expected: str) -> str | None:
        if isinstance(node, Scalar) and node.kind is ScalarKind.TEXT:
            return node.text
        quoted = "; put it in quotes" if isinstance(node, Scalar) and node.kind is not ScalarKind.NOTHING else ""
        self._problem(node, f"{key}: found {described(node)}, expected {expected}{quoted}.")
        return None

    def _expected(self, key: str) -> str:
        for keys in self._known_keys:
            if key in keys:
                return _lower_first(keys[key].help).rstrip(".")
        return "a value"

    def _made(self, node: Node, make: Callable[[], T], key: str = "") -> T | None:
        try:
            return make()
        except InputError as error:
            self._problem(node, f"{key}: {error}" if key else str(error))
            return None

    def _problem(self, node: Node, message: str) -> None:
        self._problems.append(Problem(self._source, node.position, message))


def whole_number(text: object, least: int) -> int:
    if not str(text).isdecimal() or len(str(text)) > 9 or int(str(text)) < least:
        raise InputError(f"found {text!r}, expected a whole number of at least {least}.")
    return int(str(text))


def number_not_negative(text: object) -> float:
    try:
        number = float(str(text))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise InputError(f"found {text!r}, expected a number that is not negative.")
    return number


def _unknown_key(found: str, what: str, keys: Mapping[str, Key], meanings: Mapping[str, str]) -> str:
    plain = found.strip().lower().replace("-", "_").replace(" ", "_")
    meant = meanings.get(plain)
    close = [plain] if plain in keys else difflib.get_close_matches(plain, list(keys), n=1, cutoff=0.6)
    likely = close[0] if close else meant if meant in keys else None
    hint = f", did you mean {likely!r}?" if likely else ";"
    shown = found if len(found) <= 60 else f"{found[:60]}…"
    return f"unknown key {shown!r} in {what}{hint} expected one of {', '.join(keys)}."


def _nearly_there(name: str, node: MappingNode, meanings: Mapping[str, str]) -> bool:
    """A key that was only misspelt has been complained about already."""
    for key, _ in node.entries:
        text = key.text.lower().replace("-", "_") if isinstance(key, Scalar) else ""
        if meanings.get(text) == name or difflib.SequenceMatcher(None, text, name).ratio() >= 0.6:
            return True
    return False


def _lower_first(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"
