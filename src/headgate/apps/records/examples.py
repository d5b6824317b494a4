"""Labelled examples of a concept that a tree can learn: the first attribute selects the deciding one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headgate.apps.records import DrawnRecords
from headgate.workloads.draws import draws
from headgate.workloads.payloads import Record

ATTRIBUTES = 8
SCHEMA = "number BIGINT NOT NULL, at_ms BIGINT NOT NULL, attributes ARRAY<DOUBLE> NOT NULL, label INT NOT NULL"
NOISE = 0.02
"""The share of labels that are wrong."""


class Examples(DrawnRecords):
    """Records have no key, so the skew of keys is not used."""

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        count = len(at_ms)
        drawn = [draws(self._seed, stream, first, count).round(6) for stream in range(1, ATTRIBUTES + 1)]
        labels = np.where(drawn[0] > 0.6, drawn[1] > 0.3, drawn[2] > 0.8)
        wrong = draws(self._seed, ATTRIBUTES + 1, first, count) < NOISE
        rows = zip(at_ms.tolist(), np.column_stack(drawn).tolist(), (labels ^ wrong).astype(int).tolist(), strict=True)
        return [
            Record(None, f'{{"number":{number},"at_ms":{due_ms},"attributes":{attributes},"label":{label}}}'.encode())
            for number, (due_ms, attributes, label) in enumerate(rows, start=first)
        ]
