"""What is measured only for those who ask: it takes further requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headgate.engines.flink.answers import JobDetails
from headgate.engines.flink.graph import Graph
from headgate.engines.flink.rest import FlinkRest

WATERMARK_LAG = "watermark_lag_s"
CHECKPOINT = "checkpoint_s"
HELD_BACK = "back_pressured_share"
IDLE = "idle_share"
FURTHER_METRICS = frozenset({WATERMARK_LAG, CHECKPOINT, HELD_BACK, IDLE})


class Further:
    """Metrics of operators by name.

    ``watermark_lag_s`` is how far an operator's event time is behind; ``checkpoint_s`` how long the last checkpoint of
    the job took; ``back_pressured_share`` and ``idle_share`` what it did with its time since it was started.
    """

    def __init__(self, rest: FlinkRest) -> None:
        self._rest = rest
        self._wanted: frozenset[str] = frozenset()

    @property
    def is_wanted(self) -> bool:
        return bool(self._wanted)

    def subscribe(self, keys: Collection[str]) -> None:
        self._wanted = FURTHER_METRICS & frozenset(keys)

    def of(self, job: JobDetails, graph: Graph, samples: Collection[str]) -> dict[str, Mapping[str, float | None]]:
        checkpoint_s = self._checkpoint_s(job.jid) if CHECKPOINT in self._wanted else None
        found: dict[str, Mapping[str, float | None]] = {}
        work = {graph.by_vertex[one.id].operator: one.metrics for one in job.vertices if one.id in graph.by_vertex}
        for name in samples:
            values: dict[str, float | None] = {}
            if CHECKPOINT in self._wanted:
                values[CHECKPOINT] = checkpoint_s
            if WATERMARK_LAG in self._wanted:
                values[WATERMARK_LAG] = self._watermark_lag_s(job, graph.by_operator[name].vertex)
            one = work.get(name)
            known = one is not None and one.busy_ms is not None
            total_ms = (one.busy_ms or 0.0) + (one.idle_ms or 0.0) + (one.held_back_ms or 0.0) if one and known else 0.0
            for key, part_ms in ((HELD_BACK, one and one.held_back_ms), (IDLE, one and one.idle_ms)):
                if key in self._wanted:
                    values[key] = (part_ms or 0.0) / total_ms if total_ms > 0 else None
            found[name] = values
        return found

    def _checkpoint_s(self, job: str) -> float | None:
        completed = self._rest.checkpoints(job).latest.completed
        return None if completed is None else completed.lasting_ms / 1000

    def _watermark_lag_s(self, job: JobDetails, vertex: str) -> float | None:
        marks_ms = self._rest.watermarks_ms(job.jid, vertex)
        return max(0.0, (job.now_ms - min(marks_ms)) / 1000) if marks_ms else None
