"""What the autoscaler costs the driver it runs in: time per decision, share of a core, memory.

A real job runs on a real local cluster with one executor. Its driver (this Python process and its JVM) is measured for
a while without the autoscaler, then as long with it, in the same run; then single cycles are timed.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from pathlib import Path

import psutil
from benchmarks.common import Row, report

import headgate
from headgate.apps.steady_job import SteadyJob
from headgate.local.cluster import LocalCluster
from headgate.runtime.autoscaler import DEFAULT_INTERVAL_S

PHASE_S = 30.0
CYCLES = 60


def driver() -> list[psutil.Process]:
    """This process and the JVM that it drives."""
    own = psutil.Process()
    jvms = [one for one in own.children() if "org.apache.spark.deploy.SparkSubmit" in one.cmdline()]
    return [own, *jvms]


def cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def phase(processes: list[psutil.Process]) -> float:
    """The share of a core that the driver takes over one phase."""
    began_s, before_s = time.monotonic(), cpu_s(processes)
    time.sleep(PHASE_S)
    return (cpu_s(processes) - before_s) / (time.monotonic() - began_s)


def bench_autoscaler() -> None:
    with tempfile.TemporaryDirectory() as folder, LocalCluster(slots=1) as cluster:
        spark = cluster.session("bench", executors=1)
        job = SteadyJob(Path(folder), "constant:20", seconds=3600.0, cost_s=0.01, trigger_interval_s=1.0, partitions=2)
        job.warm_up(spark)
        query = job.start(spark)
        processes = driver()
        time.sleep(10.0)
        without = phase(processes)
        gc.collect()
        memory_before = processes[0].memory_info().rss
        autoscaler = headgate.autoscale(spark, executors=(1, 1), take_over=True, journal=Path(folder, "journal.db"))
        with_it = phase(processes)
        gc.collect()
        memory = processes[0].memory_info().rss - memory_before
        loop = autoscaler.loop
        timings_ms, cpu_ms = [], []
        for _ in range(CYCLES):
            began_s, began_cpu_s = time.perf_counter(), time.thread_time()
            loop.tick()
            timings_ms.append(1000 * (time.perf_counter() - began_s))
            cpu_ms.append(1000 * (time.thread_time() - began_cpu_s))
            time.sleep(0.1)
        autoscaler.stop()
        query.stop()
        spark.stop()
    median_ms = statistics.median(timings_ms)
    every = f"every {DEFAULT_INTERVAL_S:g} s"
    measured = [
        ("a cycle: observe, decide, apply, journal (median)", "ms", median_ms),
        ("a cycle (95 % are faster)", "ms", statistics.quantiles(timings_ms, n=20)[-1]),
        ("a cycle, CPU time in Python (median)", "ms", statistics.median(cpu_ms)),
        ("driver without the autoscaler", "% of a core", 100 * without),
        (f"driver with it, a cycle {every}", "% of a core", 100 * with_it),
        (f"cycles alone, {every}", "% of a core", 100 * median_ms / 1000 / DEFAULT_INTERVAL_S),
        ("memory added to the driver's Python", "MiB", memory / 2**20),
    ]
    rows: list[Row] = [{"what": what, "unit": unit, "value": value} for what, unit, value in measured]
    report("autoscaler", rows)


if __name__ == "__main__":
    bench_autoscaler()
