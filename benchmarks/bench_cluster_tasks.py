"""How fast `cluster-tasks` gets through the real trace on one core, next to a plain read of the same records."""

from __future__ import annotations

import os
import time

from benchmarks.common import Row, report
from pyspark.sql import DataFrame, SparkSession

from headgate.apps.cluster_tasks import changes, results, trace_events
from headgate.workloads.traces import trace_folder

ROUNDS = 6


def bench_cluster_tasks() -> None:
    """Records per second on one core, which the JVM and Python's workers share; the first round warms up."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    os.sched_setaffinity(0, cores)
    try:
        events = trace_events(spark, trace_folder().resolve())
        records = events.count()
        steps = {"plain read": events, "changes of tasks": changes(events), "cluster-tasks": results(events)}
        seconds = {name: _best_s(step) for name, step in steps.items()}
    finally:
        spark.stop()
    rows: list[Row] = [
        {
            "what": name,
            "records": records,
            "seconds": taken_s,
            "records_per_s": round(records / taken_s),
            "times_a_plain_read": taken_s / seconds["plain read"],
        }
        for name, taken_s in seconds.items()
    ]
    report("cluster-tasks", rows)


def _best_s(step: DataFrame) -> float:
    """The shortest of a few runs by the clock: the work is done in other processes than this."""
    taken_s = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        step.write.format("noop").mode("overwrite").save()
        taken_s.append(time.perf_counter() - start)
    return min(taken_s)


if __name__ == "__main__":
    bench_cluster_tasks()
