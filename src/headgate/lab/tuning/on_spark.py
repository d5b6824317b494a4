"""Runs of a tuning, spread over Spark and cached as Parquet.

A search is deterministic, so a stopped one resumes by requesting the same runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from headgate.core.errors import EngineError
from headgate.journal.codec import to_json
from headgate.lab.experiments.results import SPARK_START_S, STEP_S, packed, read_part, work_in
from headgate.lab.experiments.run_case import Case, Row
from headgate.lab.scenario import Progress
from headgate.lab.tuning.folder import TuneFolder, tuned_to_json, write_settings, write_trials
from headgate.lab.tuning.plan import TunePlan
from headgate.lab.tuning.search import require_optuna
from headgate.lab.tuning.tune import TuningResult, tune
from headgate.render.page import write_file

Work: TypeAlias = Callable[[Iterable[str]], int]
Spread: TypeAlias = Callable[[Sequence[str], Work], None]
"""Runs the work on texts, on Spark or elsewhere."""


class CachedRuns:
    """Runs cases that have no cached row yet, and returns the rows of all requested cases."""

    def __init__(self, runs: Path, home: Path, spread: Spread) -> None:
        self._runs, self._home, self._spread = runs, home, spread
        self._rows: dict[str, Row] = {}
        self._read: set[str] = set()
        self._requested = 0
        self._look(repair=True)

    def __len__(self) -> int:
        return len(self._rows)

    def __call__(self, cases: Sequence[Case]) -> list[Row]:
        waiting = [
            packed(self._requested + place, case) for place, case in enumerate(cases) if case.key not in self._rows
        ]
        self._requested += len(cases)
        if waiting:
            self._spread(waiting, work_in(self._home, self._runs))
            self._look(repair=False)
        missing = sum(case.key not in self._rows for case in cases)
        if missing:
            raise EngineError(
                f"{missing} of {len(cases)} runs did not come back to {self._runs}; "
                "on a cluster, all workers must reach that folder."
            )
        return [self._rows[case.key] for case in cases]

    def _look(self, *, repair: bool) -> None:
        """Read the files that were not there before."""
        for path in sorted(self._runs.glob("part-*.parquet")):
            if path.name in self._read:
                continue
            self._read.add(path.name)
            table = read_part(path, repair=repair)
            if table is not None:
                self._rows |= {row["key"]: row for row in table.to_pylist()}


def expected_s(plan: TunePlan, cores: int) -> float:
    """Return the approximate time of a tuning whose trials all run to the end."""
    searched_s = (plan.trials + 1) * sum(stretch.load.seconds for stretch in plan.training)
    judged_s = 2 * sum(stretch.load.seconds for stretch in plan.held_back)
    steps = len(plan.seeds) * (searched_s + judged_s) / plan.interval_s
    return SPARK_START_S + STEP_S * steps / cores


def run_tuning(
    plan: TunePlan, folder: TuneFolder, home: Path, master: str, progress: Progress, report: Callable[[str], None]
) -> TuningResult:
    """Run or resume a plan on Spark, and write its result into its folder.

    ``home`` has the files that it names; ``report`` receives a sentence when a plan is resumed.
    """
    from headgate.engines.spark.spread import batch_session, spread, versions

    brought = versions()
    if plan.search == "optuna":
        # Another version may take another course.
        brought["optuna"] = str(require_optuna().__version__)
    folder.begin(plan, brought)
    with batch_session(master, "headgate lab tune", folder.log) as session:

        def on_spark(texts: Sequence[str], work: Work) -> None:
            spread(session, texts, work, watch=lambda: None)

        cached = CachedRuns(folder.runs, home, on_spark)
        if len(cached):
            report(f"{len(cached)} runs are there already, and are not run again.")
        tuned = tune(plan, cached, progress)
    write_tuned(folder, tuned, home)
    return tuned


def write_tuned(folder: TuneFolder, tuned: TuningResult, home: Path) -> None:
    """Write all files except the rows of the runs."""
    write_trials(folder.trials, tuned.trials)
    write_file(folder.result, to_json(tuned_to_json(tuned), indent=2) + "\n")
    write_settings(folder.settings, tuned, home)
