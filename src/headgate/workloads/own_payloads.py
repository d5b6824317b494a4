"""Records of one's own: from a template, or from a file of JSON lines that is repeated.

A template is text with these placeholders; all else is sent as it is:

    $number  $key  $at_ms  $at  $random  ${int:1..100}  ${choice:red|green|blue}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError, cause_of
from headgate.workloads.draws import Keys, draws
from headgate.workloads.payloads import Record

PLACEHOLDER = re.compile(r"\$(?:\{(?P<braced>[^}]*)\}|(?P<bare>(?:number|key|at_ms|at|random)\b))")
_FIRST_STREAM = 11
"""The stream of draws for the first random placeholder."""
MOST_LINES = 1_000_000
_Values = Sequence[str]


class TemplatePayloads:
    """Fills a template for each record.

    >>> payloads = TemplatePayloads('{"id": $number, "user": "$key", "colour": "${choice:red|blue}"}', 7, Keys(count=1))
    >>> payloads.records(3, np.array([1_700_000_000_123]))[0].value
    b'{"id": 3, "user": "k0", "colour": "blue"}'
    """

    def __init__(self, template: str, seed: int, keys: Keys) -> None:
        self._keys = keys
        self._parts: list[str] = []
        """The text before each placeholder, and after the last."""
        self._fields: list[Callable[[int, NDArray[np.int64], _Values], _Values]] = []
        end = 0
        for place, found in enumerate(PLACEHOLDER.finditer(template)):
            self._parts.append(template[end : found.start()])
            self._fields.append(_field(found["braced"] or found["bare"] or "", seed, _FIRST_STREAM + place))
            end = found.end()
        self._parts.append(template[end:])

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        keys = [f"k{key}" for key in self._keys.of(first, len(at_ms)).tolist()]
        columns = [field(first, at_ms, keys) for field in self._fields]
        records = []
        for index, key in enumerate(keys):
            text = "".join(part + column[index] for part, column in zip(self._parts, columns, strict=False))
            records.append(Record(key.encode(), (text + self._parts[-1]).encode()))
        return records


def _field(spec: str, seed: int, stream: int) -> Callable[[int, NDArray[np.int64], _Values], _Values]:
    """Return the values of a placeholder for records from a number on."""
    name, _, rest = spec.partition(":")
    if spec == "number":
        return lambda first, at_ms, keys: [str(first + index) for index in range(len(at_ms))]
    if spec == "key":
        return lambda first, at_ms, keys: keys
    if spec == "at_ms":
        return lambda first, at_ms, keys: [str(due_ms) for due_ms in at_ms.tolist()]
    if spec == "at":
        return lambda first, at_ms, keys: [
            datetime.fromtimestamp(due_ms / 1000, UTC).isoformat(timespec="milliseconds") for due_ms in at_ms.tolist()
        ]
    if spec == "random":
        return lambda first, at_ms, keys: [f"{draw:.6f}" for draw in draws(seed, stream, first, len(at_ms))]
    if name == "int" and (bounds := re.fullmatch(r"(-?\d+)\.\.(-?\d+)", rest)):
        lowest, highest = int(bounds[1]), int(bounds[2])
        if lowest <= highest:
            span = highest - lowest + 1
            return lambda first, at_ms, keys: [
                str(lowest + int(draw * span)) for draw in draws(seed, stream, first, len(at_ms))
            ]
    if name == "choice" and rest:
        choices = rest.split("|")
        return lambda first, at_ms, keys: [
            choices[int(draw * len(choices))] for draw in draws(seed, stream, first, len(at_ms))
        ]
    raise InputError(
        f"placeholder ${{{spec}}} is not understood; there are $number, $key, $at_ms, $at, $random, "
        "${int:1..100} and ${choice:red|green}."
    )


class FilePayloads:
    """Sends the lines of a file in their order, again and again."""

    def __init__(self, path: Path, key_field: str | None = None) -> None:
        self._records = _read_lines(path, key_field)

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        count = len(self._records)
        return [self._records[(first + index) % count] for index in range(len(at_ms))]


def _read_lines(path: Path, key_field: str | None) -> list[Record]:
    records = []
    try:
        with path.open("rb") as file:
            lines = list(islice(file, MOST_LINES + 1))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
    if len(lines) > MOST_LINES:
        raise InputError(f"{path} has more than {MOST_LINES:,} lines; at most so many are repeated.")
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        try:
            value = json.loads(text)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: this is not JSON: {error}.") from error
        if key_field is None:
            records.append(Record(None, text))
        elif not isinstance(value, dict) or key_field not in value:
            raise InputError(f"{path}, line {number}: there is no field {key_field!r} for the key.")
        else:
            records.append(Record(str(value[key_field]).encode(), text))
    if not records:
        raise InputError(f"{path} has no record; one JSON value a line is needed.")
    return records


def read_template(text: str) -> str:
    """Return a template as it is, or from a file for ``@FILE``."""
    if not text.startswith("@"):
        return text
    path = Path(text[1:])
    try:
        return path.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
