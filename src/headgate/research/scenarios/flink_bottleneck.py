"""Three steps on real Flink, of which the middle one is too slow for the load that comes: who keeps what is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.core.objective import parse_objective
from headgate.core.types import JSON
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.render.plots import Plot
from headgate.research.flink import START_S

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
    # Its own times, of which a minute is a second here.
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
    from headgate.local.kafka import LocalKafka

    ran: list[Contest] = []
    with LocalKafka() as kafka:
        for policy in CONTENDERS:
            ran.append(contest(policy, kafka, lambda share: progress((len(ran) + share) / len(CONTENDERS))))
    return together(ran)


@dataclass(frozen=True)
class Contest:
    """What one policy came to."""

    row: Mapping[str, JSON]
    course: Mapping[str, JSON]
    plot: Plot


def contest(policy: str, kafka: LocalKafka, progress: Progress) -> Contest:
    """Run one of the contenders, with topics of its own."""
    from headgate.research.flink.report import course, plot, row
    from headgate.research.flink.run import FlinkRun, play

    objective = parse_objective(OBJECTIVE).within(1, MOST)
    ran = play(FlinkRun(policy, WORKLOAD, SECONDS, objective, COST_MS, MOST, CONTENDERS[policy]), kafka, progress)
    return Contest(row(ran), course(ran), plot(ran, MIDDLE))


def together(ran: Sequence[Contest]) -> ScenarioOutcome:
    """All that ran, side by side."""
    from headgate.research.flink.report import NOTES

    notes = (
        f"A bell-shaped load of {SECONDS:g} s from 40 to 400 records/s and back; a record takes {COST_MS:g} ms in the "
        f"middle step, so that one subtask gets through 125 records/s. At most {MOST} subtasks of a step; asked is "
        f"{OBJECTIVE}. What takes an hour or two elsewhere takes two minutes here: the times of flink-autoscaler "
        "are those of its own defaults with a second for a minute; autopilot may let go after 30 s instead of 60; ds2 "
        "is as it comes. most is the largest number of subtasks of the source, the middle and the sink.",
    )
    return ScenarioOutcome(
        [one.row for one in ran], (*NOTES, *notes), [one.plot for one in ran], [one.course for one in ran]
    )
