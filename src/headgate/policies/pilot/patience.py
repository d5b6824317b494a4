"""How long a smaller size must have been enough before it is taken.

It begins with five minutes. Whenever what was let go had to be asked for again at once, it becomes longer; as long as
that does not happen, it becomes shorter again. So a steady load is followed closely and a restless one is not chased.

>>> patience = Patience()
>>> [patience.highest(at_s, size, 60.0) for at_s, size in ((0, 5), (10, 3), (290, 3), (310, 3))]
[5, 5, 5, 3]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from headgate.core.types import JSON, Instant

SHORTEST_S = 300.0
LONGEST_S = 1800.0
STARTUPS = 1.25
"""Never shorter than so many times what a new instance takes to start: it must pay for that."""
UNDONE_WITHIN_S = 150.0
LONGER, SHORTER = 1.6, 0.93


class Patience:
    """Remembers what was right lately, and how often shrinking was a mistake."""

    def __init__(self) -> None:
        self.window_s = SHORTEST_S
        self._right: deque[tuple[Instant, int]] = deque()
        """Sizes that were right, oldest first."""
        self._shrunk_s: Instant | None = None
        """When it last shrank, until that has proved itself."""

    def highest(self, now: Instant, right: int, startup_s: float) -> int:
        """Take in which size is right now; gives the largest that was within the window."""
        self._right.append((now, right))
        window_s = max(self.window_s, STARTUPS * startup_s)
        while self._right[0][0] <= now - window_s:
            self._right.popleft()
        if self._shrunk_s is not None and now - self._shrunk_s > UNDONE_WITHIN_S:
            self._shrunk_s = None
            self.window_s = max(SHORTEST_S, SHORTER * self.window_s)
        return max(size for _, size in self._right)

    def shrinks(self, now: Instant) -> None:
        self._shrunk_s = now

    def grows(self, now: Instant) -> None:
        """Soon after it shrank, that undoes it."""
        if self._shrunk_s is not None and now - self._shrunk_s <= UNDONE_WITHIN_S:
            self.window_s = min(LONGEST_S, LONGER * self.window_s)
        self._shrunk_s = None

    def to_json(self) -> dict[str, JSON]:
        return {"window_s": self.window_s, "right": [list(one) for one in self._right], "shrunk_s": self._shrunk_s}

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> Patience:
        made = cls()
        made.window_s = float(saved["window_s"])
        made._right.extend((float(at_s), int(size)) for at_s, size in saved["right"])
        made._shrunk_s = None if saved["shrunk_s"] is None else float(saved["shrunk_s"])
        return made
