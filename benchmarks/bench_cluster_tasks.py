"""How fast `cluster-tasks` gets through the real trace on one core, beside a plain read of the same records."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.common import Row, report
from pyspark.sql import SparkSession

from headgate.apps.cluster_tasks import results, trace_events
from headgate.workloads.traces import trace_folder

ROUNDS = 3
DOCUMENT_PER_S = 18_400
"""One instance in the document."""


def bench_cluster_tasks() -> None:
    """Records per second, of which the first round warms up."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    try:
        events = trace_events(spark, trace_folder().resolve())
        records = events.count()
        work: dict[str, Callable[[], object]] = {
            "plain read": lambda: events.write.format("noop").mode("overwrite").save(),
            "cluster-tasks": lambda: results(events).write.format("noop").mode("overwrite").save(),
        }
        seconds = {name: _best_s(step) for name, step in work.items()}
    finally:
        spark.stop()
    rows: list[Row] = [
        {
            "what": name,
            "records": records,
            "seconds": taken_s,
            "records_per_s": round(records / taken_s),
            "times_the_document": records / taken_s / DOCUMENT_PER_S,
            "times_a_plain_read": taken_s / seconds["plain read"],
        }
        for name, taken_s in seconds.items()
    ]
    report("cluster-tasks", rows)


def _best_s(work: Callable[[], object]) -> float:
    """By the clock: the work is done in another process than this."""
    work()
    taken_s = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        taken_s.append(time.perf_counter() - start)
    return min(taken_s)


if __name__ == "__main__":
    bench_cluster_tasks()
