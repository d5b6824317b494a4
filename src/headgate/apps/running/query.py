"""The streaming query of an application: from a source, through the application, to where its results go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.apps.contract import Application
from headgate.apps.running.folder import RunFolder
from headgate.apps.running.results import Results
from headgate.apps.running.sources import RunSource
from headgate.apps.steady_job import working
from headgate.engines.spark.query_plan import Plan


@dataclass(frozen=True)
class ApplicationQuery:
    """Builds the query each time it is started."""

    application: Application
    source: RunSource
    results: Results
    folder: RunFolder
    trigger_interval_s: float
    record_cost_s: float = 0.0

    def __call__(self, spark: SparkSession, plan: Plan) -> DataStreamWriter:
        raw = self.source.stream(spark, plan.source_options)
        if self.record_cost_s > 0:
            raw = raw.mapInArrow(working(self.record_cost_s), raw.schema)
        return (
            self.application.run(raw)
            .writeStream.queryName(self.application.name)
            .foreachBatch(self._batch_writer())
            .outputMode(self.application.output_mode)
            .trigger(processingTime=f"{round(self.trigger_interval_s * 1000)} milliseconds")
        )

    def _batch_writer(self) -> Callable[[DataFrame, int], None]:
        application, learned, results = self.application, self.folder.learned, self.results

        def write_batch(rows: DataFrame, batch: int) -> None:
            application.write_batch(rows, batch, folder=learned, write=partial(results.write, batch=batch))

        return write_batch
