"""Views of pages: page, user, place and status."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headgate.apps.records import DrawnRecords
from headgate.workloads.draws import draws
from headgate.workloads.payloads import Record

SCHEMA = (
    "number BIGINT NOT NULL, at_ms BIGINT NOT NULL, url STRING NOT NULL, status INT NOT NULL, "
    "zip STRING, user STRING NOT NULL"
)
USERS = 10_000
ZIPS = 100
_STATUSES = np.array([200, 304, 404, 500])
_UP_TO = np.array([0.90, 0.95, 0.99])
"""Nine views in ten succeed."""
_SEARCHED = 0.2
"""The share of addresses with a query string."""


class PageViews(DrawnRecords):
    """The key is the page.

    >>> from headgate.workloads.draws import Keys
    >>> PageViews(0, Keys(count=1)).records(7, np.array([1_700_000_000_000]))[0].key
    b'/page/0'
    """

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        count = len(at_ms)
        status, zips, users, searches = (draws(self._seed, stream, first, count) for stream in (1, 2, 3, 4))
        rows = zip(
            self._keys.of(first, count).tolist(),
            np.where(searches < _SEARCHED, "?from=Search", "").tolist(),
            at_ms.tolist(),
            _STATUSES[np.searchsorted(_UP_TO, status, side="right")].tolist(),
            (zips * ZIPS).astype(np.int64).tolist(),
            (users * USERS).astype(np.int64).tolist(),
            strict=True,
        )
        return [
            Record(
                b"/page/%d" % page,
                f'{{"number":{number},"at_ms":{due_ms},"url":"/page/{page}{question}","status":{code},'
                f'"zip":"{zip_code:05}","user":"u{user}"}}'.encode(),
            )
            for number, (page, question, due_ms, code, zip_code, user) in enumerate(rows, start=first)
        ]
