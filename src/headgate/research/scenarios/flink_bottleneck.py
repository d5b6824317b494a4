"""Policies on real Flink: three steps, of which the middle step is too slow for the peak of the load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headgate.core.objective import parse_objective
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.research.flink import START_S, PolicyReport, report_policies

if TYPE_CHECKING:
    from headgate.local.kafka import LocalKafka

SECONDS = 180.0
WORKLOAD = "gaussian:base=40,peak=400,center=70s,sigma=20s"
OBJECTIVE = "latency p95 < 8s"
COST_MS = 8.0
MOST = 6
MIDDLE = "Calc"
CONTENDERS: Mapping[str, Mapping[str, object]] = {
    "autopilot": {"scale_in_window_s": 30.0},
    # Its defaults with seconds for minutes.
    "flink-autoscaler": {
        "metrics_window_s": 15.0,
        "stabilization_interval_s": 5.0,
        "catch_up_duration_s": 30.0,
        "restart_time_s": 5.0,
        "backlog_lag_threshold_s": 5.0,
        "observe_lag_threshold_s": 0.5,
        "scale_in_interval_s": 60.0,
    },
    "ds2": {},
}


@scenario(
    "flink-bottleneck",
    "Three steps on Flink with a slow middle, under a load that rises and falls (live).",
    takes_s=len(CONTENDERS) * (START_S + SECONDS),
)
def run(progress: Progress) -> ScenarioOutcome:
    return outcome_of(report_policies(CONTENDERS, run_contender, progress))


def run_contender(policy: str, kafka: LocalKafka, progress: Progress) -> PolicyReport:
    """Run a contender with topics of its own."""
    from headgate.research.flink.report import course, plot, row
    from headgate.research.flink.run import FlinkRun, play

    objective = parse_objective(OBJECTIVE).within(1, MOST)
    result = play(FlinkRun(policy, WORKLOAD, SECONDS, objective, COST_MS, MOST, CONTENDERS[policy]), kafka, progress)
    return PolicyReport(policy, row(result), course(result), plot(result, MIDDLE))


def outcome_of(reports: Sequence[PolicyReport]) -> ScenarioOutcome:
    """Return the table of all contenders."""
    from headgate.research.flink.report import NOTES

    notes = (
        f"A bell-shaped load of {SECONDS:g} s from 40 to 400 records/s and back; a record takes {COST_MS:g} ms in the "
        f"middle step, so that a subtask processes 125 records/s. At most {MOST} subtasks of a step; the objective is "
        f"{OBJECTIVE}. The load changes in minutes instead of hours, so flink-autoscaler has its default times with "
        "seconds for minutes; autopilot may scale in after 30 s instead of 60; ds2 has its defaults. most is the "
        "largest number of subtasks of the source, the middle and the sink.",
    )
    return ScenarioOutcome(
        [report.figures for report in reports],
        (*NOTES, *notes),
        [report.plot for report in reports],
        [report.course for report in reports],
    )
