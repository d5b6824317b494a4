"""Displays of and clicks on advertisements, with a few fraudulent users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headgate.apps.records import DrawnRecords
from headgate.workloads.draws import draws
from headgate.workloads.payloads import Record

SCHEMA = (
    "number BIGINT NOT NULL, at_ms BIGINT NOT NULL, address STRING NOT NULL, user STRING NOT NULL, kind STRING NOT NULL"
)
_FRAUD = 0.05
"""The share of records of users who click on almost everything, from a few shared addresses."""
_SHARED_ADDRESSES = 20
_CLICKED = 0.1


class Clicks(DrawnRecords):
    """The key is the user.

    >>> from headgate.workloads.draws import Keys
    >>> Clicks(0, Keys(count=1)).records(0, np.array([0]))[0].key
    b'u0'
    """

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        count = len(at_ms)
        fraud, place, click = (draws(self._seed, stream, first, count) for stream in (1, 2, 3))
        users = self._keys.of(first, count)
        frauds = fraud < _FRAUD
        shared = (place * _SHARED_ADDRESSES).astype(np.int64)
        addresses = np.where(frauds, 0xCB007100 + shared, 0x0A000000 + users)
        rows = zip(
            at_ms.tolist(),
            users.tolist(),
            addresses.tolist(),
            np.where(click < np.where(frauds, 0.9, _CLICKED), "click", "display").tolist(),
            strict=True,
        )
        return [
            Record(
                b"u%d" % user,
                f'{{"number":{number},"at_ms":{due_ms},"address":"{_dotted(address)}","user":"u{user}",'
                f'"kind":"{kind}"}}'.encode(),
            )
            for number, (due_ms, user, address, kind) in enumerate(rows, start=first)
        ]


def _dotted(address: int) -> str:
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"
