"""How close ``headgate replay`` comes to runs that are in journals: a table of what was measured and what is simulated.

    python -m benchmarks.replay_journals artifacts/benchmarks/kafka-load/*.db

Of each journal the newest run is taken: its own load with its own sizes, and the policy that acted deciding again.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from headgate.core.errors import InputError
from headgate.journal.writer import SqliteJournal
from headgate.lab.what_if import CandidatePolicy, RecordedJob
from headgate.render.explanation import objective_of, pick_run
from headgate.runtime.summary import Summary

HEAD = (
    "journal",
    "executor-seconds",
    "held up as recorded",
    "decided anew",
    "late %",
    "held up as recorded",
    "as policies are",
    "decided anew",
)


def row_of(path: Path) -> list[str]:
    with closing(SqliteJournal.read(path)) as reader:
        picked = pick_run(reader, None, None)
        observations = reader.observations(run=picked.number)
        decisions = reader.decisions(run=picked.number)
    objective, run = objective_of(picked.run), picked.run
    try:
        job = RecordedJob.of(observations, decisions, objective, run.operators[0])
    except InputError as error:
        return [path.stem, str(error)]
    resimulated, _ = job.under(CandidatePolicy(run.policy, run.settings), objective, seed=run.seed)
    measured, again, predicted = job.measured(objective, objective), job.again(objective), job.predicted(objective)
    return [
        path.stem,
        *(f"{summary.instance_seconds:.0f}" for summary in (measured, again, resimulated)),
        *(_late(summary) for summary in (measured, again, predicted, resimulated)),
    ]


def _late(summary: Summary) -> str:
    return "–" if summary.late_records_pct is None else f"{summary.late_records_pct:.1f}"


if __name__ == "__main__":
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    for argument in sys.argv[1:]:
        print(f"| {' | '.join(row_of(Path(argument)))} |", flush=True)
