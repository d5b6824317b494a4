"""How fast a week is simulated: the whole control loop with all its guards, a decision every minute."""

from __future__ import annotations

from benchmarks.common import Row, best_s, reference_s, report

from headgate.core.objective import parse_objective
from headgate.runtime.simulate import Model, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

WEEK_S = 7 * 86400.0
INTERVAL_S = 60.0
OBJECTIVE = parse_objective("latency p95 < 10s")
MODELS: dict[str, Model] = {
    "queue": "queue",
    "micro-batch": MicroBatch(trigger_interval_s=60.0),
    "micro-batch, 5 s trigger": MicroBatch(trigger_interval_s=5.0, noise=0.1),
}
WORKLOADS = ("constant:50", "sine:mean=50,amplitude=30,period=1d")
POLICIES = ("static", "reactive")


def simulate_week(policy: str, workload: str, model: Model) -> None:
    simulate(
        policy,
        parse_workload(workload),
        objective=OBJECTIVE,
        service_rate_per_s=20.0,
        model=model,
        start=5,
        startup_s=60.0,
        interval_s=INTERVAL_S,
        seconds=WEEK_S,
    )


def bench_simulated_week() -> None:
    """Seconds per simulated week and control cycles per second, for each model, workload and policy."""
    yardstick_s = reference_s()
    cycles = int(WEEK_S / INTERVAL_S)
    rows: list[Row] = []
    for model_name, model in MODELS.items():
        for workload in WORKLOADS:
            for policy in POLICIES:
                week_s = best_s(lambda p=policy, w=workload, m=model: simulate_week(p, w, m), repeats=3)  # type: ignore[misc]
                rows.append(
                    {
                        "model": model_name,
                        "workload": workload,
                        "policy": policy,
                        "seconds_per_week": week_s,
                        "cycles_per_second": round(cycles / week_s),
                        "times_reference_loop": week_s / yardstick_s,
                    }
                )
    report("simulation", rows)


if __name__ == "__main__":
    bench_simulated_week()
