"""The course of a tuning, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import objective_from
from headgate.lab.experiments.results import LabFolder
from headgate.lab.experiments.run_case import JobPart
from headgate.lab.tuning.folder import TuneFolder, tuned_to_json
from headgate.lab.tuning.on_spark import CachedRuns, write_tuned
from headgate.lab.tuning.plan import job_of, offered, stretches
from headgate.lab.tuning.pruning import Prune
from headgate.lab.tuning.report import front_rows, notes_on, outcome_of
from headgate.lab.tuning.trial import Minimise, TrialStatus
from headgate.lab.tuning.tune import tune
from headgate.runtime.settings_file import read_settings
from tests.cli.commands import refused
from tests.lab.tuning.tables import Table, near_a_target, plan_for


def test_better_settings_are_found_and_hold_on_load_held_back() -> None:
    tuned = tune(plan_for(trials=80), Table(near_a_target))
    assert tuned.verdict.takes_found
    assert tuned.found.seen.total_hours < tuned.trials[0].seen.total_hours
    assert float(tuned.recommended["target"]) == pytest.approx(0.5, abs=0.1)
    assert tuned.found in tuned.front
    assert front_rows(tuned)[0]["trial"] == "default"
    assert outcome_of(tuned).plots[0].title.startswith("Cost against")


def test_the_default_stays_where_nothing_is_better() -> None:
    def dearer(settings: Mapping[str, str], part: str, seed: int) -> tuple[float, float]:
        return 4 + (abs(float(settings["target"]) - 0.7) if "target" in settings else 0), 1.0

    tuned = tune(plan_for(only=["target"]), Table(dearer))
    assert (tuned.found.number, dict(tuned.recommended)) == (0, {})
    assert tuned.verdict.sentence.startswith("The default stays")


def test_what_is_cheap_only_on_the_load_of_the_search_is_not_recommended() -> None:
    def overfitted(settings: Mapping[str, str], part: str, seed: int) -> tuple[float, float]:
        hours, _ = near_a_target(settings, part, seed)
        return hours, 20.0 if part.startswith("held back") and "target" in settings else 1.0

    tuned = tune(plan_for(), Table(overfitted))
    assert tuned.found.number != 0
    assert dict(tuned.recommended) == {}
    assert "misses 20 % of load held back" in tuned.verdict.sentence


@pytest.mark.parametrize("prune", list(Prune))
def test_stopping_saves_runs_and_each_that_is_stopped_says_why(prune: Prune) -> None:
    table = Table(near_a_target)
    tuned = tune(plan_for(prune=prune), table)
    assert len(tuned.trials) == 41
    assert all(trial.why for trial in tuned.trials if trial.status is TrialStatus.STOPPED)
    assert (tuned.saved_pct > 0) is (prune is not Prune.NO)
    held_back = 2 * len(tuned.plan.held_back) * len(tuned.plan.seeds)
    assert len(table.requested) == tuned.runs + held_back


def test_a_trial_that_fails_is_reported_and_the_search_continues() -> None:
    class Failing(Table):
        def _row(self, case):  # type: ignore[no-untyped-def]
            row = super()._row(case)
            return row | {"error": "too small"} if float(case.settings.get("target", 1)) < 0.3 else row

    tuned = tune(plan_for(), Failing(near_a_target))
    failed = [trial for trial in tuned.trials if trial.status is TrialStatus.FAILED]
    assert failed
    assert failed[0].why == "too small"
    assert any("trials failed: too small" in note for note in notes_on(tuned))
    with pytest.raises(InputError, match="with settings default cannot be run on this load: too small"):
        tune(plan_for(space=plan_for().space), _always_failing)


def _always_failing(cases: Sequence[object]) -> list[dict[str, object]]:
    return [{"error": "too small", "late_records_pct": None, "slo_violation_pct": None} for _ in cases]


def in_process(texts: Sequence[str], work: Callable[[Iterable[str]], int]) -> None:
    work(texts)


def test_a_tuning_that_was_stopped_goes_on_and_comes_to_the_same(tmp_path: Path) -> None:
    objective = objective_from("latency p95 < 10s").within(1, 8)
    load = offered("sine:mean=30,amplitude=15,period=10m | noise 20%", 1200.0, tmp_path)
    training, held_back = stretches(load, None, objective, JobPart("queue", 10.0), parts=2, held_back=0.3)
    plan = plan_for(training=training, held_back=held_back, trials=3, job=JobPart("queue", 10.0, startup_s=10.0))
    folder = TuneFolder(tmp_path / "whole")
    assert folder.begin(plan, {}) is False
    tuned = tune(plan, CachedRuns(folder.runs, tmp_path, in_process))
    write_tuned(folder, tuned, tmp_path)

    halted = TuneFolder(tmp_path / "halted")
    halted.begin(plan, {})
    worked: list[int] = []

    def until_tired(texts: Sequence[str], work: Callable[[Iterable[str]], int]) -> None:
        if len(worked) == 2:
            raise KeyboardInterrupt
        worked.append(work(texts))

    with pytest.raises(KeyboardInterrupt):
        tune(plan, CachedRuns(halted.runs, tmp_path, until_tired))
    assert halted.begin(plan, {}) is True
    cached = CachedRuns(halted.runs, tmp_path, in_process)
    assert len(cached) == sum(worked)
    assert tuned_to_json(tune(plan, cached)) == tuned_to_json(tuned)

    assert json.loads(folder.result.read_text())["version"] == 1
    assert read_settings(folder.settings).policy == "hpa"
    with pytest.raises(InputError, match="is of headgate lab tune"):
        LabFolder(folder.path).manifest()
    with pytest.raises(InputError, match=r"it is of another tuning \(other trials\)"):
        folder.begin(plan_for(training=training, held_back=held_back, trials=4, job=plan.job), {})


def test_a_recommendation_reads_back_as_settings(tmp_path: Path) -> None:
    tuned = tune(plan_for(trials=80, minimise=Minimise.COST), Table(near_a_target))
    folder = TuneFolder(tmp_path)
    write_tuned(folder, tuned, tmp_path)
    expected, _ = tuned.plan.space.split(tuned.recommended)
    assert read_settings(folder.settings).settings == expected
    assert expected


def test_a_job_is_a_number_or_a_service_model(tmp_path: Path) -> None:
    assert job_of("10", None, None, "spark", tmp_path) == JobPart("queue 10/s", 10.0)
    modelled = job_of("saturating:rate=10,contention=0.05,startup=30s", None, None, "spark", tmp_path)
    assert (modelled.rate_per_s, modelled.startup_s) == (10.0, 30.0)
    assert modelled.batches_up_to(4)


TUNE = ("lab", "tune", "--policy", "hpa", "--service-rate", "10", "--search", "recursive-random")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workload", "constant:10"), "has no end; say with --seconds"),
        (("--workload", "constant:10", "--seconds", "2m"), "84s of load in 4 parts makes 21s each"),
        (("--workload", "constant:10", "--seconds", "1h", "--held-back", "100%"), "--held-back 100% is not allowed"),
        (("--workload", "constant:10", "--seconds", "1h", "--minimise", "both"), "does not go with --search"),
        (("--workload", "constant:10", "--seconds", "1h", "--minimise", "all"), "must be one of both, cost"),
        (("--workload", "constant:10", "--seconds", "1h", "--fix", "target=-1"), "hpa setting target '-1'"),
        (("--workload", "constant:10", "--seconds", "1h", "--search", "grid"), "unknown search 'grid'"),
    ],
)
def test_what_cannot_be_tuned_is_reported_in_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*TUNE, *arguments)
