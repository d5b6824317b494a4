"""How much one caller may ask: a bucket that fills steadily and holds a few seconds' worth."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

BURST_S = 2.0
"""A bucket holds what comes into it in so many seconds."""
MOST_CALLERS = 20_000
"""Of more, those that asked longest ago are forgotten: their buckets are full by then."""


class RateLimit:
    """
    >>> limit = RateLimit(1, lambda: 0.0)
    >>> [limit.admits("a") for _ in range(3)], limit.admits("b")
    ([True, True, False], True)
    """

    def __init__(self, per_s: float, now: Callable[[], float]) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s * BURST_S)
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, caller: str) -> bool:
        """Whether one more request may be made now."""
        now_s = self._now()
        left, seen_s = self._buckets.pop(caller, (self._most, now_s))
        left = min(self._most, left + (now_s - seen_s) * self._per_s)
        admitted = left >= 1.0
        self._buckets[caller] = (left - 1.0 if admitted else left, now_s)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return admitted
