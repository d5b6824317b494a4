"""Small plots of one line, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"
UNKNOWN = "·"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """A line of blocks, the tallest for the largest value and the lowest for 0.

    Where there are more values than columns, each column shows the largest of its own.

    >>> sparkline([0, 1, 2, None, 8], 5)
    '▁▂▃·█'
    """
    count = min(width, len(values))
    edges = [len(values) * column // count for column in range(count + 1)] if count else []
    columns = [[value for value in values[first:end] if value is not None] for first, end in pairwise(edges)]
    tops = [max(column) if column else None for column in columns]
    largest = max((value for value in tops if value is not None), default=0.0)
    return "".join(UNKNOWN if value is None else _block(value, largest) for value in tops)


def _block(value: float, largest: float) -> str:
    if largest <= 0:
        return BLOCKS[0]
    return BLOCKS[min(len(BLOCKS) - 1, int(len(BLOCKS) * max(0.0, value) / largest))]
