"""What long simulations and fine intervals take: the memory of a thousand days against ten, and the time of a decision
every tenth of a second against one every minute.

``python -m benchmarks.bench_long_simulation 10000`` measures as many days as one likes; 10,000 take the better part of
an hour.
"""

from __future__ import annotations

import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks.common import Row, report

from headgate.core.objective import parse_objective
from headgate.runtime.simulate import Model, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

DAY_S = 86400.0
OBJECTIVE = parse_objective("latency p95 < 10s")
MODELS: dict[str, Model] = {"queue": "queue", "micro-batch": MicroBatch(trigger_interval_s=60.0)}
FEW_DAYS = 10
MANY_DAYS = 1000
INTERVALS_S = {"static": 300.0, "hpa": 300.0, "autopilot": 3600.0}
"""How often each policy decides in the long runs: those that take longer, less often."""
CYCLES = {"static": 20_000, "hpa": 20_000, "threshold": 20_000, "reactive": 20_000, "autopilot": 2_000}
"""Decisions of the runs with fine intervals."""
COARSE_S = 60.0
FINE_S = 0.1


def simulated(policy: str, model: str, interval_s: float, seconds: float) -> tuple[float, float]:
    """Seconds of CPU, and the most memory in megabytes that the process ever had."""
    begun_s = time.process_time()
    result = simulate(
        policy,
        parse_workload("sine:mean=50,amplitude=30,period=1d"),
        objective=OBJECTIVE,
        service_rate_per_s=20.0,
        model=MODELS[model],
        start=5,
        startup_s=60.0,
        interval_s=interval_s,
        seconds=seconds,
    )
    assert result.summary.mean_instances > 0
    return time.process_time() - begun_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(policy: str, model: str, interval_s: float, seconds: float) -> tuple[float, float]:
    """The same in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(simulated, policy, model, interval_s, seconds).result()


def bench_long_runs(days: float = MANY_DAYS) -> None:
    """Peak memory of many simulated days and how many times that of a few it is, for each model and policy."""
    rows: list[Row] = []
    for model in MODELS:
        for policy, interval_s in INTERVALS_S.items():
            _, few_mb = apart(policy, model, interval_s, FEW_DAYS * DAY_S)
            took_s, many_mb = apart(policy, model, interval_s, days * DAY_S)
            rows.append(
                {
                    "model": model,
                    "policy": policy,
                    "days": days,
                    "peak_mb": many_mb,
                    "times_ten_days": many_mb / few_mb,
                    "cpu_ms_per_day": 1000 * took_s / days,
                }
            )
    report("long-simulation", rows)


def bench_fine_intervals() -> None:
    """Microseconds of a decision at a fine interval, and how many times that at a coarse one it is."""
    rows: list[Row] = []
    for policy, cycles in CYCLES.items():
        simulated(policy, "queue", COARSE_S, 10 * COARSE_S)  # What is imported and compiled once does not count.
        coarse_s, _ = simulated(policy, "queue", COARSE_S, cycles * COARSE_S)
        fine_s, _ = simulated(policy, "queue", FINE_S, cycles * FINE_S)
        rows.append(
            {
                "policy": policy,
                "cycles": cycles,
                "us_per_cycle_at_60_s": 1e6 * coarse_s / cycles,
                "us_per_cycle_at_0.1_s": 1e6 * fine_s / cycles,
                "times": fine_s / coarse_s,
            }
        )
    report("fine-intervals", rows)


if __name__ == "__main__":
    bench_long_runs(float(sys.argv[1]) if len(sys.argv) > 1 else MANY_DAYS)
    bench_fine_intervals()
