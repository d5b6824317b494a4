"""Random numbers that belong to the number of a record: the same whether it is made first, last, twice or alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_PER_STEP = 4
"""What Philox draws at each step of its counter."""


def draws(seed: int, stream: int, first: int, count: int) -> NDArray[np.float64]:
    """One number from [0, 1) for each of the records ``first`` … ``first + count - 1``.

    Streams of the same seed are independent of each other: use one for each thing that is drawn for a record.

    >>> bool((draws(7, 0, 1000, 50)[20:30] == draws(7, 0, 1020, 10)).all())
    True
    """
    bits = np.random.Philox(key=[seed, stream])
    steps, beside = divmod(first, _PER_STEP)
    bits.advance(steps)
    return np.random.Generator(bits).random(beside + count)[beside:]
