"""rouaux-5.3.1, rouaux-5.3.5-rules and rouaux-5.3.6: the Google trace, its rules on a simulated job, its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headgate.core.objective import parse_objective
from headgate.core.types import JSON
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.render.page import line_plot
from headgate.runtime.simulate import simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads.steps import Steps
from headgate.workloads.traces import read_trace, trace_folder

if TYPE_CHECKING:
    import pandas as pd

_PART = (
    "The document has the trace of a month, 144,328,173 events of tasks and 1,186,101 of jobs. Here are the first 2 h "
    "47 min of the events of tasks, which begin with the tasks that ran before."
)
_KINDS = ("SUBMIT", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST", "UPDATE_PENDING", "UPDATE_RUNNING")
_PERCENTILES = {"median": 50, "75th percentile": 75, "90th percentile": 90, "95th percentile": 95}
_DOCUMENT_PER_S = {"median": 31.6, "75th percentile": 62.8, "90th percentile": 116.1, "95th percentile": 179.5}


def _events() -> pd.DataFrame:
    import pandas as pd

    from headgate.apps.records.tasks import COLUMNS, FOLDER, PARTS

    files = [trace_folder() / FOLDER / part for part in PARTS]
    return pd.concat([pd.read_csv(file, names=list(COLUMNS)) for file in files], ignore_index=True)


@scenario("rouaux-5.3.1", "The Google trace: how many events of tasks there are per second, and of which kind.")
def rates(progress: Progress) -> ScenarioOutcome:
    events = _events()
    progress(0.8)
    from_trace = events[events["trace_us"] > 0]
    counts = np.bincount((from_trace["trace_us"] // 60_000_000).to_numpy())
    # The first minute begins at 600 s; the last one is not whole.
    per_s = counts[10:-1] / 60
    rows: list[dict[str, JSON]] = [
        {"what": "events of tasks", "value": len(from_trace), "document": "144,328,173"},
        *(
            {
                "what": f"{name} of the rate, events/s",
                "value": round(float(np.percentile(per_s, share)), 1),
                "document": str(_DOCUMENT_PER_S[name]),
            }
            for name, share in _PERCENTILES.items()
        ),
        *(
            {
                "what": f"share of {name}, %",
                "value": round(100 * float((from_trace["event"] == kind).mean()), 2),
                "document": "not printed",
            }
            for kind, name in enumerate(_KINDS)
        ),
    ]
    plot = line_plot(
        "Events of tasks", "events/s", {"rate": [(float(minute), float(rate)) for minute, rate in enumerate(per_s)]}
    )
    progress(1.0)
    return ScenarioOutcome(rows, (_PART, "Rates are of whole minutes."), [plot])


@scenario(
    "rouaux-5.3.6", "The Google trace: running tasks, and tasks and CPU by machine, every 15 minutes.", takes_s=8.0
)
def query_results(progress: Progress) -> ScenarioOutcome:
    from headgate.apps.cluster_tasks import INTERVAL_S, TaskClusterState

    events = _events()
    progress(0.4)
    state = TaskClusterState.empty()
    rows: list[dict[str, JSON]] = []
    courses: dict[str, list[tuple[float, float | None]]] = {}
    for snapshot in state.snapshots(_changes(events, INTERVAL_S), INTERVAL_S * 1000):
        cluster = snapshot[snapshot["scope"] == "cluster"].set_index("name")
        minutes = int(snapshot["window_end_ms"].iloc[0]) / 60_000 - 10
        row: dict[str, JSON] = {"minutes": round(minutes), "running_tasks": round(cluster.loc["total", "tasks"])}
        for name in ("median", "p75", "p90", "p95"):
            row[f"{name}_tasks"] = round(float(cluster.loc[name, "tasks"]), 1)
            row[f"{name}_cpu"] = round(float(cluster.loc[name, "cpu"]), 3)
            courses.setdefault(name, []).append((minutes, float(cluster.loc[name, "cpu"])))
        rows.append(row)
    progress(1.0)
    totals = [(float(row["minutes"]), float(row["running_tasks"])) for row in rows]
    notes = (
        _PART,
        "Computed by the functions of cluster-tasks. The document has well above 100,000 running tasks at the start of "
        "the month, and about 40,000 at its end.",
    )
    plots = [
        line_plot("Running tasks (figure 5.32)", "tasks", {"total": totals}),
        line_plot("CPU requested by machine (figure 5.35)", "share of the machine", courses),
    ]
    return ScenarioOutcome(rows, notes, plots)


def _changes(events: pd.DataFrame, interval_s: int) -> pd.DataFrame:
    """Return the machine of each task at the end of each interval in which it started, changed or ended."""
    from headgate.apps.cluster_tasks import ENDS, NOWHERE, SCHEDULE, TASK, TRACE_BEGINS_S, UPDATE_RUNNING

    running = events["event"].isin((SCHEDULE, UPDATE_RUNNING))
    reported = events[running | events["event"].isin(ENDS)].copy()
    running = running[reported.index]
    reported["machine"] = reported["machine"].where(running, NOWHERE).fillna(NOWHERE).astype("int64")
    interval_us, begins_us = interval_s * 1_000_000, (TRACE_BEGINS_S % interval_s) * 1_000_000
    ends_us = ((reported["trace_us"] - begins_us) // interval_us + 1) * interval_us + begins_us
    reported["window_end_ms"] = ends_us // 1000
    # In the same microsecond, a task starts before it ends.
    reported["order"] = reported["trace_us"] * 2 + np.where(running, 0, 1)
    last = reported.sort_values("order", kind="stable").drop_duplicates(["window_end_ms", *TASK], keep="last")
    return last.fillna({"cpu": 0.0, "memory": 0.0, "disk": 0.0})


SPEED = 40.0
FROM_S, TRACE_S = 2400.0, 7200.0
RECORD_COST_S = 0.0015
_RULES = """\
version: 1
rules:
  - name: rather busy
    scale_out: job
    by: 1
    never_above: 8
    when: [{{metric: utilization, above: {low} %, for_at_least: 6s}}]
    with_no_scale_in_since: 12s
    trigger: {trigger}
  - name: busy
    scale_out: job
    by: 2
    never_above: 8
    when: [{{metric: utilization, above: {high} %, for_at_least: 12s}}]
    with_no_scale_in_since: 12s
    trigger: {trigger}
  - name: idle
    scale_in: job
    by: 1
    never_below: 1
    when: [{{metric: utilization, below: {low} %, for_at_least: 12s}}]
    with_no_scale_out_since: 12s
    trigger: {trigger}
"""
"""The document's, with times a fifth as long."""


def _accelerated() -> Steps:
    """Return two hours of the trace from its 40th minute on, as in rouaux-5.3.5, at that speed."""
    trace = read_trace("google-cluster")
    first, count = round(FROM_S / trace.step_s), round(TRACE_S / trace.step_s)
    rates = [float(rate) * SPEED for rate in trace.rates_per_s[first : first + count]]
    times_s = [place * trace.step_s / SPEED for place in range(len(rates) + 1)]
    return Steps(times_s, rates, f"Google cluster trace, {SPEED:g} times as fast")


@scenario(
    "rouaux-5.3.5-rules",
    "The rules of the dynamic test on a simulated job: on an edge or a level, with the document's thresholds or ours.",
    takes_s=10.0,
)
def rules_of_dynamic_test(progress: Progress) -> ScenarioOutcome:
    workload = _accelerated()
    rows: list[dict[str, JSON]] = []
    plots = []
    for low, high in ((10, 20), (20, 40)):
        for trigger in ("edge", "level"):
            result = simulate(
                "rules",
                workload,
                objective=parse_objective("latency p95 < 15s").within(1, 8),
                settings={"rules": _RULES.format(low=low, high=high, trigger=trigger)},
                service_rate_per_s=1 / RECORD_COST_S,
                model=MicroBatch(trigger_interval_s=2.0, overhead_s=0.3),
                startup_s=5.0,
                interval_s=2.0,
                seconds=TRACE_S / SPEED,
            )
            sizes = [(seen.at_s / 60, float(seen.instances["job"].planned)) for seen in result.observations]
            changes = [decision.verdicts["job"].change for decision in result.decisions if not decision.is_hold]
            summary = result.summary
            rows.append(
                {
                    "thresholds_pct": f"{low}, {high}",
                    "trigger": trigger,
                    "late_pct": None if summary.late_records_pct is None else round(summary.late_records_pct, 2),
                    "mean_instances": round(summary.mean_instances, 2),
                    "most_instances": max(size for _, size in sizes),
                    "scale_outs": sum(change > 0 for change in changes),
                    "scale_ins": sum(change < 0 for change in changes),
                    "last_instances": sizes[-1][1],
                }
            )
            plots.append(line_plot(f"Size: {low} and {high} %, {trigger}", "instances", {"size": sizes}))
            progress(len(rows) / 4)
    notes = (
        "The document's policy: one instance more above 10 % of CPU, two above 20 %, one fewer below 10 %, between 1 "
        "and 8; times are a fifth of the document's as in rouaux-5.3.5, whose load this is. Ours has 20 and 40 % of "
        "the time that executors are busy, as a saturated instance of the document used about half a CPU.",
        "A simulated job with a batch every 2 s, 1.5 ms per record and 5 s until an instance is ready.",
    )
    return ScenarioOutcome(rows, notes, plots)
