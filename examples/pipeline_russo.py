"""Three operators in a row as in russo's evaluation: one instance serves 3.7, 3.3 and 2.7 records a second."""

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

RECORD = "number BIGINT, key STRING, at_ms BIGINT"


def first(spark, plan):
    return _operator(spark, plan, 3.7)


def second(spark, plan):
    return _operator(spark, plan, 3.3)


def third(spark, plan):
    return _operator(spark, plan, 2.7)


def _operator(spark, plan, rate_per_s: float):
    def serve(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows / rate_per_s)
            yield batch

    return plan.write(plan.records(spark, RECORD).mapInArrow(serve, RECORD), key="key")
