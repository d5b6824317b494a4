"""What explain and report have in common: which run of a journal is meant, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.types import Instant, Observation, Run, Sample
from headgate.core.units import format_duration

if TYPE_CHECKING:
    from headgate.core.objective import Objective
    from headgate.core.startup import StartupSummary
    from headgate.journal.budgets import Standing
    from headgate.journal.reader import JournalReader
    from headgate.journal.retention import Thinned

SIMULATED_BEFORE_S = 1e9
"""Instants below this (2001) are not of a wall clock: they count from the start of a simulated run."""

JournalArgument = Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal's file.", show_default=False)]
RunOption = Annotated[
    int | None,
    typer.Option("--run", metavar="NUMBER", help="Which run; the newest where not given.", show_default=False),
]
JobOption = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="NAME",
        help="Which job, in a journal of several; the one that began a run last where not given.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class JournalRun:
    """A run of a journal, beside which others."""

    number: int
    run: Run
    of_job: int
    """Runs of the same job in the journal."""
    other_jobs: Sequence[str]

    @property
    def is_live(self) -> bool:
        return self.run.started_s >= SIMULATED_BEFORE_S

    @property
    def in_words(self) -> str:
        """What it is the run of."""
        if not self.other_jobs:
            return f"of {self.of_job} in this journal"
        times = "1 run" if self.of_job == 1 else f"{self.of_job} runs"
        others = ", ".join(self.other_jobs)
        return f"of job {self.run.job}, which has {times} in this journal; others, by --job: {others}"

    def when(self, at_s: Instant) -> str:
        """A time in the run: by the local clock, or since the start of a simulated one."""
        if self.is_live:
            return f"{local_time(at_s):%Y-%m-%d %H:%M:%S}"
        return f"+{format_duration(at_s - self.run.started_s)}"


def objective_of(run: Run) -> Objective:
    """What was asked of a run, with its bounds where there were any."""
    from headgate.core.objective import parse_objective

    objective = parse_objective(run.objective)
    return objective if run.bounds is None else objective.within(*run.bounds)


def pick_run(reader: JournalReader, number: int | None, job: str | None) -> JournalRun:
    """The run that was asked for, or the newest one of the job that was, or of all."""
    runs, jobs = dict(reader.runs()), reader.jobs()
    if not runs:
        raise InputError(f"journal {reader.place} has no run yet.")
    if job is not None and job not in jobs:
        raise UnknownNameError("job", job, jobs)
    of_job = [one for one, run in runs.items() if job in (None, run.job)]
    if number is None:
        number = of_job[-1]
    if number not in of_job:
        whose = "" if job is None else f" of job {job!r}"
        raise InputError(f"journal {reader.place} has no run {number}{whose}; it has {', '.join(map(str, of_job))}.")
    run = runs[number]
    siblings = [one for one in runs.values() if one.job == run.job]
    return JournalRun(number, run, len(siblings), [name for name in jobs if name != run.job])


def local_time(at_s: Instant) -> datetime:
    return datetime.fromtimestamp(at_s).astimezone()


# ------------------------------------------------------------------------------------------- what there is to say of it


def startups_of(reader: JournalReader, run: Run, observations: Sequence[Observation] = ()) -> dict[str, StartupSummary]:
    """How long new instances of the run's operators took: as its job has learned, or as these observations tell."""
    from headgate.core.startup import startup_summaries
    from headgate.runtime.learned import startup_key

    found = startup_summaries(reader.load_state(startup_key(run.job)), observations)
    return {operator: found[operator] for operator in run.operators if operator in found}


def startups_in_words(startups: Mapping[str, StartupSummary]) -> list[str]:
    """One sentence for each operator."""
    from headgate.core.startup import startup_in_words

    named = len(startups) > 1
    return [
        f"Start-up{f' of {operator}' if named else ''}, {startup_in_words(summary)}."
        for operator, summary in startups.items()
    ]


def standing_of(reader: JournalReader, picked: JournalRun) -> Standing:
    """Where the job stood at the end of a run: as its loop saved it, or for an earlier run as its observations tell."""
    from headgate.journal.budgets import replayed_standing, saved_standing
    from headgate.runtime.learned import budget_key

    objective = objective_of(picked.run)
    newest = reader.newest_run(picked.run.job)
    saved = reader.load_state(budget_key(picked.run.job))
    if saved is not None and newest is not None and newest[0] == picked.number:
        return saved_standing(saved, objective)
    return replayed_standing(reader.observations(run=picked.number), objective, picked.run.operators)


def thinned_in_words(picked: JournalRun, thinned: Thinned) -> list[str]:
    """What is no longer there, in one sentence; nothing while all of it is."""
    spans = (("an hour", thinned.hours_until_s), ("a minute", thinned.minutes_until_s))
    told = [f"one {span} until {picked.when(until_s)}" for span, until_s in spans if until_s is not None]
    if not told:
        return []
    return [f"Thinned: of entries that only repeated each other there is {', '.join(told)}; changes are all there."]


def newest_parts(observations: Sequence[Observation]) -> dict[str, Mapping[str, Sample]]:
    """The newest reading of each part of an operator that has several, such as the queries of a Spark application."""
    found: dict[str, Mapping[str, Sample]] = {}
    for observation in reversed(observations):
        for operator, sample in observation.samples.items():
            if sample.parts:
                found.setdefault(operator, sample.parts)
    return dict(reversed(found.items()))


def parts_in_words(picked: JournalRun, parts: Mapping[str, Mapping[str, Sample]]) -> list[str]:
    """One sentence for each operator that has parts."""
    several = len(picked.run.operators) > 1
    return [
        f"Queries{f' of {operator}' if several else ''}, as of "
        f"{picked.when(max(sample.at_s for sample in samples.values()))}: "
        f"{'; '.join(f'{name} {_reading(sample)}' for name, sample in samples.items())}."
        for operator, samples in parts.items()
    ]


def _reading(sample: Sample) -> str:
    from headgate.core.units import plain

    told = (
        ("", sample.input_rate_per_s, " records/s"),
        ("backlog ", sample.backlog, ""),
        ("latency ", sample.latency_s, " s"),
    )
    return ", ".join(f"{name}{plain(value)}{unit}" for name, value, unit in told if value is not None) or "not known"
