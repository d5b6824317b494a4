"""Three jobs in a row, for examples/pipeline-chain.yaml.

Each record keeps a core of an executor busy for a while by sleeping, as a call to another service would, so that
executors on a small machine behave as they would on machines of their own.
"""

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

RAW = "number BIGINT, key STRING, at_ms BIGINT"
ENRICHED = f"{RAW}, region STRING"
PARSE_S, ENRICH_S, AGGREGATE_S = 0.010, 0.035, 0.004
"""What a record costs in each job."""


def parse(spark, plan):
    """Reads what came in; what is no record is left out."""
    return plan.write(plan.records(spark, RAW).mapInArrow(_busy(PARSE_S), RAW), key="key")


def enrich(spark, plan):
    """Looks up, for each record, the region of its key: the dear one of the three."""
    records = plan.records(spark, RAW).selectExpr("*", "concat('region ', substr(key, -1)) as region")
    return plan.write(records.mapInArrow(_busy(ENRICH_S), ENRICHED), key="region")


def aggregate(spark, plan):
    """Counts the records of each region in what comes together; says for how many records a result stands."""
    counts = plan.records(spark, ENRICHED).mapInArrow(_count, "region STRING, records BIGINT, at_ms BIGINT")
    return plan.write(counts, key="region")


def _busy(cost_s: float):
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(cost_s * batch.num_rows)
            yield batch

    return work


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(AGGREGATE_S * batch.num_rows)
        table = pa.Table.from_batches([batch]).group_by("region").aggregate([([], "count_all"), ("at_ms", "min")])
        columns = {
            "region": table["region"],
            "records": pc.cast(table["count_all"], pa.int64()),
            "at_ms": table["at_ms_min"],
        }
        yield from pa.table(columns).to_batches()
