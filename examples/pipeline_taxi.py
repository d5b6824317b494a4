"""Three operators in a row whose speeds differ slightly, for examples/pipeline-taxi.yaml.

An executor serves 37, 33 and 27 records per second: each waits its time, as if for a service elsewhere, so that
executors on a small machine behave as they would on machines of their own.
"""

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa

TRIP = "number BIGINT, key STRING, at_ms BIGINT"


def first(spark, plan):
    return _served(spark, plan, 37)


def second(spark, plan):
    return _served(spark, plan, 33)


def third(spark, plan):
    return _served(spark, plan, 27)


def _served(spark, plan, per_s: float):
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows / per_s)
            yield batch

    return plan.write(plan.records(spark, TRIP).mapInArrow(work, TRIP), key="key")
