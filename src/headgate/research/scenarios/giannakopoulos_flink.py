"""giannakopoulos §5.2 and §5.3 on real Flink with Kafka and Prometheus, with minutes for hours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headgate.core.objective import parse_objective
from headgate.core.types import JSON
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.render.figures import figure, key_of
from headgate.render.page import Plot
from headgate.render.story import story_of
from headgate.research.flink import START_S, PolicyReport, report_policies

if TYPE_CHECKING:
    from headgate.local.kafka import LocalKafka
    from headgate.research.flink.click_fraud import FraudReport

SECONDS = 340.0
PEAKS_S = (90.0, 270.0)
"""The peaks of §5.2's bell and of the quicker one of §5.3."""
SIGMAS_S = (30.0, 24.0)
BETWEEN_S = 185.0
"""A time between the two bells."""
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
SETTLED_S = 10.0
POLICIES: Mapping[str, Mapping[str, object]] = {
    "reactive": {"idle_for_s": 12.0, "drain_within_s": 10.0},
    "proactive": {
        "idle_for_s": 12.0,
        "drain_within_s": 10.0,
        "check_every_s": 15.0,
        "least_readings": 15,
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
"""The printed value of each figure."""
GUARDS = {"in_after_out_s": 6.0, "in_after_in_s": 6.0}


@scenario(
    "giannakopoulos-flink",
    "click-fraud on Flink, Kafka and Prometheus: exploration, then control ahead of the load (live).",
    takes_s=len(POLICIES) * (START_S + SECONDS),
)
def run(progress: Progress) -> ScenarioOutcome:
    return outcome_of(report_policies(POLICIES, run_policy, progress))


def run_policy(policy: str, kafka: LocalKafka, progress: Progress) -> PolicyReport:
    """Run a policy with a topic of its own."""
    from headgate.research.flink.click_fraud import FraudReport, play
    from headgate.research.flink.run import FlinkRun

    objective = parse_objective(OBJECTIVE).within(1, MOST)
    run = FlinkRun(policy, WORKLOAD, SECONDS, objective, COST_MS, 1, POLICIES[policy], GUARDS, settled_s=SETTLED_S)
    report = FraudReport(play(run, kafka, progress), DISCARDED_S)
    return PolicyReport(policy, _figures(report), report.course(), _plot(report))


def outcome_of(reports: Sequence[PolicyReport]) -> ScenarioOutcome:
    """Return the table of all policies with the figures of the document."""
    rows: list[Mapping[str, JSON]] = [
        {"what": what, **{report.policy: report.figures[what] for report in reports}, "document": document}
        for what, document in DOCUMENT.items()
    ]
    return ScenarioOutcome(rows, _notes(), [report.plot for report in reports], [report.course for report in reports])


def _figures(report: FraudReport) -> dict[str, JSON]:
    """Return the figures by the names in ``DOCUMENT``."""
    explored_s, violations_s = report.explored_s(), report.violations_s()
    exploring, controlling = report.scale_outs(is_control=False), report.scale_outs(is_control=True)
    first_s = [at_s for at_s in violations_s if at_s < BETWEEN_S]
    values: tuple[JSON, ...] = (
        None if explored_s is None else round(explored_s),
        len(exploring),
        report.ahead(exploring, LATELY_S),
        len(controlling),
        report.ahead(controlling, LATELY_S),
        report.readings(),
        len(first_s),
        sum(at_s >= PEAKS_S[0] for at_s in first_s),
        len(violations_s) - len(first_s),
        round(report.mean_task_managers(to_s=BETWEEN_S), 2),
        round(report.mean_task_managers(BETWEEN_S), 2),
        round(report.mean_slots(), 2),
    )
    return dict(zip(DOCUMENT, values, strict=True))


def _notes() -> tuple[str, ...]:
    return (
        "Real Flink, Kafka and Prometheus on this machine. TaskManagers of one slot are started and stopped as the job "
        f"needs them, {MOST} at most; a record waits {COST_MS:g} ms in the source of click-fraud, so that they add up "
        "though cores are few. A loop that never acts exports backlog and arrival rate, Prometheus scrapes them every "
        "second, and the acting loop queries Prometheus.",
        f"The document's five hours (§5.2) and the hour and a half that follows with the learned model (§5.3) are "
        f"{SECONDS:g} s here: a slow bell and a quicker one, between {LEAST_PER_S:g} and {MOST_PER_S:g} records/s. A "
        "decision every 2 s, stability checked every 15 s. The forecast fits a line to the last 16 s, a ninth of the "
        "second bell like the document's ten minutes, and extends it by 15 s, as start-up times cannot be compressed.",
        "As in the document slow records are the backlog over the arrivals, and a violation is a reading above the "
        f"bound; readings of {DISCARDED_S:g} s after a change are discarded, where the document discards those of four "
        "minutes. Its bound is 10% of the arrivals between two readings, 15 s apart; here it is the arrivals of a "
        f"second. A scale-out counts as ahead if there was no violation in the {LATELY_S:g} s before it.",
    )


def _plot(report: FraudReport) -> Plot:
    result = report.result
    story = story_of(list(result.decisions), result.observations)
    made = figure(result.observations, story, result.run.objective, result.source)
    return Plot(f"{result.run.policy}: source", made["data"], made["layout"], key_of(made))
