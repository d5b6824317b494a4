"""The streaming query of an application: source, application and sinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headgate.apps.contract import StreamingApplication
from headgate.apps.running.folder import RunFolder
from headgate.apps.running.plan import ApplicationRunPlan
from headgate.apps.running.results import ResultSink
from headgate.apps.running.sources import Offset, RunSource
from headgate.apps.steady_job import working
from headgate.core.errors import EngineError, InputError
from headgate.engines.spark.query_plan import Plan
from headgate.local import kafka
from headgate.local.records import Offsets, topic_offsets
from headgate.local.topics import check_broker, create_topic, require_topic, topics


@dataclass(frozen=True)
class Broker:
    bootstrap: str
    is_ours: bool
    """Whether it was started for this run. It continues to run afterwards."""


def find_broker(plan: ApplicationRunPlan, stage: Callable[[str], None]) -> Broker:
    """Return the given broker, else the local broker, which is started if needed."""
    if plan.bootstrap is not None:
        try:
            check_broker(plan.bootstrap)
        except EngineError as error:  # Before anything was started, an unreachable broker is a wrong address.
            raise InputError(str(error)) from error
        return Broker(plan.bootstrap, is_ours=False)
    found = kafka.status()
    if found is not None and found.gone is None:
        return Broker(found.state.bootstrap, is_ours=False)
    if plan.load is None:
        raise InputError("no broker is up; start one with: headgate kafka up, or name yours with --bootstrap.")
    stage("starting a Kafka broker")
    return Broker(kafka.up().bootstrap, is_ours=True)


def have_topic(plan: ApplicationRunPlan, bootstrap: str, topic: str) -> None:
    """Create the topic of the load if needed; a topic that others fill must exist."""
    if plan.load is None:
        require_topic(bootstrap, topic)
    elif topic not in topics(bootstrap):
        create_topic(bootstrap, topic, plan.partitions)


def reached(bootstrap: str, topic: str) -> tuple[Offset, Offset]:
    """Return the first and the end offsets of a topic, in Spark's form."""
    starts, ends = topic_offsets(bootstrap, topic)
    return _offset(topic, starts), _offset(topic, ends)


def _offset(topic: str, by_partition: Offsets) -> Offset:
    return {topic: {str(number): offset for number, offset in by_partition.items()}}


@dataclass(frozen=True)
class ApplicationQuery:
    """Builds the query each time it is started."""

    application: StreamingApplication
    source: RunSource
    results: ResultSink
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
