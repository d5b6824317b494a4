"""The fields of the micro-batch model as an experiment file has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Protocol, TypeVar

from headgate.core.types import JSON
from headgate.core.units import parse_duration_s
from headgate.rules.fields import Fields, number_not_negative, whole_number
from headgate.rules.nodes import Node, Scalar, ScalarKind, Sequence, described
from headgate.simulation.micro_batch import MicroBatch

T = TypeVar("T")
_WHOLE = ("cores", "partitions", "cold_batches")
_PAIRS = tuple(one.name for one in fields(MicroBatch) if isinstance(one.default, tuple))
_SWITCHES = tuple(one.name for one in fields(MicroBatch) if isinstance(one.default, bool))


class ReadValue(Protocol):
    """How a reader of files takes the value of a key."""

    def __call__(self, fields: Fields, key: str, parse: Callable[[object], T], /) -> T | None: ...


def read_batches(given: Fields, value: ReadValue, problem: Callable[[Node, str], None]) -> dict[str, JSON]:
    """What is set, as plain data; durations in seconds, pairs as lists."""
    found: dict[str, JSON] = {}
    for key, (_, node) in given.items():
        read: JSON
        if key in _PAIRS:
            read = _pairs(key, node, problem)
        elif key in _SWITCHES:
            read = _switch(key, node, problem)
        elif key in _WHOLE:
            read = value(given, key, lambda text: whole_number(text, 0))
        elif key.endswith("_s"):
            read = value(given, key, lambda text: parse_duration_s(str(text)))
        else:
            read = value(given, key, number_not_negative)
        if read is not None:
            found[key] = read
    return found


def _switch(key: str, node: Node, problem: Callable[[Node, str], None]) -> bool | None:
    if isinstance(node, Scalar) and node.kind is ScalarKind.BOOLEAN:
        return node.text.lower() == "true"
    problem(node, f"{key}: found {described(node)}, expected true or false.")
    return None


def _pairs(key: str, node: Node, problem: Callable[[Node, str], None]) -> list[list[float]] | None:
    rows = node.items if isinstance(node, Sequence) else ()
    pairs = [_numbers(row) for row in rows]
    if rows and all(len(pair) == 2 for pair in pairs):
        whole = key == "speed_up"
        return [[int(first) if whole else first, second] for first, second in pairs]
    problem(node, f"{key}: found {described(node)}, expected pairs of numbers, as [[1, 1], [4, 3.2]].")
    return None


def _numbers(node: Node) -> list[float]:
    items = node.items if isinstance(node, Sequence) else ()
    if not all(isinstance(item, Scalar) and item.kind is ScalarKind.NUMBER for item in items):
        return []
    return [float(item.text) for item in items if isinstance(item, Scalar)]
