"""How long a query is down when its plan is changed, as it was measured; guessed before that.

>>> pauses = Pauses()
>>> pauses.expected_s(repartitions=True)
10.0
>>> pauses.add(True, 4.0)
>>> pauses.expected_s(repartitions=True)
4.0
"""

from __future__ import annotations

from collections import deque
from statistics import median

GUESSED_RESTART_S = 3.0
GUESSED_REPARTITION_S = 10.0
KEPT = 5
"""Newest pauses of a kind that count: state grows."""


class Pauses:
    def __init__(self) -> None:
        self._known: dict[bool, deque[float]] = {True: deque(maxlen=KEPT), False: deque(maxlen=KEPT)}

    def add(self, repartitions: bool, seconds: float) -> None:
        self._known[repartitions].append(seconds)

    def expected_s(self, *, repartitions: bool) -> float:
        known = self._known[repartitions]
        if known:
            return float(median(known))
        return GUESSED_REPARTITION_S if repartitions else GUESSED_RESTART_S
