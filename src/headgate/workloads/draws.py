"""Random numbers that belong to the number of a record: the same whether it is made first, last, twice or alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError

_PER_STEP = 4
"""What Philox draws at each step of its counter."""


def draws(seed: int, stream: int, first: int, count: int) -> NDArray[np.float64]:
    """One number from [0, 1) for each of the records ``first`` … ``first + count - 1``.

    Streams of the same seed are independent of each other: use one for each thing that is drawn for a record.

    >>> bool((draws(7, 0, 1000, 50)[20:30] == draws(7, 0, 1020, 10)).all())
    True
    """
    bits = np.random.Philox(key=[seed, stream])
    steps, offset = divmod(first, _PER_STEP)
    bits.advance(steps)
    return np.random.Generator(bits).random(offset + count)[offset:]


STREAM = 0
"""The stream of draws that decides about keys; what an application draws for its payloads starts at 1."""
MOST = 10_000_000
"""As many as are held in memory with their shares."""


@dataclass(frozen=True)
class Keys:
    """So many keys, of which number k (from 0) is as frequent as 1 / (k + 1) ** skew: Zipf's law.

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
    """The share of records that the keys up to and with each have."""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST:
            raise InputError(f"{self.count} keys are not possible; 1 to {MOST:,} are.")
        if not (math.isfinite(self.skew) and self.skew >= 0):
            raise InputError(f"a skew of {self.skew:g} is not possible; it must be finite and not negative.")
        weights = np.arange(1, self.count + 1, dtype=np.float64) ** -self.skew
        shares = np.cumsum(weights / weights.sum())
        # Rounding must not leave a draw without a key.
        shares[-1] = 1.0
        object.__setattr__(self, "_shares", shares)

    def of(self, first: int, count: int) -> NDArray[np.int64]:
        """The key of each of the records ``first`` … ``first + count - 1``."""
        return np.searchsorted(self._shares, draws(self.seed, STREAM, first, count), side="right")
