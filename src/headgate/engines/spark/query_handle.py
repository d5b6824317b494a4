"""One run of one streaming query, asked by py4j: what does not change is asked once, for each call takes its time."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from py4j.protocol import Py4JError

from headgate.engines.spark.kafka import first_offsets
from headgate.engines.spark.snapshots import Progress, Query, Source

OffsetTexts: TypeAlias = tuple[str | None, ...]
"""An offset as JSON for each source; ``None`` where there is none yet."""
_ROWS_TOGETHER = (
    (("InPandas", "InArrow", "ArrowEvalPython"), "spark.sql.execution.arrow.maxRecordsPerBatch"),
    (("Python",), "spark.sql.execution.python.udf.maxRecordsPerBatch"),
)
"""Operators that get rows together and give them back so, and the setting that says how many."""


class QueryHandle:
    """Looks at one run of a query."""

    def __init__(self, jvm: Any, session: Any, query: Any, run_id: str) -> None:
        self._jvm = jvm
        self._session = session
        self._query = query
        self._run_id = run_id
        self._id = str(query.id().toString())
        self.name = str(query.name() or self._id[:8])
        self._interval_s = _trigger_interval_s(query)
        self._item = jvm.java.lang.reflect.Array.get
        self._sources: list[Any] = []
        self._set_up: tuple[Source, ...] = ()
        self._first: dict[int, str | None] = {}
        self._rows_at_once: float | None = None
        self._seen: str | None = None
        self._planned: tuple[tuple[int, int], tuple[OffsetTexts, OffsetTexts, OffsetTexts]] | None = None

    def look(self, shift_s: float) -> Query | None:
        """The query now; ``None`` while it is still being set up. ``shift_s`` leads from wall time to the loop's."""
        context = self._query.getLatestExecutionContext()
        if context is None or not self._is_set_up():
            return None
        batch_id, triggered_ms = int(context.batchId()), int(context.currentTriggerStartTimestamp())
        start, end, latest = self._plan(context, (batch_id, triggered_ms))
        committed = self._texts(self._query.committedOffsets())
        if any(end) and end != committed:
            self._planned = (batch_id, triggered_ms), (start, end, latest)  # It does not change until it is done.
        # Read last: a batch that ends meanwhile is then told of as running for one look more, never as lost.
        progresses = self._new_progresses(shift_s)
        if self._seen is None and not any((*start, *end, *latest, *committed)):
            return None  # Its first trigger is still finding out where it stands.
        return Query(
            id=self._id,
            run_id=self._run_id,
            name=self.name,
            trigger_interval_s=self._interval_s,
            sources=self._set_up,
            batch_id=batch_id,
            triggered_s=triggered_ms / 1000 + shift_s if triggered_ms > 0 else None,
            start=start,
            end=end,
            latest=latest,
            committed=committed,
            progresses=progresses,
            rows_at_once=self._find_rows_at_once(progresses),
        )

    # ------------------------------------------------------------------------------------------------- how it is set up

    def _is_set_up(self) -> bool:
        if not self._sources and (read := self._query.sources()) is not None:
            # One that is read at two places of a query, as by a self-join, is listed twice; offsets, progress and the
            # checkpoint's folders know it once, in the order of this.
            distinct = read.distinct()
            self._sources = [distinct.apply(index) for index in range(distinct.size())]
            self._set_up = self._read_set_up([int(distinct.indexOf(read.apply(place))) for place in range(read.size())])
        return bool(self._sources)

    def _read_set_up(self, places: Sequence[int]) -> tuple[Source, ...]:
        """How each source was set up; ``places`` says which one is read at each place of the plan."""
        leaves = self._query.analyzedPlan().collectLeaves()
        found = []
        for index in range(leaves.size()):
            leaf = leaves.apply(index)
            if leaf.getClass().getSimpleName() == "StreamingRelationV2":
                options = leaf.extraOptions().asCaseSensitiveMap()
                found.append(Source(str(leaf.sourceName()), {str(key): str(options[key]) for key in options}))
            elif leaf.isStreaming():
                found.append(Source(str(leaf.getClass().getSimpleName())))
        if len(found) != len(places):
            found = [Source("unknown")] * len(places)  # Which of them is which cannot be told.
        return tuple(
            replace(found[places.index(index)], readers=places.count(index)) for index in range(len(self._sources))
        )

    def _find_rows_at_once(self, progresses: tuple[Progress, ...]) -> float:
        """How many rows a task puts out at once, by the plan of a batch that has run."""
        if self._rows_at_once is None:
            if not any("addBatch" in one.body["durationMs"] for one in progresses):
                return math.inf
            self._rows_at_once = self._read_rows_at_once()
        return self._rows_at_once

    def _read_rows_at_once(self) -> float:
        if "ForeachBatchSink" in str(self._query.sink().toString()):
            return math.inf  # What is done there is up to its function.
        plan = str(self._query.lastExecution().executedPlan().toString())
        for words, setting in _ROWS_TOGETHER:
            if any(word in plan for word in words):
                return float(self._query.sparkSession().conf().get(setting))
        return 1.0

    # ---------------------------------------------------------------------------------------------------- how far it is

    def _plan(self, context: Any, key: tuple[int, int]) -> tuple[OffsetTexts, OffsetTexts, OffsetTexts]:
        """Where the newest batch begins and ends, and how far the sources had come when it was planned."""
        if self._planned is not None and self._planned[0] == key:
            return self._planned[1]
        start, end, latest = (
            self._texts(offsets) for offsets in (context.startOffsets(), context.endOffsets(), context.latestOffsets())
        )
        start = tuple(self._start(index, start[index], end[index]) for index in range(len(start)))
        return start, end, latest

    def _texts(self, offsets: Any) -> OffsetTexts:
        if len(self._sources) == 1:
            # The usual case, in fewer calls.
            return (str(offsets.values().mkString("")) or None,)
        found = (offsets.get(source) for source in self._sources)
        return tuple(str(offset.get().json()) if offset.isDefined() else None for offset in found)

    def _start(self, index: int, start: str | None, end: str | None) -> str | None:
        """Where a batch begins; of the very first one Spark does not tell it."""
        if start is not None or end is None or self._set_up[index].kind != "kafka":
            return start
        if index not in self._first:
            checkpoint = str(self._query.checkpointFile("sources"))
            self._first[index] = first_offsets(self._jvm, self._session, checkpoint, index)
        return self._first[index]

    def _new_progresses(self, shift_s: float) -> tuple[Progress, ...]:
        last = self._query.lastProgress()
        newest = None if last is None else str(last.timestamp())
        if newest == self._seen:
            return ()
        recent = self._query.recentProgress()
        found: list[Progress] = []
        for index in range(len(recent) - 1, -1, -1):
            progress = self._item(recent, index)
            # Batch ids repeat while a query is idle.
            timestamp = str(progress.timestamp())
            if timestamp == self._seen:
                break
            body = json.loads(progress.json())
            ended_s = _wall_s(timestamp) + body["durationMs"].get("triggerExecution", 0) / 1000
            found.append(Progress(ended_s + shift_s, body))
        found.reverse()
        if found:
            self._seen = str(found[-1].body["timestamp"])
        return tuple(found)


def _wall_s(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).astimezone(UTC).timestamp()


def _trigger_interval_s(query: Any) -> float:
    try:
        return float(query.trigger().intervalMs()) / 1000
    except Py4JError:
        return 0.0  # Continuous, once and available-now triggers have no interval.
