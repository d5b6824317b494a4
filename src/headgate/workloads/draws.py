"""Random numbers and keys that depend only on the number of a record, however and in whatever order it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError

_PER_STEP = 4
"""Numbers that Philox draws per step of its counter."""


def draws(seed: int, stream: int, first: int, count: int) -> NDArray[np.float64]:
    """Return a number from [0, 1) for each of the records ``first`` … ``first + count - 1``.

    Streams of one seed are independent: use one for each property that is drawn.

    >>> bool((draws(7, 0, 1000, 50)[20:30] == draws(7, 0, 1020, 10)).all())
    True
    """
    bits = np.random.Philox(key=[seed, stream])
    steps, offset = divmod(first, _PER_STEP)
    bits.advance(steps)
    return np.random.Generator(bits).random(offset + count)[offset:]


STREAM = 0
"""The stream of draws for keys; streams of payloads start at 1."""
MOST = 10_000_000
"""The most keys, because their shares are held in memory."""


@dataclass(frozen=True)
class Keys:
    """Keys by Zipf's law: the frequency of key k (from 0) is proportional to 1 / (k + 1) ** skew.

    With skew 0 all are equally frequent; with 1, the first of a thousand has 13 % of all records.

    >>> keys = Keys(count=1000, skew=1.0, seed=7)
    >>> bool((keys.of(500, 100)[50:] == keys.of(550, 50)).all())
    True
    >>> float((keys.of(0, 100_000) == 0).mean().round(2))
    0.13
    """

    count: int = 1000
    skew: float = 0.0
    seed: int = 0
    _shares: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    """Cumulative shares of the records by key."""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST:
            raise InputError(f"{self.count} keys are not possible; 1 to {MOST:,} are.")
        if not (math.isfinite(self.skew) and self.skew >= 0):
            raise InputError(f"a skew of {self.skew:g} is not possible; it must be finite and not negative.")
        weights = np.arange(1, self.count + 1, dtype=np.float64) ** -self.skew
        shares = np.cumsum(weights / weights.sum())
        # Rounding must not leave a draw beyond the last key.
        shares[-1] = 1.0
        object.__setattr__(self, "_shares", shares)

    def of(self, first: int, count: int) -> NDArray[np.int64]:
        """Return the keys of the records ``first`` … ``first + count - 1``."""
        return np.searchsorted(self._shares, draws(self.seed, STREAM, first, count), side="right")
