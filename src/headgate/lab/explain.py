"""Explains a run from its journal, with what fixed sizes and shadow policies would have come to under its load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from os import PathLike
from pathlib import Path

from headgate.core.errors import InputError
from headgate.journal.database import JournalReader
from headgate.journal.sqlite import SqliteJournal
from headgate.lab.what_if import CandidatePolicy, fixed_sizes_of, what_if
from headgate.render.explanation import Explanation, JournalRun, explanation_of, objective_of, pick_run
from headgate.runtime.summary import Summary


def explain(
    journal: str | PathLike[str],
    *,
    run: int | None = None,
    job: str | None = None,
    last: int | None = 20,
    shadows: bool = False,
) -> Explanation:
    """Explain what was decided in a run, when and why, from its journal.

    Args:
        journal: The journal's file; it may be in use.
        run: Which run; by default the newest.
        job: Which job, in a journal of several; by default the one whose run is the newest.
        last: Explain this many changes and stopped changes, the last ones; ``None`` for the whole run.
        shadows: Also compare shadow policies with what was decided.

    Returns:
        The explanation as data: ``verdict`` says whether the objective was met and at what cost, ``rows`` are the story
        in words, ``sentences`` describe the whole run, ``to_json()`` is all of it as plain data, and
        ``print(explanation)`` shows it.
    """
    with closing(SqliteJournal.read(Path(journal))) as reader:
        picked = pick_run(reader, run, job)
        explanation = explanation_of(reader, picked, last, shadows=shadows, fixed_sizes=fixed_sizes_of)
        if explanation.shadows:
            return replace(explanation, what_if=_what_if(reader, picked, explanation.shadows))
        return explanation


def _what_if(reader: JournalReader, picked: JournalRun, shadows: Iterable[str]) -> Mapping[str, Summary] | str:
    """Simulate the acting policy and its shadows on a job calibrated to this run; or return why not."""
    run = picked.run
    if len(run.operators) > 1:
        return f"the job has {len(run.operators)} operators; the simulator is calibrated to jobs of one."
    contenders = [CandidatePolicy(run.policy, run.settings), *(CandidatePolicy(name, {}) for name in shadows)]
    try:
        observations, decisions = reader.observations(run=picked.number), reader.decisions(run=picked.number)
        objective, operator = objective_of(run), run.operators[0]
        return what_if(observations, contenders, objective, operator, decisions=decisions, seed=run.seed)
    except InputError as error:
        return str(error)
