"""Experiments of the documents on real Spark: an application under a load, once per policy, and what is told of it.

They last minutes where the documents' lasted hours, so all times are shorter by a factor that each scenario tells.
Records wait instead of being computed on, which lets a few executors on a small machine add up.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.core.objective import Objective
from headgate.core.slo import LatencySlo
from headgate.core.types import JSON, Decision, Event
from headgate.journal.sqlite import SqliteJournal
from headgate.lab.scenario import Progress, ScenarioOutcome
from headgate.render.figures import KEY, figure
from headgate.render.plots import Plot
from headgate.render.story import story_of

if TYPE_CHECKING:
    from headgate.apps.running.run import RunResult

START_S = 20.0
"""About what a cluster, a driver and the first executor take to start; for the progress."""
NOTES = (
    "Real Spark on this machine, each run with a cluster of its own. A record keeps an executor waiting for a fixed "
    "time, as if for a service elsewhere, so that executors add up though they share a few cores; what the application "
    "computes comes on top.",
    "late_pct is the share of records whose batch ended later than the objective allows, by what was read of the job; "
    "executor_seconds are those of executors that were asked for or there. exact tells whether the results are those "
    "of a batch computation over the same records.",
)


@dataclass(frozen=True)
class Live:
    """One run."""

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
class Lived:
    """What a run came to."""

    live: Live
    result: RunResult
    decisions: Sequence[Decision]
    events: Sequence[Event]

    def row(self) -> dict[str, JSON]:
        summary, differences = self.result.record.summary(), self.result.differences
        sizes = [one.instances["job"].planned for one in self.result.record.observations if "job" in one.instances]
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
        """Load, latency and size as they were read, for those who draw it themselves."""
        slo = self.live.objective.slo
        return {
            "policy": self.live.policy,
            "application": self.live.application,
            "bound_s": slo.bound_s if isinstance(slo, LatencySlo) else None,
            "series": self.result.record.series(),
        }

    def plot(self) -> Plot:
        observations = self.result.record.observations
        made = figure(observations, story_of(list(self.decisions), observations), self.live.objective, "job")
        return Plot(f"{self.live.policy} on {self.live.application}", made["data"], made["layout"], KEY)


def expected_s(runs: int, seconds: float) -> float:
    """About how long so many runs take, one after the other, whose load lasts so long."""
    return runs * (START_S + seconds)


def play(runs: Sequence[Live], progress: Progress) -> list[Lived]:
    """One run after the other."""
    lived: list[Lived] = []
    for live in runs:
        lived.append(_played(live, lambda share: progress((len(lived) + share) / len(runs))))
    return lived


def outcome(lived: Sequence[Lived], notes: Sequence[str], rows: Sequence[Mapping[str, JSON]] = ()) -> ScenarioOutcome:
    """The runs side by side; ``rows`` stand before them."""
    return ScenarioOutcome(
        [*rows, *(one.row() for one in lived)],
        (*NOTES, *notes),
        [one.plot() for one in lived],
        [one.course() for one in lived],
    )


def _played(live: Live, progress: Progress) -> Lived:
    from headgate.apps.registry import find_application
    from headgate.apps.running.accounts import Totals
    from headgate.apps.running.folder import RunFolder
    from headgate.apps.running.plan import RunPlan
    from headgate.apps.running.run import RunView, run_application
    from headgate.workloads.load import Load
    from headgate.workloads.replay import ReplayProgress

    load = Load(live.workload, live.application, live.seconds, live.speed)
    began_s, lasting_s = time.monotonic(), START_S + (load.lasting_s or 0.0)

    class View(RunView):
        def stage(self, text: str) -> None:
            self._tell()

        def records(self, totals: Totals, load: ReplayProgress | None) -> None:
            self._tell()

        def _tell(self) -> None:
            progress(min(0.99, (time.monotonic() - began_s) / lasting_s))

    with tempfile.TemporaryDirectory(prefix="headgate-lab-") as directory:
        folder = RunFolder.at(Path(directory), None)
        plan = RunPlan(
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
        result = run_application(plan, View())
        with closing(SqliteJournal.read(folder.journal)) as journal:
            found = Lived(live, result, journal.decisions(), journal.events())
    progress(1.0)
    return found
