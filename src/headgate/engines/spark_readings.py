"""One reading of a whole Spark application, made from the progress of all its streaming queries. No JVM is needed here.

A reading is marked as *warming* when the batch behind it ran while executors came or went, was the first full batch
with new executors (cold JVMs and Python workers slow it down), or was the first of its query: true, but not typical.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core.types import Instant, Sample
from headgate.engines.spark_metrics import observed_in
from headgate.engines.spark_progress import Batch, QueryTracker


@dataclass(slots=True)
class _Query:
    run_id: str
    tracker: QueryTracker
    warming: bool = True
    warmed_for_s: Instant | None = field(default=None)
    """The joining of executors for which a full batch has been seen since."""
    is_new: bool = True


class Readings:
    """Follows all queries of one application."""

    def __init__(self) -> None:
        self._queries: dict[str, _Query] = {}
        self._busy_since: dict[str, tuple[Instant, Instant]] = {}
        self._joined_s: Instant | None = None
        self._left_s: Instant | None = None
        self.observed: dict[tuple[str, str], float] = {}
        """The newest numbers of ``df.observe``, by observation and column."""

    def on_executors(self, joined_s: Iterable[Instant], left_s: Iterable[Instant]) -> None:
        """Take in when executors came and went."""
        self._joined_s = max(joined_s, default=None)
        self._left_s = max(left_s, default=None)

    def on_progress(self, progress_json: str, received_s: Instant, trigger_intervals_s: Mapping[str, float]) -> None:
        progress: dict[str, Any] = json.loads(progress_json)
        self.observed.update(observed_in(progress))
        query = self._query(progress["id"], progress["runId"], trigger_intervals_s)
        batch = query.tracker.on_progress(progress, received_s)
        query.warming = self._is_warming(query, batch)

    def on_idle(
        self, query_id: str, run_id: str, received_s: Instant, trigger_intervals_s: Mapping[str, float]
    ) -> None:
        query = self._query(query_id, run_id, trigger_intervals_s)
        query.tracker.on_idle(received_s)
        query.warming = False

    def on_terminated(self, query_id: str, run_id: str) -> None:
        query = self._queries.get(query_id)
        if query is not None and query.run_id == run_id:
            del self._queries[query_id]
            self._busy_since.pop(query_id, None)

    def on_busy(self, query_id: str, now: Instant) -> None:
        """Take in that a query is in the middle of a batch, where it has been at least since this was first seen."""
        query = self._queries.get(query_id)
        if query is None or query.tracker.last is None:
            return
        ended_s = query.tracker.last.ended_s
        known = self._busy_since.get(query_id)
        if known is None or known[0] != ended_s:
            self._busy_since[query_id] = (ended_s, now)

    def sample(self, operator: str, now: Instant, utilization: float | None) -> Sample | None:
        """The newest reading over all queries: rates and backlogs add up, the slowest query sets the latency."""
        known = [(query, query.tracker.last) for query in self._queries.values() if query.tracker.last is not None]
        if not known:
            return None
        batches = [batch for _, batch in known]
        slowest = max(batches, key=lambda batch: batch.latency_s)
        reading = Sample(
            operator=operator,
            at_s=max(batch.ended_s for batch in batches),
            input_rate_per_s=_total(batch.input_rate_per_s for batch in batches),
            processed_rate_per_s=_total(batch.processed_rate_per_s for batch in batches if batch.records),
            backlog=_total(batch.backlog for batch in batches),
            latency_s=slowest.latency_s,
            processing_time_s=slowest.processing_time_s,
            scheduling_delay_s=slowest.scheduling_delay_s,
            trigger_interval_s=slowest.trigger_interval_s or None,
            utilization=utilization,
            warming=any(query.warming for query, _ in known),
        )
        return self._overdue(reading, slowest, now) or reading

    def _overdue(self, reading: Sample, slowest: Batch, now: Instant) -> Sample | None:
        """What is certain while a batch takes longer than the last one: latency is at least as long as that."""
        running_s = max(
            (now - since_s for key, (_, since_s) in self._busy_since.items() if key in self._queries), default=0.0
        )
        if running_s <= max(slowest.latency_s, slowest.trigger_interval_s):
            return None
        return Sample(
            operator=reading.operator,
            at_s=now,
            input_rate_per_s=reading.input_rate_per_s,
            backlog=reading.backlog,
            latency_s=running_s,
            processing_time_s=running_s,
            trigger_interval_s=reading.trigger_interval_s,
            utilization=reading.utilization,
            warming=reading.warming or self._changed_since(slowest.ended_s),
        )

    def _changed_since(self, at_s: Instant) -> bool:
        return any(changed_s is not None and changed_s >= at_s for changed_s in (self._joined_s, self._left_s))

    def _query(self, query_id: str, run_id: str, trigger_intervals_s: Mapping[str, float]) -> _Query:
        query = self._queries.get(query_id)
        if query is None or query.run_id != run_id:
            query = self._queries[query_id] = _Query(run_id, QueryTracker(trigger_intervals_s.get(query_id, 0.0)))
        return query

    def _is_warming(self, query: _Query, batch: Batch) -> bool:
        self._busy_since.clear()
        cold = query.is_new or (self._joined_s is not None and query.warmed_for_s != self._joined_s)
        if cold and batch.records and (self._joined_s is None or batch.started_s >= self._joined_s):
            query.warmed_for_s, query.is_new = self._joined_s, False
        left = self._left_s is not None and batch.started_s < self._left_s <= batch.ended_s
        return (cold and batch.ended_s >= (self._joined_s or 0.0)) or left


def _total(values: Iterable[float | None]) -> float | None:
    """The sum of what must all be known."""
    total = None
    for value in values:
        if value is None:
            return None
        total = (total or 0.0) + value
    return total
