"""Small plots of one line, for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
UNKNOWN = "·"


def sparkline(values: Sequence[float | None], width: int, *, combine: Callable[[Sequence[float]], float] = max) -> str:
    """A line of blocks, the tallest for the largest value and the lowest for 0.

    Where there are more values than columns, those of one column are combined: to their maximum, unless told otherwise.

    >>> sparkline([0, 1, 2, None, 8], 5)
    '▁▁▂·█'
    """
    columns = (
        [
            [
                value
                for value in values[len(values) * column // width : len(values) * (column + 1) // width]
                if value is not None
            ]
            for column in range(min(width, len(values)))
        ]
        if len(values) > width
        else [[] if value is None else [value] for value in values]
    )
    combined = [combine(column) if column else None for column in columns]
    largest = max((value for value in combined if value is not None), default=0.0)
    return "".join(UNKNOWN if value is None else _block(value, largest) for value in combined)


def _block(value: float, largest: float) -> str:
    if largest <= 0:
        return BLOCKS[0]
    return BLOCKS[min(len(BLOCKS) - 1, int(len(BLOCKS) * max(0.0, value) / largest))]
