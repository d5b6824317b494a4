"""What a streaming query is started with, and what may be changed of it only between two batches.

>>> plan = Plan(max_records_per_batch=500, state_partitions=8)
>>> plan.source_options["maxOffsetsPerTrigger"]
'500'
>>> dict(Plan().source_options)
{}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_UNLIMITED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Plan:
    """Given to the function that builds a managed query."""

    max_records_per_batch: int | None = None
    """A batch takes no more records than this from a source; ``None``: as many as there are."""
    state_partitions: int | None = None
    """Over how many partitions Spark spreads the state; set for the query already. ``None``: as the session has it."""

    @property
    def source_options(self) -> Mapping[str, str]:
        """Options for the reader of the source, Kafka's and Headgate's own: ``readStream.options(**…)``."""
        if self.max_records_per_batch is None:
            return _UNLIMITED
        limit = str(self.max_records_per_batch)
        return MappingProxyType({"maxOffsetsPerTrigger": limit, "max_rows_per_batch": limit})

    def in_words(self) -> str:
        """
        >>> Plan(500, 8).in_words()
        'at most 500 records a batch, 8 state partitions'
        """
        cap, partitions = self.max_records_per_batch, self.state_partitions
        limit = "as many records a batch as there are" if cap is None else f"at most {cap} records a batch"
        return limit if partitions is None else f"{limit}, {partitions} state partitions"


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
