"""How unevenly records are spread over the subtasks of an operator."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engines.flink.answers import Subtask

FEWEST = 20
"""Records per subtask before anything is said."""


class Spread:
    """Compares what each subtask has read since it was last looked at."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, int], float] = {}

    def begin_anew(self) -> None:
        self._read.clear()

    def skew(self, operator: str, subtasks: Sequence[Subtask]) -> float | None:
        """Records of the busiest subtask over those of a mean one; ``None`` where there is too little to tell."""
        now = {(operator, one.number): one.metrics.read for one in subtasks}
        more = [read - self._read.get(key, 0.0) for key, read in now.items()]
        self._read |= now
        total = sum(more)
        if len(more) < 2 or total < FEWEST * len(more):
            return None
        return max(1.0, max(more) * len(more) / total)
