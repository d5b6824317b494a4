"""A smaller size is taken only after smaller ones were enough for a while: then the largest of them.

>>> delay = ScaleInDelay()
>>> [delay.allowed(at_s, 100, fewer) for at_s, fewer in ((0, 2), (50, 4), (90, 3), (100, 2))]
[None, None, None, 4]
"""

from __future__ import annotations

from headgate.core.types import JSON, Instant
from headgate.policies.frame.recommendations import Recommendations


class ScaleInDelay:
    """Since when fewer instances have been enough, and how many of them."""

    def __init__(self) -> None:
        self._since_s: Instant | None = None
        self._fewer = Recommendations()

    def clear(self) -> None:
        """Fewer are no longer enough, or the size has changed."""
        self._since_s, self._fewer = None, Recommendations()

    def allowed(self, now: Instant, interval_s: float, fewer: int) -> int | None:
        """The largest of the sizes that were enough within the interval; ``None`` as long as it is not over."""
        # State that was saved on another clock may lie ahead of this one.
        if self._since_s is None or self._since_s > now:
            self.clear()
            self._since_s = now
        largest = self._fewer.largest(now, interval_s, fewer, fewer)
        return largest if now - self._since_s >= interval_s else None

    def waited_s(self, now: Instant) -> float:
        """For how long fewer have been enough."""
        return 0.0 if self._since_s is None else now - self._since_s

    def to_json(self) -> JSON:
        return [self._since_s, self._fewer.to_json()]

    @classmethod
    def from_json(cls, saved: JSON) -> ScaleInDelay:
        made = cls()
        since_s, fewer = saved
        made._since_s = None if since_s is None else float(since_s)
        made._fewer = Recommendations.from_json(fewer)
        return made
