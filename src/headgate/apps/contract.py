"""The definition of a streaming application: from the bytes of a source to its results, in a stream as in a batch.

An application is a value. Its ``results`` are built from Spark's functions and run unchanged on a stream and on a
table, so a batch computation over the same records checks the results of the stream (``comparison.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any, Literal, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from headgate.core.types import JSON


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically; its folder is created, an existing file is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


WINDOW = ("window_start_ms", "window_end_ms")
"""The columns that identify the window of a result."""


def window_of(length_s: int, slide_s: int | None = None) -> Column:
    """Return the windows of an event; without a slide they do not overlap."""
    return f.window("at", f"{length_s} seconds", f"{slide_s or length_s} seconds")


def window_bounds() -> list[Column]:
    """Return start and end of the column ``window``, in milliseconds since the epoch."""
    return [f.unix_millis(f.col(f"window.{edge}")).alias(f"window_{edge}_ms") for edge in ("start", "end")]


RECORDS = "records"
"""The name of the observed metrics of an application: records ``read``, and ``malformed`` ones among them."""


@dataclass(frozen=True)
class RecordTally:
    read: int
    malformed: int
    """Records that cannot be parsed."""
    late: int
    """Records of closed windows. Spark counts them after each task has aggregated by key and window."""
    watermark_ms: int | None
    """Windows up to this time are closed; ``None`` without a watermark."""


def tally(progresses: Iterable[Mapping[str, Any]]) -> RecordTally:
    """Add up the batches of a query, each as parsed from ``StreamingQueryProgress.json``.

    >>> tally([{"observedMetrics": {"records": {"read": 9, "malformed": 1}}, "stateOperators": []}])
    RecordTally(read=9, malformed=1, late=0, watermark_ms=None)
    """
    batches = list(progresses)
    observed = [batch["observedMetrics"][RECORDS] for batch in batches if RECORDS in batch.get("observedMetrics", {})]
    operators = [operator for batch in batches for operator in batch["stateOperators"]]
    watermarks = [batch["eventTime"]["watermark"] for batch in batches if "watermark" in batch.get("eventTime", {})]
    return RecordTally(
        read=sum(metrics["read"] for metrics in observed),
        malformed=sum(metrics["malformed"] for metrics in observed),
        late=sum(operator["numRowsDroppedByWatermark"] for operator in operators),
        watermark_ms=max((round(datetime.fromisoformat(each).timestamp() * 1000) for each in watermarks), default=None),
    )


MALFORMED = "malformed"
"""The column of ``StreamingApplication.parse`` that holds the text of a malformed record."""

_TEXT = "original text"
_PER_SECOND = {"ms": 1000, "us": 1_000_000}
_LATEST_S = 4_102_444_800
"""The year 2100."""

OutputMode = Literal["append", "update"]
Write = Callable[[DataFrame], None]
Learner = Callable[[DataFrame, int, Path, Write], None]
"""Called with the results of a batch, its number, the folder of the learned state, and what writes the results."""


@dataclass(frozen=True)
class StreamingApplication:
    """An application; ``registry.py`` finds it by name."""

    name: str
    summary: str
    document: str
    """The document that describes it."""
    schema: str
    """The fields of a record in Spark's DDL. A record without a NOT NULL field is malformed."""
    results: Callable[[DataFrame], DataFrame]
    """Computes the results of events, which have the fields of the schema and the event time ``at``."""
    keys: tuple[str, ...]
    """The columns that identify a result."""
    data: str = "generated"
    """The origin of its records; for real ones, the data set."""
    output_mode: OutputMode = "append"
    """``append``: a result is written once, when it is final; ``update``: the newest result of a key counts."""
    event_time: str = "at_ms"
    """The field with the event time, since the epoch; its unit is at its end."""
    watermark_s: float | None = None
    """How far behind the newest event a record may be; older records are dropped and counted. ``None`` where no result
    waits for event time to pass."""
    stateful: bool = False
    """Whether Spark holds state for it between batches."""
    learn: Learner | None = None
    """For results that depend on earlier batches: called for each batch."""

    @property
    def fields(self) -> StructType:
        return cast("StructType", StructType.fromDDL(self.schema))

    @property
    def state(self) -> str:
        """The place of the state between batches."""
        if self.learn is not None:
            return "in files"
        return "in Spark" if self.stateful else "none"

    def to_json(self) -> dict[str, JSON]:
        """Return its description as plain data."""
        return {
            "name": self.name,
            "summary": self.summary,
            "document": self.document,
            "data": self.data,
            "state": self.state,
            "output_mode": self.output_mode,
            "watermark_s": self.watermark_s,
            "keys": list(self.keys),
        }

    def parse(self, raw: DataFrame) -> DataFrame:
        """Return all records of a source with JSON in the column ``value``, bytes or text, and the event time ``at``.

        The column ``malformed`` is null for a good record. It holds the original text of a record that is not JSON,
        has a field of another type, lacks a required field, or has a time before 1970 or after 2100.
        """
        fields = StructType(list(self.fields)).add(MALFORMED, "string")
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
        needed = [field.name for field in self.fields if not field.nullable]
        incomplete = reduce(Column.__or__, (f.col(name).isNull() for name in [*needed, "at"]))
        return (
            raw.select(f.col("value").cast("string").alias(_TEXT))
            .select(_TEXT, f.from_json(_TEXT, fields, options).alias("record"))
            .select(_TEXT, "record.*")
            .withColumn("at", self._at())
            .withColumn(MALFORMED, f.when(f.col(MALFORMED).isNotNull() | incomplete, f.coalesce(_TEXT, f.lit(""))))
            .drop(_TEXT)
        )

    def _at(self) -> Column:
        """Return the event time; null for an impossible time, on which the query would fail."""
        per_s = _PER_SECOND[self.event_time.rpartition("_")[2]]
        time = f.col(self.event_time)
        return f.when(time.between(0, _LATEST_S * per_s), f.timestamp_micros(time * (1_000_000 // per_s)))

    def events(self, raw: DataFrame) -> DataFrame:
        """Return the good records. The others are counted in the query's progress; see ``malformed``."""
        counted = self.parse(raw).observe(
            RECORDS, f.count(f.lit(1)).alias("read"), f.count(MALFORMED).alias("malformed")
        )
        good = counted.where(f.col(MALFORMED).isNull()).drop(MALFORMED)
        return good if self.watermark_s is None else good.withWatermark("at", f"{self.watermark_s} seconds")

    def malformed(self, raw: DataFrame) -> DataFrame:
        """Return the text of the malformed records."""
        return self.parse(raw).where(f.col(MALFORMED).isNotNull()).select(MALFORMED)

    def run(self, raw: DataFrame) -> DataFrame:
        """Return the results of a source."""
        return self.results(self.events(raw))

    def write_batch(self, results: DataFrame, batch: int, *, folder: Path, write: Write) -> None:
        """Write the results of a batch, for ``foreachBatch``; like a checkpoint, ``folder`` belongs to one query.

        The results of an application that does not learn may be written by any sink of Spark instead.
        """
        if self.learn is None:
            write(results)
        else:
            self.learn(results, batch, folder, write)
