"""Sizes that make sense for an operator whose keys lie in a fixed number of groups.

Flink gives whole key groups to subtasks, so the fullest of them has ⌈groups / size⌉. A size at which that is no less
than at the next smaller one costs a slot and brings nothing: of 12 groups, five subtasks have 3, 3, 2, 2 and 2, and
four have 3 each. Sizes that divide the groups evenly are always among those that are left.

>>> useful_sizes(12, 12)
(1, 2, 3, 4, 6, 12)
>>> useful_sizes(128, 8)
(1, 2, 3, 4, 5, 6, 7, 8)
"""

from __future__ import annotations


def useful_sizes(key_groups: int, most: int) -> tuple[int, ...]:
    """The sizes up to ``most`` whose fullest subtask has fewer key groups than that of any smaller size."""
    sizes = range(1, max(1, min(most, key_groups)) + 1)
    return tuple(size for size in sizes if size == 1 or _fullest(key_groups, size) < _fullest(key_groups, size - 1))


def _fullest(key_groups: int, size: int) -> int:
    return -(-key_groups // size)
