"""How fast a week is simulated: the whole control loop with all its guards, a decision every minute; and what a short
run takes without its decisions."""

from __future__ import annotations

from benchmarks.common import Row, best_s, reference_s, report

from headgate.core.objective import parse_objective
from headgate.runtime.simulate import Model, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

DAY_S = 86400.0
WEEK_S = 7 * DAY_S
INTERVAL_S = 60.0
OBJECTIVE = parse_objective("latency p95 < 10s")
MODELS: dict[str, Model] = {
    "queue": "queue",
    "micro-batch": MicroBatch(trigger_interval_s=60.0),
    "micro-batch, 5 s trigger": MicroBatch(trigger_interval_s=5.0, noise=0.1),
}
WORKLOADS = ("constant:50", "sine:mean=50,amplitude=30,period=1d")
POLICIES = ("static", "reactive")
SLOW_POLICIES = {"quantile": 1.0, "autopilot": 1.0, "mdp-path": 0.25}
"""Policies that take longer, and how many days of each are simulated; the rest of the week is like them."""
SHORT_POLICIES = ("static", "reactive", "autopilot")
SHORT_RUNS = 100
SHORT_S = 600.0


def simulated(policy: str, workload: str, model: Model, seconds: float = WEEK_S) -> None:
    simulate(
        policy,
        parse_workload(workload),
        objective=OBJECTIVE,
        service_rate_per_s=20.0,
        model=model,
        start=5,
        startup_s=60.0,
        interval_s=INTERVAL_S,
        seconds=seconds,
    )


def bench_simulated_week() -> None:
    """Seconds per simulated week and control cycles per second, for each model, workload and policy."""
    yardstick_s = reference_s()
    rows: list[Row] = []
    for model_name, model in MODELS.items():
        for workload in WORKLOADS:
            for policy in POLICIES:
                week_s = best_s(lambda p=policy, w=workload, m=model: simulated(p, w, m), repeats=3)  # type: ignore[misc]
                rows.append(_row(model_name, workload, policy, week_s, yardstick_s))
    for policy, days in SLOW_POLICIES.items():
        part_s = best_s(lambda p=policy, d=days: simulated(p, WORKLOADS[1], "queue", d * DAY_S), repeats=2)  # type: ignore[misc]
        week_s = part_s * WEEK_S / (days * DAY_S)
        rows.append(_row("queue", WORKLOADS[1], policy, week_s, yardstick_s))
    report("simulation", rows)


def bench_short_runs() -> None:
    """Milliseconds of a run of ten minutes, ten decisions long: most of what is left is what a run costs at all."""
    yardstick_s = reference_s()
    rows: list[Row] = []
    for policy in SHORT_POLICIES:
        simulated(policy, WORKLOADS[1], "queue", SHORT_S)  # What is imported and compiled once does not count.
        runs_s = best_s(
            lambda p=policy: [simulated(p, WORKLOADS[1], "queue", SHORT_S) for _ in range(SHORT_RUNS)],  # type: ignore[misc]
            repeats=2,
        )
        one_s = runs_s / SHORT_RUNS
        rows.append(
            {"policy": policy, "ms_per_run": 1000 * one_s, "thousandths_of_reference_loop": 1000 * one_s / yardstick_s}
        )
    report("short-runs", rows)


def _row(model: str, workload: str, policy: str, week_s: float, yardstick_s: float) -> Row:
    return {
        "model": model,
        "workload": workload,
        "policy": policy,
        "seconds_per_week": week_s,
        "cycles_per_second": round(WEEK_S / INTERVAL_S / week_s),
        "times_reference_loop": week_s / yardstick_s,
    }


if __name__ == "__main__":
    bench_simulated_week()
    bench_short_runs()
