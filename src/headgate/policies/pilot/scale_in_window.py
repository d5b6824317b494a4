"""How long a smaller size must have been enough before it is taken.

It begins with one minute. Whenever what was let go had to be asked for again at once though the load is the same, it
becomes longer; as long as that does not happen, it becomes shorter again. Where a change has a cost, because the job
stands still for it, the smaller size must have been enough for as long as it takes to save that.

>>> patience = Patience()
>>> [patience.highest(at_s, size, 60.0, planned=6) for at_s, size in ((0, 5), (10, 3), (70, 3), (80, 3))]
[6, 6, 6, 3]
>>> patience = Patience()
>>> [patience.highest(at_s, 3, 60.0, planned=6, change_s=1800.0) for at_s in (0, 10, 400, 620)]
[6, 6, 6, 3]
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from headgate.core.types import JSON, Instant

SHORTEST_S = 60.0
"""Longer costs more on bursty loads: 130 s took 5 % more on a day of `tweets-crm` at p95, and 15 % at p99."""
LONGEST_S = 600.0
STARTUPS = 1.25
"""Never shorter than so many times what a new instance takes to start: it must pay for that."""
STANDING_S = 300.0
"""The least where the job stands still for a change: a step that has to be taken back costs two standstills. Less
where a shorter time than ``SHORTEST_S`` is asked for, as of ``STAYS_S``."""
PAYS_BACK_WITHIN_S = 3600.0
"""What has been enough for so long is taken, whatever the change costs."""
PAUSE_S = 60.0
"""Between two steps down: several small ones become one."""
UNDONE_WITHIN_S = 150.0
LONGER, SHORTER = 1.3, 0.93
THE_SAME = 0.125
"""A load that has changed by less than this share does not explain why more is needed."""
STAYS_S = 120.0
"""So long a step is not taken back under the same load: which of two sizes is right may be nearly the same. Less where
a shorter time than ``SHORTEST_S`` is asked for, as by a job whose load is over in minutes."""
COLLAPSED = 0.5
"""A step up stays unless the load fell below this share of what it was. A smaller fall is often none: a reading is some
seconds old, and a burst of seconds weighs much in it."""


class Patience:
    """Remembers what was right lately, and how often shrinking was a mistake."""

    def __init__(self, shortest_s: float = SHORTEST_S) -> None:
        self._shortest_s = shortest_s
        shortened = min(1.0, shortest_s / SHORTEST_S)
        self._stays_s, self._standing_s = STAYS_S * shortened, STANDING_S * shortened
        self.window_s = shortest_s
        self.watched_s = shortest_s
        """For how long the size that was given last has been enough."""
        self._right: deque[tuple[Instant, int]] = deque()
        """Sizes that were right, oldest first."""
        self._peaks: deque[tuple[Instant, int]] = deque()
        """Those of them that are larger than all after them: at a decision ten times a second there are thousands."""
        self._shrunk_s: Instant | None = None
        """When it last shrank, until that has proved itself."""
        self._shrunk_at_rate_per_s = 0.0
        self._grown_s: Instant | None = None
        """When it last grew."""
        self._grown_at_rate_per_s = 0.0
        self._paused_until_s: Instant = -math.inf

    def highest(
        self, now: Instant, right: int, startup_s: float, *, planned: int, change_s: float = 0.0, least_s: float = 0.0
    ) -> int:
        """Take in which size is right now; gives the largest that was within the window.

        What is ``planned`` at the beginning is taken to be right until a whole window has been seen. Where a change
        costs as much as an instance for ``change_s``, the size must have been enough to save that, and for ``least_s``.
        """
        self._take(now, right if self._right else max(right, planned))
        window_s = max(self.window_s, STARTUPS * startup_s)
        kept_s = window_s if change_s <= 0 else max(window_s, PAYS_BACK_WITHIN_S) + PAUSE_S
        while self._right[0][0] <= now - kept_s:
            self._right.popleft()
        while self._peaks[0][0] <= now - kept_s:
            self._peaks.popleft()
        if self._shrunk_s is not None and now - self._shrunk_s > UNDONE_WITHIN_S:
            self._shrunk_s = None
            self.window_s = max(self._shortest_s, SHORTER * self.window_s)
        self.watched_s = self.window_s
        if change_s > 0:
            shortest_s = max(window_s, self._standing_s, min(least_s, PAYS_BACK_WITHIN_S))
            return self._paid_back(now, shortest_s, planned, change_s)
        return self._peaks[0][1]

    def _take(self, at_s: Instant, size: int) -> None:
        self._right.append((at_s, size))
        while self._peaks and self._peaks[-1][1] <= size:
            self._peaks.pop()
        self._peaks.append((at_s, size))

    def _forget(self) -> None:
        self._right.clear()
        self._peaks.clear()

    def _paid_back(self, now: Instant, window_s: float, planned: int, change_s: float) -> int:
        """The smallest size that would have saved its change, had it been taken when it became enough."""
        highest = 0
        for at_s, size in reversed(self._right):
            highest = max(highest, size)
            if highest >= planned:
                break
            watched_s = now - at_s
            if watched_s >= max(window_s, min(change_s / (planned - highest), PAYS_BACK_WITHIN_S)):
                self.watched_s = watched_s
                return highest
        return planned

    def is_paused(self, now: Instant) -> bool:
        """Whether it shrank just now."""
        return now < self._paused_until_s

    def would_undo(self, now: Instant, rate_per_s: float) -> bool:
        """Whether to grow now would take back the step down that was made just now, though the load is what it was."""
        return _is_undone(now, self._shrunk_s, self._stays_s, rate_per_s, self._shrunk_at_rate_per_s)

    def would_undo_growth(self, now: Instant, rate_per_s: float) -> bool:
        """Whether to shrink now would take back what was added just now, though much of the load is still there."""
        if self._grown_s is None or now - self._grown_s > self._stays_s:
            return False
        return rate_per_s >= COLLAPSED * self._grown_at_rate_per_s

    def shrinks(self, now: Instant, rate_per_s: float) -> None:
        self._shrunk_at_rate_per_s = rate_per_s
        self._shrunk_s, self._paused_until_s = now, now + min(PAUSE_S, self._shortest_s)

    def grows(self, now: Instant, rate_per_s: float) -> None:
        """Soon after it shrank, and under the same load, that undoes it."""
        if _is_undone(now, self._shrunk_s, UNDONE_WITHIN_S, rate_per_s, self._shrunk_at_rate_per_s):
            self.window_s = min(max(LONGEST_S, self._shortest_s), LONGER * self.window_s)
        self._shrunk_s = None
        self._grown_s, self._grown_at_rate_per_s = now, rate_per_s

    def begin_with(self, now: Instant, size: int) -> None:
        """A larger size than is right just now was taken on purpose: it counts as right from now on."""
        self._forget()
        self._take(now, size)

    def begin_anew(self) -> None:
        """Times are other than they were."""
        self._forget()
        self._shrunk_s, self._grown_s, self._paused_until_s = None, None, -math.inf

    def to_json(self) -> dict[str, JSON]:
        return {
            "window_s": self.window_s,
            "right": [list(one) for one in self._right],
            "shrunk_s": self._shrunk_s,
            "shrunk_at_rate_per_s": self._shrunk_at_rate_per_s,
            "grown_s": self._grown_s,
            "grown_at_rate_per_s": self._grown_at_rate_per_s,
        }

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self.window_s = max(self._shortest_s, float(saved["window_s"]))
        self._forget()
        for at_s, size in saved["right"]:
            self._take(float(at_s), int(size))
        self._shrunk_s = None if saved["shrunk_s"] is None else float(saved["shrunk_s"])
        self._shrunk_at_rate_per_s = float(saved["shrunk_at_rate_per_s"])
        self._grown_s = None if saved["grown_s"] is None else float(saved["grown_s"])
        self._grown_at_rate_per_s = float(saved["grown_at_rate_per_s"])


def _is_undone(
    now: Instant, changed_s: Instant | None, within_s: float, rate_per_s: float, changed_at_rate_per_s: float
) -> bool:
    """Whether a change the other way would take back one that was made just now, under the same load."""
    if changed_s is None or now - changed_s > within_s:
        return False
    return abs(rate_per_s - changed_at_rate_per_s) <= THE_SAME * changed_at_rate_per_s
