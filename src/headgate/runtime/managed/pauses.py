"""How long a query is down when its plan is changed, as it was measured; guessed before that.

>>> pauses = Pauses()
>>> pauses.expected_s(repartitions=True)
10.0
>>> pauses.add(4.0, repartitions=True)
>>> pauses.expected_s(repartitions=True)
4.0
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from statistics import median
from types import MappingProxyType

GUESSED_RESTART_S = 3.0
GUESSED_REPARTITION_S = 10.0
KEPT = 5
"""Newest pauses of a kind that count: state grows."""


class Pauses:
    """The newest pauses of either kind: those in which state was repartitioned, and the others."""

    def __init__(self, known_s: Mapping[bool, Sequence[float]] = MappingProxyType({})) -> None:
        self._known = {kind: deque(known_s.get(kind, ()), maxlen=KEPT) for kind in (True, False)}

    def add(self, seconds: float, *, repartitions: bool) -> None:
        self._known[repartitions].append(seconds)

    def known_s(self, *, repartitions: bool) -> tuple[float, ...]:
        """Those that were measured, oldest first."""
        return tuple(self._known[repartitions])

    def expected_s(self, *, repartitions: bool) -> float:
        known = self._known[repartitions]
        if known:
            return float(median(known))
        return GUESSED_REPARTITION_S if repartitions else GUESSED_RESTART_S
