"""The documents' experiments with real applications, on real Spark, with their times made shorter."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.objective import parse_objective
from headgate.core.types import JSON
from headgate.lab.mst import CLUSTER_START_S, PLOT_KEY, Measurement, MstPlan
from headgate.lab.mst_measuring import measure_mst
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.render.plots import Plot
from headgate.research.live_run import Live, Lived, expected_s, outcome, play


def _by_autopilot(live: Live) -> Live:
    """The same run by the default, which may let executors go ten times as soon as otherwise: runs last minutes."""
    return replace(live, policy="autopilot", settings={"scale_in_window_s": 30.0})


# ---------------------------------------------------------------------------------------------------------- rouaux 5.3

TRACE_S, SPEED = 7200.0, 40.0
"""How much of the Google trace is played, and how fast."""
SWINGS_S = 240.0
"""How long a load lasts that rises and falls twice."""
STATIC_SIZES = (1, 2, 4)
DOCUMENT_PER_S = {1: 18_405, 2: 33_779, 4: 59_118}
"""Medians of the document's figure 5.26."""
DYNAMIC_RULES = """\
version: 1
rules:
  - name: rather busy
    scale_out: job
    by: 1
    never_above: 4
    when: [{metric: utilization, above: 20 %, for_at_least: 6s}]
    with_no_scale_in_since: 12s
  - name: busy
    scale_out: job
    by: 2
    never_above: 4
    when: [{metric: utilization, above: 40 %, for_at_least: 12s}]
    with_no_scale_in_since: 12s
  - name: idle
    scale_in: job
    by: 1
    never_below: 1
    when: [{metric: utilization, below: 20 %, for_at_least: 12s}]
    with_no_scale_out_since: 12s
"""


# To ask for the application takes Spark, and whoever lists the scenarios may have none.
STATIC = MstPlan(STATIC_SIZES, partitions=8)


@scenario(
    "rouaux-5.3.4",
    "The Google-trace query on 1, 2 and 4 executors of this machine: speed-up and efficiency (live).",
    takes_s=CLUSTER_START_S + len(STATIC_SIZES) * STATIC.expected_s_per_size,
)
def static_scaling(progress: Progress) -> ScenarioOutcome:
    result = measure_mst(replace(STATIC, app="cluster-tasks"), _Watcher(progress, len(STATIC_SIZES)))
    measured = {one.executors: one.throughput_per_s for one in result.measurements}
    first, document = measured[1], DOCUMENT_PER_S[1]
    rows: list[dict[str, JSON]] = []
    for size, per_s in measured.items():
        speed_up = None if per_s is None or first is None else per_s / first
        rows.append(
            {
                "executors": size,
                "records_per_s": None if per_s is None else round(per_s),
                "speed_up": None if speed_up is None else round(speed_up, 2),
                "efficiency": None if speed_up is None else round(speed_up / size, 2),
                "document_per_s": DOCUMENT_PER_S[size],
                "document_speed_up": round(DOCUMENT_PER_S[size] / document, 2),
                "document_efficiency": round(DOCUMENT_PER_S[size] / document / size, 2),
            }
        )
    notes = (
        "Throughput once it has settled, of the application that computes and does not wait: executors share the cores "
        "of this machine with the driver and with each other, so more of them than cores gain nothing. The document "
        "has a machine for each instance, and its speed-up is of the run time (figure 5.22: 1.83 and 3.21).",
        "Both operators of the document are stages of one query here; all of them are scaled together.",
    )
    return ScenarioOutcome(
        rows, notes, [Plot("cluster-tasks: maximum sustainable throughput", *result.figure(), PLOT_KEY)]
    )


class _Watcher:
    """Tells progress by the sizes that are done."""

    def __init__(self, progress: Progress, sizes: int) -> None:
        self._progress, self._sizes, self._done = progress, sizes, 0

    def stage(self, text: str) -> None:
        self._progress(self._done / self._sizes)

    def reading(self, executors: int, readings: object) -> None:
        self._progress(min(0.99, (self._done + 0.5) / self._sizes))

    def settled(self, measurement: Measurement) -> None:
        self._done += 1
        self._progress(self._done / self._sizes)


@scenario(
    "rouaux-5.3.5",
    "The Google trace 40 times as fast, under the document's rules and autopilot (live).",
    takes_s=expected_s(2, TRACE_S / SPEED),
)
def dynamic_scaling(progress: Progress) -> ScenarioOutcome:
    by_rules = Live(
        application="cluster-tasks",
        policy="rules",
        settings={"rules": DYNAMIC_RULES},
        # Without the first 40 minutes, in which all that ran before the trace begins seems to start at once.
        workload=f"trace:google-cluster,from=40m,lasting={TRACE_S:g}s",
        speed=SPEED,
        objective=parse_objective("latency p95 < 15s").within(1, 4),
        record_cost_s=0.0015,
    )
    lived = play([by_rules, _by_autopilot(by_rules)], progress)
    return outcome(
        lived,
        (
            "The document replays a month 1,000 times as fast in 43 minutes; the part of the trace at hand spans less "
            "than three hours, so two of them are replayed 40 times as fast, in three minutes, and the times of the "
            "rules are a fifth. Its 10 and 20 % of CPU are 20 and 40 % of the time that executors are busy: a "
            "saturated instance of the document used about half a CPU. At most 4 executors instead of 8.",
            "The document shows that sizes follow the load with a delay, and prints no figures of this run.",
        ),
    )


# ------------------------------------------------------------------------------------------------------ giannakopoulos


@scenario(
    "giannakopoulos-live",
    "click-fraud under a load that swings twice: exploration, then control ahead of it (live).",
    takes_s=expected_s(3, SWINGS_S),
)
def exploration_and_control(progress: Progress) -> ScenarioOutcome:
    hurried = {
        "check_every_s": 20.0,
        "least_readings": 15,
        "stability_threshold": 2.0,
        "idle_for_s": 8.0,
        "horizon_s": 15.0,
        "forecast_step_s": 2.0,
    }
    reactive = Live(
        application="click-fraud",
        policy="reactive",
        settings={"idle_for_s": 15.0},
        # From the lowest point on; what is explored in the first rise and fall is known in the second.
        workload="sine:mean=110,amplitude=90,period=120s | shift -90s",
        seconds=SWINGS_S,
        objective=parse_objective("latency p95 < 15s").within(1, 4),
        record_cost_s=0.008,
    )
    ahead = replace(reactive, policy="proactive", settings=hurried)
    lived = play([reactive, ahead, _by_autopilot(reactive)], progress)
    switched = [_switches(one) for one in lived if one.live.policy == "proactive"]
    return outcome(
        lived,
        (
            "The document's five hours of a bell (§5.2), and what follows with the learned model (§5.3, §5.4), in four "
            "minutes: two rises and falls of 120 s, stability checked every 20 s, a forecast 15 s ahead. "
            f"proactive: {switched[0]}.",
            "The document runs Flink, whose job restarts for each change of size; Spark's goes on.",
        ),
    )


def _switches(lived: Lived) -> str:
    told = [event.detail for event in lived.events if event.kind == "mode-switched"]
    return "; ".join(told) if told else "it explored to the end"


# --------------------------------------------------------------------------------------------------------------- azimi


@scenario(
    "azimi-live",
    "smart-plugs under a load that rises and falls, scaled by q-learning (live).",
    takes_s=expected_s(2, SWINGS_S),
)
def smart_plugs(progress: Progress) -> ScenarioOutcome:
    learning = Live(
        application="smart-plugs",
        policy="q-learning",
        settings={"window_size_s": 6, "decision_interval_s": 6, "latency_granularity_s": 1, "max_latency_s": 30},
        workload="sine:mean=110,amplitude=90,period=120s | shift -90s",
        seconds=SWINGS_S,
        objective=parse_objective("latency p95 < 15s").within(1, 4),
        record_cost_s=0.008,
    )
    lived = play([learning, _by_autopilot(learning)], progress)
    return outcome(
        lived,
        (
            "The document learns for hours, a decision every few minutes; here one every 6 s for four minutes, so "
            "q-learning has made some forty decisions at the end and has hardly begun to learn.",
        ),
    )
