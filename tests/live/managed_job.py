"""A driver of its own for a managed query, to be killed: counts numbered records by key, written once per batch.

``python managed_job.py FILE``: the file says what to run, as ``Job``. Events go to the standard output, one JSON each.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

import headgate
from headgate.apps.load_source import LoadSource
from headgate.core.types import Event
from headgate.engines.spark.managed_query import Checkpoint

KEYS = 50


@dataclass(frozen=True)
class Job:
    """What to run, in ``folder``."""

    folder: str
    started_s: float
    """When its load begins; the same after a restart."""
    workload: str
    seconds: float
    total: int
    master: str = "local[2]"
    settings: dict[str, str] = field(default_factory=dict)
    run: dict[str, object] = field(default_factory=dict)
    """Keywords of ``headgate.run``."""
    change_after: int | None = None
    """Ask for another number of state partitions once so many records are done, and there are others."""
    change_to: int = 8
    cost_s: float = 0.0
    """How long a record keeps the task busy that keeps its key's state."""

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(Path(self.folder) / "checkpoint")

    @property
    def written(self) -> Path:
        return Path(self.folder) / "written"

    def save(self) -> Path:
        file = Path(self.folder) / "job.json"
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return file

    def done(self) -> int:
        """Records up to which all batches are committed."""
        last = self.checkpoint.last_committed
        if last is None:
            return 0
        plan = (self.checkpoint.path / "offsets" / str(last)).read_text(encoding="utf-8")
        return int(json.loads(plan.splitlines()[-1])["records"])

    def counts(self) -> dict[int, int]:
        """The newest count of each key in the sink."""
        newest: dict[int, int] = {}
        for file in sorted(self.written.glob("*.json"), key=lambda each: int(each.stem)):
            newest |= {int(key): int(count) for key, count in json.loads(file.read_text(encoding="utf-8")).items()}
        return newest

    def expected(self) -> dict[int, int]:
        return dict(Counter(number % KEYS for number in range(self.total)))

    def build(self, spark: SparkSession, plan: headgate.Plan) -> DataStreamWriter:
        records = (
            spark.readStream.format(LoadSource.name())
            .options(workload=self.workload, started_s=str(self.started_s), seconds=str(self.seconds), partitions="2")
            .options(**plan.source_options)
            .load()
        )
        keyed = records.select("id", (f.col("id") % KEYS).alias("key"))
        if self.cost_s:
            # By key first: the work is then done where the state lies.
            keyed = keyed.repartition("key").where(_working(self.cost_s)("id"))
        counted = keyed.groupBy("key").count()
        return counted.writeStream.outputMode("update").foreachBatch(self.write)

    def write(self, results: DataFrame, batch: int) -> None:
        """One file per batch: a batch that is run again writes the same file again."""
        self.written.mkdir(exist_ok=True)
        body = json.dumps({str(row["key"]): row["count"] for row in results.collect()})
        draft = self.written / f"{batch}.draft"
        draft.write_text(body, encoding="utf-8")
        draft.replace(self.written / f"{batch}.json")


def _working(cost_s: float) -> Callable[..., Column]:
    """Takes its time for each record, and keeps them all."""

    def work(number: int) -> bool:
        time.sleep(cost_s)
        return number >= 0

    # Spark would do what is deterministic before the records are spread by key.
    return cast("Callable[..., Column]", f.udf(work, "boolean").asNondeterministic())


def main(file: str) -> None:
    job = Job(**json.loads(Path(file).read_text(encoding="utf-8")))
    builder = SparkSession.builder.master(job.master).appName("managed")
    for key, value in job.settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(LoadSource)

    def tell(event: Event) -> None:
        sys.stdout.write(json.dumps({"at_s": event.at_s, "kind": event.kind, "detail": event.detail}) + "\n")
        sys.stdout.flush()

    with headgate.run(job.build, checkpoint=job.checkpoint.path, spark=spark, on_event=tell, **job.run) as running:  # type: ignore[arg-type]
        requested = False
        while not running.wait(0.2):
            done = job.done()
            if job.change_after is not None and done >= job.change_after and not requested:
                requested = True
                running.change(state_partitions=job.change_to)
            if done >= job.total and job.checkpoint.is_settled:
                break
    spark.stop()


if __name__ == "__main__":
    # Nobody waits for a driver that is to end while Spark starts.
    main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0)
