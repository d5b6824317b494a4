"""How long a smaller size must have been sufficient before autopilot scales in to it.

The window starts at one minute. It becomes longer whenever instances that were removed are needed again at once under
the same load, and slowly shorter while that does not happen. Where a change of size stops the job, the smaller size
must have been sufficient for long enough to pay for that downtime.

>>> window = ScaleInWindow()
>>> [window.largest_needed(at_s, size, 60.0, planned=6) for at_s, size in ((0, 5), (10, 3), (70, 3), (80, 3))]
[6, 6, 6, 3]
>>> window = ScaleInWindow()
>>> [window.largest_needed(at_s, 3, 60.0, planned=6, change_s=1800.0) for at_s in (0, 10, 400, 620)]
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
"""The window is at least this multiple of an instance's startup time, so that a removal pays for a new start."""
SHORTEST_WITH_DOWNTIME_S = 300.0
"""Shortest window where a change of size stops the job: a step that is taken back costs two downtimes. Shortened in
proportion if the configured window is shorter than ``SHORTEST_S``, as is ``UNCHANGED_S``."""
LONGEST_PAYBACK_S = 3600.0
"""A size that was sufficient for this long is taken whatever the change costs."""
PAUSE_S = 60.0
"""Pause between two scale-ins, so that several small ones become one."""
UNDONE_WITHIN_S = 150.0
LONGER, SHORTER = 1.3, 0.93
SAME_LOAD = 0.125
"""Loads that differ by less than this share count as the same."""
UNCHANGED_S = 120.0
"""For this long a change is not taken back under the same load: two sizes may be nearly equally good. Shortened if the
configured window is shorter than ``SHORTEST_S``, as for a job whose load lasts minutes."""
COLLAPSED = 0.5
"""A scale-out is taken back only if the load fell below this share. Smaller drops are often artefacts: a reading is
some seconds old, and a burst of seconds weighs much in it."""


class ScaleInWindow:
    """Remembers which sizes were sufficient recently, and how often a scale-in was a mistake."""

    def __init__(self, shortest_s: float = SHORTEST_S) -> None:
        self._shortest_s = shortest_s
        scale = min(1.0, shortest_s / SHORTEST_S)
        self._unchanged_s, self._shortest_with_downtime_s = UNCHANGED_S * scale, SHORTEST_WITH_DOWNTIME_S * scale
        self.window_s = shortest_s
        self.watched_s = shortest_s
        """For how long the size returned last has been sufficient."""
        self._needed: deque[tuple[Instant, int]] = deque()
        """Sizes that were needed, oldest first."""
        self._peaks: deque[tuple[Instant, int]] = deque()
        """Those of them that are larger than all later ones; keeps the maximum cheap at ten decisions a second."""
        self._scaled_in_s: Instant | None = None
        """Time of the last scale-in, until it has proved itself."""
        self._scaled_in_at_rate_per_s = 0.0
        self._scaled_out_s: Instant | None = None
        self._scaled_out_at_rate_per_s = 0.0
        self._paused_until_s: Instant = -math.inf

    def largest_needed(
        self, now: Instant, needed: int, startup_s: float, *, planned: int, change_s: float = 0.0, least_s: float = 0.0
    ) -> int:
        """Add the size needed now and return the largest one needed within the window.

        The first call counts ``planned`` as needed, until a whole window was observed. Where a change costs as much as
        an instance for ``change_s``, a smaller size must have been sufficient to save that much, and for ``least_s``.
        """
        self._append(now, needed if self._needed else max(needed, planned))
        window_s = max(self.window_s, STARTUPS * startup_s)
        retained_s = window_s if change_s <= 0 else max(window_s, LONGEST_PAYBACK_S) + PAUSE_S
        while self._needed[0][0] <= now - retained_s:
            self._needed.popleft()
        while self._peaks[0][0] <= now - retained_s:
            self._peaks.popleft()
        if self._scaled_in_s is not None and now - self._scaled_in_s > UNDONE_WITHIN_S:
            self._scaled_in_s = None
            self.window_s = max(self._shortest_s, SHORTER * self.window_s)
        self.watched_s = self.window_s
        if change_s > 0:
            shortest_s = max(window_s, self._shortest_with_downtime_s, min(least_s, LONGEST_PAYBACK_S))
            return self._size_that_pays(now, shortest_s, planned, change_s)
        return self._peaks[0][1]

    def _append(self, at_s: Instant, size: int) -> None:
        self._needed.append((at_s, size))
        while self._peaks and self._peaks[-1][1] <= size:
            self._peaks.pop()
        self._peaks.append((at_s, size))

    def _clear(self) -> None:
        self._needed.clear()
        self._peaks.clear()

    def _size_that_pays(self, now: Instant, window_s: float, planned: int, change_s: float) -> int:
        """Return the smallest size that would have saved the cost of the change since it became sufficient."""
        largest = 0
        for at_s, size in reversed(self._needed):
            largest = max(largest, size)
            if largest >= planned:
                break
            watched_s = now - at_s
            if watched_s >= max(window_s, min(change_s / (planned - largest), LONGEST_PAYBACK_S)):
                self.watched_s = watched_s
                return largest
        return planned

    def is_paused(self, now: Instant) -> bool:
        """Whether a scale-in happened just now."""
        return now < self._paused_until_s

    def would_undo_scale_in(self, now: Instant, rate_per_s: float) -> bool:
        """Whether scaling out now would take back a recent scale-in although the load is the same."""
        return _is_undone(now, self._scaled_in_s, self._unchanged_s, rate_per_s, self._scaled_in_at_rate_per_s)

    def would_undo_scale_out(self, now: Instant, rate_per_s: float) -> bool:
        """Whether scaling in now would take back a recent scale-out although most of the load remains."""
        if self._scaled_out_s is None or now - self._scaled_out_s > self._unchanged_s:
            return False
        return rate_per_s >= COLLAPSED * self._scaled_out_at_rate_per_s

    def record_scale_in(self, now: Instant, rate_per_s: float) -> None:
        self._scaled_in_at_rate_per_s = rate_per_s
        self._scaled_in_s, self._paused_until_s = now, now + min(PAUSE_S, self._shortest_s)

    def record_scale_out(self, now: Instant, rate_per_s: float) -> None:
        """Record a scale-out; one that undoes a recent scale-in under the same load lengthens the window."""
        if _is_undone(now, self._scaled_in_s, UNDONE_WITHIN_S, rate_per_s, self._scaled_in_at_rate_per_s):
            self.window_s = min(max(LONGEST_S, self._shortest_s), LONGER * self.window_s)
        self._scaled_in_s = None
        self._scaled_out_s, self._scaled_out_at_rate_per_s = now, rate_per_s

    def restart_at(self, now: Instant, size: int) -> None:
        """Count ``size`` as needed from now on: it was chosen on purpose although less is needed just now."""
        self._clear()
        self._append(now, size)

    def release(self, now: Instant, size: int) -> None:
        """Forget that more than ``size`` was needed: what it was needed for is known to be over."""
        self.restart_at(now, size)
        self._scaled_out_s = None

    def trim(self, now: Instant, size: int) -> None:
        """Count no size above ``size`` as needed since the last scale-out: what called for it has turned out wrong."""
        if self._scaled_out_s is None or max(needed for _, needed in self._needed) <= size:
            return
        needed = list(self._needed)
        self._clear()
        for at_s, found in needed:
            self._append(at_s, min(found, size))
        self._scaled_out_s, self._paused_until_s = None, -math.inf

    def reset_clock(self) -> None:
        """Forget timestamps: the clock was reset."""
        self._clear()
        self._scaled_in_s, self._scaled_out_s, self._paused_until_s = None, None, -math.inf

    def to_json(self) -> dict[str, JSON]:
        return {
            "window_s": self.window_s,
            "right": [list(needed) for needed in self._needed],
            "shrunk_s": self._scaled_in_s,
            "shrunk_at_rate_per_s": self._scaled_in_at_rate_per_s,
            "grown_s": self._scaled_out_s,
            "grown_at_rate_per_s": self._scaled_out_at_rate_per_s,
        }

    def restore(self, saved: Mapping[str, JSON]) -> None:
        self.window_s = max(self._shortest_s, float(saved["window_s"]))
        self._clear()
        for at_s, size in saved["right"]:
            self._append(float(at_s), int(size))
        self._scaled_in_s = None if saved["shrunk_s"] is None else float(saved["shrunk_s"])
        self._scaled_in_at_rate_per_s = float(saved["shrunk_at_rate_per_s"])
        self._scaled_out_s = None if saved["grown_s"] is None else float(saved["grown_s"])
        self._scaled_out_at_rate_per_s = float(saved["grown_at_rate_per_s"])


def _is_undone(
    now: Instant, changed_s: Instant | None, within_s: float, rate_per_s: float, changed_at_rate_per_s: float
) -> bool:
    """Whether an opposite change would take back a recent one under the same load."""
    if changed_s is None or now - changed_s > within_s:
        return False
    return abs(rate_per_s - changed_at_rate_per_s) <= SAME_LOAD * changed_at_rate_per_s
