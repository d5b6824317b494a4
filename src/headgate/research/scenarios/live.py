"""The documents' experiments with real applications on real Spark, with shorter times.

Records wait instead of being computed on, so that a few executors on a small machine add up.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.core.objective import Objective, parse_objective
from headgate.core.types import JSON, Decision, Event
from headgate.journal.writer import SqliteJournal
from headgate.lab.mst import CLUSTER_START_S, PLOT_KEY, Measurement, MstPlan
from headgate.lab.mst_measuring import measure_mst
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.render.figures import figure, key_of
from headgate.render.page import Plot
from headgate.render.story import story_of

if TYPE_CHECKING:
    from headgate.apps.running.run import RunResult


START_S = 20.0
"""About how long a cluster, a driver and the first executor take to start; for the progress."""
NOTES = (
    "Real Spark on this machine, each run with a cluster of its own. A record keeps an executor waiting for a fixed "
    "time, as if for a service elsewhere, so that executors add up though they share a few cores; what the application "
    "computes comes on top.",
    "late_pct is the share of records whose batch ended later than the objective allows, from readings of the job; "
    "executor_seconds counts executors that were requested or running. exact says whether the results equal those of a "
    "batch computation over the same records.",
)


@dataclass(frozen=True)
class LiveRun:
    """An application under a load, scaled by a policy."""

    application: str
    policy: str
    workload: str
    objective: Objective
    """With the fewest and the most executors."""
    record_cost_s: float
    seconds: float | None = None
    speed: float = 1.0
    settings: Mapping[str, object] = field(default_factory=dict)
    interval_s: float = 2.0


@dataclass(frozen=True)
class LiveResult:
    """The results of a run."""

    live: LiveRun
    result: RunResult
    decisions: Sequence[Decision]
    events: Sequence[Event]

    def row(self) -> dict[str, JSON]:
        summary, differences = self.result.record.summary(), self.result.differences
        sizes = [
            observation.instances["job"].planned
            for observation in self.result.record.observations
            if "job" in observation.instances
        ]
        return {
            "policy": self.live.policy,
            "records": self.result.totals.read,
            "late_pct": None if summary.late_records_pct is None else round(summary.late_records_pct, 2),
            "executor_seconds": round(summary.instance_seconds),
            "mean_executors": round(summary.mean_instances, 2),
            "most_executors": max(sizes, default=None),
            "changes": summary.rescales,
            "exact": None if differences is None else differences.is_exact,
        }

    def course(self) -> dict[str, JSON]:
        """Return load, latency and size as they were read, as plain data."""
        return {
            "policy": self.live.policy,
            "application": self.live.application,
            "bound_s": self.live.objective.late_after_s,
            "series": self.result.record.series(),
        }

    def plot(self) -> Plot:
        observations = self.result.record.observations
        made = figure(observations, story_of(list(self.decisions), observations), self.live.objective, "job")
        return Plot(f"{self.live.policy} on {self.live.application}", made["data"], made["layout"], key_of(made))


def expected_s(runs: int, seconds: float) -> float:
    """Return about how long this many consecutive runs take with a load of this length."""
    return runs * (START_S + seconds)


def play(runs: Sequence[LiveRun], progress: Progress) -> list[LiveResult]:
    """Run each in turn."""
    results: list[LiveResult] = []
    for live in runs:
        results.append(_played(live, lambda share: progress((len(results) + share) / len(runs))))
    return results


def outcome(
    results: Sequence[LiveResult], notes: Sequence[str], rows: Sequence[Mapping[str, JSON]] = ()
) -> ScenarioOutcome:
    """Return the table of all runs, after ``rows``."""
    return ScenarioOutcome(
        [*rows, *(result.row() for result in results)],
        (*NOTES, *notes),
        [result.plot() for result in results],
        [result.course() for result in results],
    )


def _played(live: LiveRun, progress: Progress) -> LiveResult:
    from headgate.apps.registry import find_application
    from headgate.apps.running.accounts import Totals
    from headgate.apps.running.folder import RunFolder
    from headgate.apps.running.plan import ApplicationRunPlan
    from headgate.apps.running.run import RunView, run_application
    from headgate.workloads.load import Load
    from headgate.workloads.replay import ReplayProgress

    load = Load(live.workload, live.application, live.seconds, live.speed)
    began_s, lasting_s = time.monotonic(), START_S + (load.lasting_s or 0.0)

    class _ShareOfTime(RunView):
        def stage(self, text: str) -> None:
            self._report()

        def records(self, totals: Totals, load: ReplayProgress | None) -> None:
            self._report()

        def _report(self) -> None:
            progress(min(0.99, (time.monotonic() - began_s) / lasting_s))

    with tempfile.TemporaryDirectory(prefix="headgate-lab-") as directory:
        folder = RunFolder.at(Path(directory), None)
        plan = ApplicationRunPlan(
            application=find_application(live.application),
            source="embedded",
            folder=folder,
            objective=live.objective,
            policy=live.policy,
            settings=live.settings,
            load=load,
            interval_s=live.interval_s,
            record_cost_s=live.record_cost_s,
            check=True,
        )
        result = run_application(plan, _ShareOfTime())
        with closing(SqliteJournal.read(folder.journal)) as journal:
            found = LiveResult(live, result, journal.decisions(), journal.events())
    progress(1.0)
    return found


def _by_autopilot(live: LiveRun) -> LiveRun:
    """Return the same run with autopilot, which scales in sooner than by default since runs last minutes."""
    return replace(live, policy="autopilot", settings={"scale_in_window_s": 30.0})


# ---------------------------------------------------------------------------------------------------------- rouaux 5.3

TRACE_S, SPEED = 7200.0, 40.0
"""The length of the replayed part of the Google trace, and its speed-up."""
SWINGS_S = 240.0
"""The length of a load that rises and falls twice."""
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


# Finding the application imports Spark, which may be absent where scenarios are only listed.
STATIC = MstPlan(STATIC_SIZES, partitions=8)


@scenario(
    "rouaux-5.3.4",
    "The Google-trace query on 1, 2 and 4 executors of this machine: speed-up and efficiency (live).",
    takes_s=CLUSTER_START_S + len(STATIC_SIZES) * STATIC.expected_s_per_size,
)
def static_scaling(progress: Progress) -> ScenarioOutcome:
    result = measure_mst(replace(STATIC, app="cluster-tasks"), _Watcher(progress, len(STATIC_SIZES)))
    measured = {size.executors: size.throughput_per_s for size in result.measurements}
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
        "Settled throughput of the application that computes instead of waiting: executors share the cores of this "
        "machine with the driver and with each other, so more executors than cores gain nothing. The document has a "
        "machine for each instance, and its speed-up is of the run time (figure 5.22: 1.83 and 3.21).",
        "Both operators of the document are stages of one query here; all of them are scaled together.",
    )
    return ScenarioOutcome(
        rows, notes, [Plot("cluster-tasks: maximum sustainable throughput", *result.figure(), PLOT_KEY)]
    )


class _Watcher:
    """Reports progress by the number of finished sizes."""

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
    by_rules = LiveRun(
        application="cluster-tasks",
        policy="rules",
        settings={"rules": DYNAMIC_RULES},
        # Skips the first 40 minutes, in which everything that ran before the trace seems to start at once.
        workload=f"trace:google-cluster,from=40m,lasting={TRACE_S:g}s",
        speed=SPEED,
        objective=parse_objective("latency p95 < 15s").within(1, 4),
        record_cost_s=0.0015,
    )
    results = play([by_rules, _by_autopilot(by_rules)], progress)
    return outcome(
        results,
        (
            "The document replays a month 1,000 times as fast in 43 minutes; the available part of the trace spans "
            "less than three hours, so two of them are replayed 40 times as fast, in three minutes, and the times of "
            "the rules are a fifth. Its 10 and 20 % of CPU are 20 and 40 % of the time that executors are busy: a "
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
        "idle_for_s": 8.0,
        "horizon_s": 15.0,
        "forecast_step_s": 2.0,
    }
    reactive = LiveRun(
        application="click-fraud",
        policy="reactive",
        settings={"idle_for_s": 15.0},
        # Starts at the lowest point; the first rise and fall is explored, the second is controlled.
        workload="sine:mean=110,amplitude=90,period=120s | shift -90s",
        seconds=SWINGS_S,
        objective=parse_objective("latency p95 < 15s").within(1, 4),
        record_cost_s=0.008,
    )
    ahead = replace(reactive, policy="proactive", settings=hurried)
    results = play([reactive, ahead, _by_autopilot(reactive)], progress)
    switched = [_switches(result) for result in results if result.live.policy == "proactive"]
    return outcome(
        results,
        (
            "The document's five hours of a bell (§5.2), and what follows with the learned model (§5.3, §5.4), in four "
            "minutes: two rises and falls of 120 s, stability checked every 20 s, a forecast 15 s ahead. "
            f"proactive: {switched[0]}.",
            "The document runs Flink, whose job restarts for each change of size; Spark's keeps running.",
        ),
    )


def _switches(results: LiveResult) -> str:
    details = [event.detail for event in results.events if event.kind == "mode-switched"]
    return "; ".join(details) or "it explored to the end"


# --------------------------------------------------------------------------------------------------------------- azimi


@scenario(
    "azimi-live",
    "smart-plugs under a load that rises and falls, scaled by q-learning (live).",
    takes_s=expected_s(2, SWINGS_S),
)
def smart_plugs(progress: Progress) -> ScenarioOutcome:
    learning = LiveRun(
        application="smart-plugs",
        policy="q-learning",
        settings={"window_size_s": 6, "decision_interval_s": 6, "latency_granularity_s": 1, "max_latency_s": 30},
        workload="sine:mean=110,amplitude=90,period=120s | shift -90s",
        seconds=SWINGS_S,
        objective=parse_objective("latency p95 < 15s").within(1, 4),
        record_cost_s=0.008,
    )
    results = play([learning, _by_autopilot(learning)], progress)
    return outcome(
        results,
        (
            "Every experiment of the document lasts an hour, with 20 to 60 decisions; here it is four minutes, with a "
            "decision every 6 s and so some forty of them.",
        ),
    )
