"""Where the work of a query's batches is done: in the stages that keep state, or in others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageWork:
    """Task time of some batches, by the width of their stages.

    >>> work = StageWork(state_tasks=2, state_task_s=6.0, other_tasks=8, other_task_s=6.0)
    >>> work.state_share(slots=4)   # 6 s on 2 tasks at once, then 6 s on 4
    0.6666666666666666
    """

    state_tasks: int
    """The number of state partitions: so many tasks of a stage that keeps state can run side by side."""
    state_task_s: float
    other_tasks: int
    """Of the widest other stage."""
    other_task_s: float

    def state_share(self, slots: int) -> float:
        """The share of a batch's time that goes into stages that keep state, with so many slots."""
        state_s = self.state_task_s / max(1, min(self.state_tasks, slots))
        other_s = self.other_task_s / max(1, min(self.other_tasks, slots))
        return state_s / (state_s + other_s) if state_s > 0 else 0.0
