"""The sizes that were recommended lately: many autoscalers shrink to the largest of a window, not to the newest.

>>> lately = Recommendations()
>>> [lately.largest(at_s, 300, newest, found=4) for at_s, newest in ((0, 2), (60, 5), (200, 3), (400, 2))]
[4, 5, 5, 3]
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.types import JSON, Instant


class Recommendations:
    """Recommended sizes by time, of which only those are kept that may still be the largest."""

    def __init__(self, kept: Iterable[tuple[Instant, int]] = ()) -> None:
        self._kept = list(kept)

    def __len__(self) -> int:
        return len(self._kept)

    def largest(self, now: Instant, within_s: float, newest: int, found: int) -> int:
        """Take in the newest, and tell the largest of the last ``within_s``; with 0 seconds, that is the newest.

        ``found`` is the size that there is. It counts as recommended where nothing is known of the time before, or the
        first quiet reading would undo it.
        """
        # State that was saved on another clock may lie ahead of this one.
        kept = [(at_s, count) for at_s, count in self._kept if now - within_s < at_s <= now]
        if not kept and within_s:
            kept = [(now, found)]
        # One that is not larger than the newest will leave the window before it.
        self._kept = [(at_s, count) for at_s, count in kept if count > newest] + [(now, newest)]
        return self._kept[0][1]

    def to_json(self) -> JSON:
        return [[at_s, count] for at_s, count in self._kept]

    @classmethod
    def from_json(cls, saved: JSON) -> Recommendations:
        return cls((float(at_s), int(count)) for at_s, count in saved)
