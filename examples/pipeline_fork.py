"""A fork and a join, for examples/pipeline-fork.yaml: records are scored and located side by side, then put together.

As in pipeline_chain.py, records keep executors busy by sleeping.
"""

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

RAW = "number BIGINT, key STRING, at_ms BIGINT"
SPLIT_S, SCORE_S, LOCATE_S = 0.004, 0.030, 0.010
"""What a record costs in each job."""


def split(spark, plan):
    """Reads what came in, and leaves out what is no record."""
    return plan.write(plan.records(spark, RAW).mapInArrow(_busy(SPLIT_S), RAW), key="key")


def score(spark, plan):
    """One branch: gives each record a score. The dear one."""
    records = plan.records(spark, RAW).mapInArrow(_busy(SCORE_S), RAW)
    return plan.write(records.selectExpr("number", "at_ms", "number % 100 as score"), key="number")


def locate(spark, plan):
    """The other branch: finds out where each record is from."""
    records = plan.records(spark, RAW).mapInArrow(_busy(LOCATE_S), RAW)
    return plan.write(records.selectExpr("number", "at_ms", "concat('region ', substr(key, -1)) as region"))


def put_together(spark, plan):
    """Joins both by the number of the record. Records wait two minutes for their other half."""
    scored = _timed(plan.records(spark, "number BIGINT, at_ms BIGINT, score BIGINT", "scored"))
    located = _timed(plan.records(spark, "number BIGINT, at_ms BIGINT, region STRING", "located"))
    both = scored.join(located.drop("at_ms"), ["number", "at"])
    return plan.write(both.select("number", "at_ms", "score", "region"), key="number")


def _timed(records):
    return records.selectExpr("*", "timestamp_millis(at_ms) as at").withWatermark("at", "2 minutes")


def _busy(cost_s: float):
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(cost_s * batch.num_rows)
            yield batch

    return work
