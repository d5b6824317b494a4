"""Tasks say how far they have come with runs that are not done."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.lab.experiments import results as underway
from headgate.lab.experiments.results import TaskProgress, count_rows, forget_underway, packed, run_cases, runs_underway
from headgate.lab.experiments.run_case import Case, Row
from headgate.runtime.simulate import Progress
from tests.lab.experiments.matrices import SMALL, row


def test_what_all_tasks_have_done_adds_up_and_goes_away_when_it_is_written(tmp_path: Path) -> None:
    first, second = TaskProgress(tmp_path), TaskProgress(tmp_path)
    first.report(2, 0.25)
    second.report(0, 0.5)
    assert runs_underway(tmp_path) == pytest.approx(2.75)
    first.close()
    assert runs_underway(tmp_path) == pytest.approx(0.5)
    forget_underway(tmp_path)  # As after a kill.
    assert (runs_underway(tmp_path), list(tmp_path.iterdir())) == (0.0, [])


def test_a_folder_that_cannot_be_written_costs_no_run(tmp_path: Path) -> None:
    lost = TaskProgress(tmp_path / "gone")
    lost.report(1, 0.5)
    lost.close()
    assert runs_underway(tmp_path / "gone") == 0.0


def test_a_run_is_reported_while_it_runs_and_before_any_row_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, int]] = []

    def half_way(case: Case, folder: Path, place: int, progress: Progress) -> Row:
        progress(0.5)
        seen.append((runs_underway(tmp_path), count_rows(tmp_path)))
        return row(place, "hpa", 1.0)

    monkeypatch.setattr("headgate.lab.experiments.results.run_case", half_way)
    monkeypatch.setattr(underway, "REPORTED_EVERY_S", 0.0)
    texts = [packed(place, case) for place, case in enumerate(SMALL.cases())][:3]
    assert run_cases(texts, str(tmp_path), str(tmp_path)) == 3
    assert seen == [(0.5, 0), (1.5, 0), (2.5, 0)]
    assert (runs_underway(tmp_path), count_rows(tmp_path)) == (0.0, 3)
