"""What waits at sources, also while they do not say.

A source of Kafka learns how much waits when it reads. One that is held back does not read, and tells the same number
for as long as that lasts, whatever comes: it would seem that nothing does. So as much is taken to come as did before,
until it reads again and tells what is true.

>>> pending = Pending()
>>> told = ((0.0, 0.0, 50.0), (10.0, 500.0, 550.0), (14.0, 500.0, 550.0), (20.0, 600.0, 1450.0))
>>> [pending.at("clicks", at_s, read, waiting) for at_s, read, waiting in told]
[50.0, 550.0, 950.0, 1450.0]
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.types import Instant

OVER_S = 20.0
"""What comes while a source says nothing is what came within about so long before."""
LEAST_S = 5.0
"""News are of some moment since the look before: over less than this, that matters too much."""


@dataclass(frozen=True, slots=True)
class _Heard:
    at_s: Instant
    read: float
    waiting: float

    @property
    def came(self) -> float:
        return self.read + self.waiting


class Pending:
    """Follows the sources of one job."""

    def __init__(self) -> None:
        self._heard: dict[str, list[_Heard]] = {}
        """What each told of late whenever it had news, the oldest first."""
        self._rates_per_s: dict[str, float] = {}
        self._unheard: set[str] = set()

    def begin_anew(self) -> None:
        """The job was started again: what sources tell cannot be compared with what they told before."""
        self._heard.clear()

    @property
    def is_known(self) -> bool:
        """Whether something is known of what came to all of them, at the last moment that was asked for."""
        return not self._unheard

    def at(self, source: str, at_s: Instant, read: float, waiting: float) -> float:
        """Records that wait at a source, by what it has read so far and what it tells of those that wait."""
        self._unheard.discard(source)
        heard = self._heard.setdefault(source, [])
        newest = heard[-1] if heard else None
        if newest is None or waiting <= 0 or (read, waiting) != (newest.read, newest.waiting):
            self._take(source, heard, _Heard(at_s, read, waiting))
            return waiting
        rate_per_s = self._rates_per_s.get(source)
        if rate_per_s is None:
            self._unheard.add(source)
        return waiting + (rate_per_s or 0.0) * (at_s - newest.at_s)

    def _take(self, source: str, heard: list[_Heard], now: _Heard) -> None:
        """Take in news, and the rate at which records came up to them."""
        heard.append(now)
        while len(heard) > 2 and now.at_s - heard[1].at_s >= OVER_S:
            del heard[0]
        span_s = now.at_s - heard[0].at_s
        if span_s >= LEAST_S:
            self._rates_per_s[source] = max(0.0, (now.came - heard[0].came) / span_s)
