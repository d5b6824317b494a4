"""That a journal of a live run can be replayed: with its own sizes it comes to what was measured."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from headgate.journal.writer import SqliteJournal
from headgate.lab.what_if import RecordedJob
from headgate.render.explanation import objective_of, pick_run

WITHIN = 0.15


def assert_it_can_be_replayed(journal: Path) -> None:
    with closing(SqliteJournal.read(journal)) as reader:
        picked = pick_run(reader, None, None)
        observations = reader.observations(run=picked.number)
        decisions = reader.decisions(run=picked.number)
    objective = objective_of(picked.run)
    job = RecordedJob.of(observations, decisions, objective, picked.run.operators[0])
    measured, again = job.measured(objective, objective), job.again(objective)
    assert again.instance_seconds == pytest.approx(measured.instance_seconds, rel=WITHIN)
    # Of next to no late records, a share says nothing.
    assert again.late_records_pct == pytest.approx(measured.late_records_pct, rel=WITHIN, abs=2.0)
