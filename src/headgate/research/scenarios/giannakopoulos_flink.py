"""giannakopoulos §5.2 and §5.3 on real Flink with Kafka and Prometheus, their hours made minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.core.objective import parse_objective
from headgate.core.types import JSON
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.render.figures import KEY, figure
from headgate.render.plots import Plot
from headgate.render.story import story_of
from headgate.research.flink import START_S

if TYPE_CHECKING:
    from headgate.local.kafka import LocalKafka
    from headgate.research.flink.click_fraud_report import FraudReport

SECONDS = 340.0
PEAKS_S = (90.0, 270.0)
"""Of §5.2's bell, and of §5.3's, which is quicker."""
SIGMAS_S = (30.0, 24.0)
BETWEEN_S = 185.0
"""When the one is over and the other is still to come."""
LEAST_PER_S, MOST_PER_S = 40.0, 540.0
WORKLOAD = (
    f"gaussian:base={LEAST_PER_S:g},peak={MOST_PER_S:g},center={PEAKS_S[0]:g}s,sigma={SIGMAS_S[0]:g}s + "
    f"gaussian:base=0,peak={MOST_PER_S - LEAST_PER_S:g},center={PEAKS_S[1]:g}s,sigma={SIGMAS_S[1]:g}s"
)
OBJECTIVE = "slow records < 100%"
COST_MS = 5.0
MOST = 4
DISCARDED_S = 4.0
"""The document's four minutes."""
LATELY_S = 10.0
POLICIES: Mapping[str, Mapping[str, object]] = {
    "reactive": {"idle_for_s": 12.0, "drain_within_s": 10.0},
    "proactive": {
        "idle_for_s": 12.0,
        "drain_within_s": 10.0,
        "check_every_s": 15.0,
        "least_readings": 15,
        "stability_threshold": 2.0,
        "horizon_s": 15.0,
        "forecast_step_s": 2.0,
        # The document's ten minutes are a ninth of its second bell.
        "forecaster": "linear-trend:window=8",
        "scale_in_window_s": 12.0,
    },
}
DOCUMENT = {
    "exploration lasts, s": "5 h, the whole experiment",
    "scale-outs in exploration": "each after a violation",
    "of these ahead of one": "0",
    "scale-outs in control": "5.3: not printed",
    "of these ahead of a violation": "5.3: all",
    "readings": "",
    "violations in the first bell": "5.2: one a scale-out",
    "of these while the load falls": "0",
    "violations in the second bell": "5.3: some / 0",
    "mean TaskManagers in the first bell": "",
    "mean TaskManagers in the second": "5.3: 1.84 / 1.81",
    "mean slots in use": "",
}
"""What it prints of each figure."""
GUARDS = {"in_after_out_s": 6.0, "in_after_in_s": 6.0}


@scenario(
    "giannakopoulos-flink",
    "click-fraud on Flink, Kafka and Prometheus: exploration, then control ahead of the load (live).",
    takes_s=len(POLICIES) * (START_S + SECONDS),
)
def run(progress: Progress) -> ScenarioOutcome:
    from headgate.local.kafka import LocalKafka

    ran: list[Contest] = []
    with LocalKafka() as kafka:
        for policy in POLICIES:
            ran.append(contest(policy, kafka, lambda share: progress((len(ran) + share) / len(POLICIES))))
    return together(ran)


@dataclass(frozen=True)
class Contest:
    """What one policy came to."""

    policy: str
    figures: Mapping[str, JSON]
    course: Mapping[str, JSON]
    plot: Plot


def contest(policy: str, kafka: LocalKafka, progress: Progress) -> Contest:
    """Run one of the policies, with a topic of its own."""
    from headgate.research.flink.click_fraud import FraudRun, play
    from headgate.research.flink.click_fraud_report import FraudReport

    objective = parse_objective(OBJECTIVE).within(1, MOST)
    ran = play(FraudRun(policy, WORKLOAD, SECONDS, objective, COST_MS, POLICIES[policy], GUARDS), kafka, progress)
    told = FraudReport(ran, DISCARDED_S)
    return Contest(policy, _figures(told), told.course(), _plot(told))


def together(ran: Sequence[Contest]) -> ScenarioOutcome:
    """All that ran, beside what the document prints."""
    rows: list[Mapping[str, JSON]] = [
        {"what": what, **{one.policy: one.figures[what] for one in ran}, "document": document}
        for what, document in DOCUMENT.items()
    ]
    return ScenarioOutcome(rows, _notes(), [one.plot for one in ran], [one.course for one in ran])


def _figures(told: FraudReport) -> dict[str, JSON]:
    """By the names of ``DOCUMENT``."""
    explored_s, violations_s = told.explored_s(), told.violations_s()
    exploring, controlling = told.scale_outs(is_control=False), told.scale_outs(is_control=True)
    first_s = [at_s for at_s in violations_s if at_s < BETWEEN_S]
    values: tuple[JSON, ...] = (
        None if explored_s is None else round(explored_s),
        len(exploring),
        told.ahead(exploring, LATELY_S),
        len(controlling),
        told.ahead(controlling, LATELY_S),
        told.readings(),
        len(first_s),
        sum(at_s >= PEAKS_S[0] for at_s in first_s),
        len(violations_s) - len(first_s),
        round(told.mean_task_managers(to_s=BETWEEN_S), 2),
        round(told.mean_task_managers(BETWEEN_S), 2),
        round(told.mean_slots(), 2),
    )
    return dict(zip(DOCUMENT, values, strict=True))


def _notes() -> tuple[str, ...]:
    return (
        "Real Flink, Kafka and Prometheus on this machine. TaskManagers of one slot are started and stopped as the job "
        f"needs them, {MOST} at most; a record waits {COST_MS:g} ms where click-fraud reads it, so that they add up "
        "though cores are few. What waits and what comes is read by a loop that never acts, shown on a page, read from "
        "there by Prometheus every second, and asked of it by the loop that acts.",
        f"The document's five hours (§5.2) and the hour and a half that follows with the learned model (§5.3) are "
        f"{SECONDS:g} s here: a slow bell and a quicker one, between {LEAST_PER_S:g} and {MOST_PER_S:g} records/s. A "
        "decision every 2 s, stability checked every 15 s. The line of the load is drawn through 16 s, a ninth of the "
        "second bell as the document's ten minutes are of its own, and followed for 15 s: starts cannot be compressed.",
        "As in the document slow records are those that wait over those that come, and a violation is a reading above "
        f"the bound; readings of {DISCARDED_S:g} s after a change are discarded, where the document discards those of "
        "four minutes. Its bound is 10% of what comes between two readings, of which it takes one every 15 s; here it "
        "is what comes within a second. A scale-out was ahead when nothing had been violated for "
        f"{LATELY_S:g} s.",
    )


def _plot(told: FraudReport) -> Plot:
    ran = told.ran
    story = story_of(list(ran.decisions), ran.observations)
    made = figure(ran.observations, story, ran.run.objective, ran.source)
    return Plot(f"{ran.run.policy}: what reads the clicks", made["data"], made["layout"], KEY)
