"""What an application is: from the bytes of a source to its results, the same in a stream and in a batch.

An application is a value. Its ``results`` are built from Spark's functions and run unchanged on a stream and on a
table, so the batch computation over the same records is the check of what the stream gave (``comparison.py``).
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
    """Write a file, in a folder that is made if needed; one that exists is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


WINDOW = ("window_start_ms", "window_end_ms")
"""The columns by which results tell their window."""


def window_of(length_s: int, slide_s: int | None = None) -> Column:
    """The windows an event lies in; windows follow each other where no slide is given."""
    return f.window("at", f"{length_s} seconds", f"{slide_s or length_s} seconds")


def window_bounds() -> list[Column]:
    """Start and end of the column ``window``, in milliseconds since the epoch."""
    return [f.unix_millis(f.col(f"window.{edge}")).alias(f"window_{edge}_ms") for edge in ("start", "end")]


RECORDS = "records"
"""The name of the metrics that an application has observed: records ``read``, and ``malformed`` ones among them."""


@dataclass(frozen=True)
class RecordTally:
    read: int
    malformed: int
    """Records that could not be used."""
    late: int
    """What came after its window was closed. Spark counts it after adding up what a task has of one key and window."""
    watermark_ms: int | None
    """Up to when windows have been closed; None if no window can have been."""


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
"""The column of ``StreamingApplication.parse`` that holds what could not be parsed."""

_TEXT = "text as it came"
_PER_SECOND = {"ms": 1000, "us": 1_000_000}
_LATEST_S = 4_102_444_800
"""The year 2100."""

OutputMode = Literal["append", "update"]
Write = Callable[[DataFrame], None]
Learner = Callable[[DataFrame, int, Path, Write], None]
"""Takes a batch, its number, the folder where it keeps what it has learned, and how final results are written."""


@dataclass(frozen=True)
class StreamingApplication:
    """One application; ``registry.py`` finds it by name."""

    name: str
    summary: str
    document: str
    """Where it is from."""
    schema: str
    """The fields of a record, as Spark writes them. A record without a field that is NOT NULL is malformed."""
    results: Callable[[DataFrame], DataFrame]
    """From events, which have the fields of the schema and the event time ``at``, to the results."""
    keys: tuple[str, ...]
    """The columns that tell one result from another."""
    data: str = "generated"
    """The origin of its records; for real ones, the data set."""
    output_mode: OutputMode = "append"
    """``append``: a result is given once, when it is final; ``update``: the newest result of a key counts."""
    event_time: str = "at_ms"
    """The field with the event time, since the epoch; its unit is at its end."""
    watermark_s: float | None = None
    """How long after the newest event a record may come and still count; what comes later is dropped and counted.
    None where nothing waits for event time to pass."""
    stateful: bool = False
    """Whether Spark keeps state for it between batches."""
    learn: Learner | None = None
    """For results that depend on what batches before have taught: it is given the results of each batch."""

    @property
    def fields(self) -> StructType:
        return cast("StructType", StructType.fromDDL(self.schema))

    @property
    def state(self) -> str:
        """Where it keeps what it must know of batches before."""
        if self.learn is not None:
            return "in files"
        return "in Spark" if self.stateful else "none"

    def to_json(self) -> dict[str, JSON]:
        """What it is, without how it is computed."""
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
        """All records of a source whose column ``value`` holds JSON, as bytes or text, with the event time ``at``.

        The column ``malformed`` is null for a good record, and the text as it came for one that is not JSON, has a
        field of another type, lacks one that is needed, or is of a time before 1970 or after 2100.
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
        """The event time; null for what cannot be one, which Spark would end the query for."""
        per_s = _PER_SECOND[self.event_time.rpartition("_")[2]]
        time = f.col(self.event_time)
        return f.when(time.between(0, _LATEST_S * per_s), f.timestamp_micros(time * (1_000_000 // per_s)))

    def events(self, raw: DataFrame) -> DataFrame:
        """The good records. The others are counted in the query's progress, and ``malformed`` gives them."""
        counted = self.parse(raw).observe(
            RECORDS, f.count(f.lit(1)).alias("read"), f.count(MALFORMED).alias("malformed")
        )
        good = counted.where(f.col(MALFORMED).isNull()).drop(MALFORMED)
        return good if self.watermark_s is None else good.withWatermark("at", f"{self.watermark_s} seconds")

    def malformed(self, raw: DataFrame) -> DataFrame:
        """The text of the records that could not be used, to be set aside."""
        return self.parse(raw).where(f.col(MALFORMED).isNotNull()).select(MALFORMED)

    def run(self, raw: DataFrame) -> DataFrame:
        """The results of what a source gives."""
        return self.results(self.events(raw))

    def write_batch(self, results: DataFrame, batch: int, *, folder: Path, write: Write) -> None:
        """For ``foreachBatch``: write the results of one batch. ``folder`` is the query's own, as its checkpoint is.

        An application that does not learn may have its results written by any sink of Spark instead.
        """
        if self.learn is None:
            write(results)
        else:
            self.learn(results, batch, folder, write)
