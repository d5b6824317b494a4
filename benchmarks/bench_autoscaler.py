"""What the autoscaler costs the driver it runs in: time per decision, share of a core, memory.

A real job runs on a real local cluster with one executor, a batch a second. Its driver (this Python process and its
JVM) is measured by turns without the autoscaler and with it, in the same run; then single cycles are timed. What it
keeps in memory is measured over a day that is played: everything but Spark is real, and the clock is fast.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from benchmarks.common import Row, report
from benchmarks.played_day import PARTITIONS, play_day
from pyspark.sql import SparkSession

import headgate
from headgate.apps.steady_job import SteadyJob
from headgate.local.spark.cluster import LocalCluster
from headgate.runtime.autoscaler import DEFAULT_INTERVAL_S, Autoscaler

TURNS = 6
TURN_S = 20.0
SETTLED_S = 5.0
CYCLES = 60


def driver() -> list[psutil.Process]:
    """This process and the JVM that it drives."""
    own = psutil.Process()
    jvms = [process for process in own.children() if "org.apache.spark.deploy.SparkSubmit" in process.cmdline()]
    return [own, *jvms]


def share_of_a_core(processes: list[psutil.Process]) -> float:
    """What the driver takes over one turn."""
    began_s, before_s = time.monotonic(), _cpu_s(processes)
    time.sleep(TURN_S)
    return (_cpu_s(processes) - before_s) / (time.monotonic() - began_s)


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


class Calls:
    """Counts the calls from Python into the JVM."""

    def __init__(self, spark: SparkSession) -> None:
        client: Any = type(spark.sparkContext._gateway._gateway_client)  # type: ignore[union-attr]  # noqa: SLF001
        send = client.send_command
        self.count = 0

        def counted(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            return send(*arguments, **options)

        client.send_command = counted


def bench_autoscaler() -> None:
    with tempfile.TemporaryDirectory() as folder, LocalCluster(slots=1) as cluster:
        spark = cluster.session("bench", executors=1)
        job = SteadyJob(Path(folder), "constant:20", seconds=3600.0, cost_s=0.01, trigger_interval_s=1.0, partitions=2)
        job.warm_up(spark)
        query = job.start(spark)
        processes = driver()
        time.sleep(20.0)

        def start(interval_s: float = DEFAULT_INTERVAL_S) -> Autoscaler:
            return headgate.autoscale(
                spark, executors=(1, 1), take_over=True, journal=Path(folder, "journal.db"), interval=interval_s
            )

        without, with_it = [], []
        for _ in range(TURNS):
            without.append(share_of_a_core(processes))
            with start():
                time.sleep(SETTLED_S)
                with_it.append(share_of_a_core(processes))
            time.sleep(SETTLED_S)
        timings_ms, cpu_ms, calls = [], [], []
        with start(3600.0) as autoscaler:
            time.sleep(SETTLED_S)
            counted = Calls(spark)
            for _ in range(CYCLES):
                before, began_s, began_cpu_s = counted.count, time.perf_counter(), time.thread_time()
                autoscaler.loop.tick()
                timings_ms.append(1000 * (time.perf_counter() - began_s))
                cpu_ms.append(1000 * (time.thread_time() - began_cpu_s))
                calls.append(counted.count - before)
                time.sleep(0.93)
        query.stop()
        spark.stop()
    gc.collect()
    more = [100 * (after - before) for before, after in zip(without, with_it, strict=True)]
    day = play_day()
    every = f"every {DEFAULT_INTERVAL_S:g} s"
    measured = [
        ("a cycle: observe, decide, apply, journal (median)", "ms", statistics.median(timings_ms)),
        ("a cycle (95 % are faster)", "ms", statistics.quantiles(timings_ms, n=20)[-1]),
        ("a cycle, CPU time in Python (median)", "ms", statistics.median(cpu_ms)),
        ("a cycle, calls into the JVM (median)", "calls", statistics.median(calls)),
        (f"driver without the autoscaler (median of {TURNS} turns)", "% of a core", 100 * statistics.median(without)),
        (f"driver with it, a cycle {every} (median of {TURNS})", "% of a core", 100 * statistics.median(with_it)),
        ("what it takes more (median of the pairs)", "% of a core", statistics.median(more)),
        ("what it takes more (of all turns together)", "% of a core", statistics.mean(more)),
        (f"a day of cycles {every}, {PARTITIONS} partitions: memory at the end", "MiB", day.memory_mib),
        ("a day of cycles: without Spark, each", "ms", day.cycle_ms),
    ]
    rows: list[Row] = [{"what": what, "unit": unit, "value": value} for what, unit, value in measured]
    report("autoscaler", rows)


if __name__ == "__main__":
    bench_autoscaler()
