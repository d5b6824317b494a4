"""Short texts of generated words, some with hashtags; ordinary words are the most frequent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headgate.apps.records import DrawnRecords
from headgate.workloads.draws import draws
from headgate.workloads.payloads import Record

SCHEMA = "number BIGINT NOT NULL, at_ms BIGINT NOT NULL, text STRING NOT NULL"
WORDS = 8
"""Words in a text."""
_TEXT = (
    "the river rises and a gate opens before streams of water reach their valley while rain falls "
    "on every hill streaming down into fields where farmers watch it run past mills toward sea"
)
_ORDINARY = _TEXT.split()


class Sentences(DrawnRecords):
    """The key is the first word of the text; the others are drawn from ordinary words."""

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        count = len(at_ms)
        # Squaring makes the first words of the list the most frequent.
        chosen = [
            (draws(self._seed, stream, first, count) ** 2 * len(_ORDINARY)).astype(np.int64).tolist()
            for stream in range(1, WORDS)
        ]
        rows = zip(self._keys.of(first, count).tolist(), at_ms.tolist(), *chosen, strict=True)
        return [
            Record(
                b"word%d" % key,
                f'{{"number":{number},"at_ms":{due_ms},"text":"word{key} '
                f'{" ".join([_ORDINARY[word] for word in words])}"}}'.encode(),
            )
            for number, (key, due_ms, *words) in enumerate(rows, start=first)
        ]


class Messages(DrawnRecords):
    """Messages with hashtags: the key is the first; half of them have a second, and some are capitalised."""

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        count = len(at_ms)
        second, capital, word = (draws(self._seed, stream, first, count) for stream in (1, 2, 3))
        others = np.where(second < 0.5, (second * 2 * self._keys.count).astype(np.int64), -1)
        rows = zip(
            self._keys.of(first, count).tolist(),
            at_ms.tolist(),
            others.tolist(),
            np.where(capital < 0.1, "Tag", "tag").tolist(),
            (word * len(_ORDINARY)).astype(np.int64).tolist(),
            strict=True,
        )
        return [
            Record(
                b"tag%d" % key,
                f'{{"number":{number},"at_ms":{due_ms},"text":"#{name}{key} {_ORDINARY[word]}'
                f'{f" #tag{other}" if other >= 0 else ""}"}}'.encode(),
            )
            for number, (key, due_ms, other, name, word) in enumerate(rows, start=first)
        ]
