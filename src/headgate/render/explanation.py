"""The explanation of a run from its journal, as data: what was required, decided and delivered, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import Objective, parse_objective
from headgate.core.types import JSON, Decision, Instant, Observation, PricedSize, Role, Run, Sample, Verdict
from headgate.core.units import format_elapsed, instances_in_words, plain
from headgate.core.window import StartupSummary, startup_in_words, startup_summaries
from headgate.journal import codec
from headgate.journal.contract import budget_key, startup_key
from headgate.journal.findings import (
    ShadowStory,
    Standing,
    replayed_standing,
    saved_standing,
    shadow_stories,
    standing_in_words,
)
from headgate.render.story import (
    Item,
    Row,
    coverage,
    coverage_in_words,
    item_to_dict,
    latest,
    percent,
    row_of,
    story_of,
    unaffordable,
)
from headgate.render.verdict import FixedSizes, RunVerdict, is_recommending, judge_run, verdict_on
from headgate.runtime.summary import course_of, summarise

if TYPE_CHECKING:
    from headgate.journal.contract import Thinned
    from headgate.journal.database import JournalReader
    from headgate.runtime.summary import Summary


FixedSizesFinder: TypeAlias = Callable[
    [Sequence[Observation], Sequence[Decision], Objective, Sequence[str]], FixedSizes
]
"""Simulates fixed sizes under the load of observations of these operators."""
FORMAT_VERSION = 2
"""Of ``Explanation.to_json``. 2: with a version, the error budget and the cost."""
FIRST_PAGE = 1000
"""Decisions read at first; four times as many at a time if they do not hold enough changes."""
MOST_SIMULATED = 20_000
"""Observations, about a day of the usual interval: under the load of longer runs fixed sizes take too long here."""
MOST_JUDGED = 60_000
"""Observations, more than a journal retains of a live job: of longer runs the verdict is made from saved counts."""
SIMULATED_BEFORE_S = 1e9
"""Instants below this (2001) are not of a wall clock: they count from the start of a simulated run."""


@dataclass(frozen=True, slots=True)
class JournalRun:
    """One run of a journal, and the journal's other jobs."""

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
        if not self.other_jobs:
            return f"of {self.of_job} in this journal"
        times = "1 run" if self.of_job == 1 else f"{self.of_job} runs"
        others = ", ".join(self.other_jobs)
        return f"of job {self.run.job}, which has {times} in this journal; others, by --job: {others}"

    def when(self, at_s: Instant) -> str:
        """A time in the run: by the local clock, or since the start of a simulated one."""
        if self.is_live:
            return f"{local_time(at_s):%Y-%m-%d %H:%M:%S}"
        return f"+{format_elapsed(at_s - self.run.started_s)}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A run, or its end, explained; ``to_json`` is what ``headgate explain --json`` writes."""

    picked: JournalRun
    items: Sequence[Item]
    thinned: Thinned
    standing: Standing
    startups: Mapping[str, StartupSummary]
    parts: Mapping[str, Mapping[str, Sample]]
    verdict: RunVerdict
    coverage: Mapping[str, tuple[int, int]]
    """By predicted quantity: predictions that could be checked, and those whose interval held."""
    last: int | None = None
    """How many changes it covers at most; ``None``: the whole run."""
    shadows: Mapping[str, ShadowStory] | None = None
    """What shadow policies would have decided; ``None`` where they were not requested."""
    what_if: Mapping[str, Summary] | str = field(default="")
    """Their results as simulated, or why there are none."""
    why_not: Sequence[WhyNot] = ()
    """Why a size was not chosen, by operator; empty where that was not requested."""

    @property
    def rows(self) -> list[Row]:
        """The story in words, one row for each item."""
        return [row_of(item) for item in self.items]

    @property
    def sentences(self) -> list[str]:
        """What there is to say about the run as a whole."""
        return [
            *standing_in_words(self.standing),
            *(f"Now {why}." for why in unaffordable(self.items).values()),
            *coverage_in_words(self.coverage),
            *startups_in_words(self.startups),
            *parts_in_words(self.picked, self.parts),
            *thinned_in_words(self.picked, self.thinned),
        ]

    def __str__(self) -> str:
        started_s = self.picked.run.started_s
        answers = [f"+{format_elapsed(found.at_s - started_s)}  {found.sentence}" for found in self.why_not]
        rows = [_line(row, started_s) for row in self.rows]
        return "\n".join([*self.verdict.sentences, *self.sentences, *answers, *rows])

    def to_json(self) -> dict[str, JSON]:
        picked = self.picked
        data: dict[str, JSON] = {
            "version": FORMAT_VERSION,
            "run": {"number": picked.number, **codec.run_to_dict(picked.run)},
            "other_jobs": list(picked.other_jobs),
            "thinned": asdict(self.thinned),
            "verdict": self.verdict.to_json(),
            **self.standing.to_json(),
            "coverage": {name: {"answered": answered, "met": met} for name, (answered, met) in self.coverage.items()},
            "startups": {operator: asdict(summary) for operator, summary in self.startups.items()},
            "parts": {
                operator: {name: codec.sample_to_dict(sample) for name, sample in samples.items()}
                for operator, samples in self.parts.items()
            },
        }
        if self.shadows is not None:
            data["shadows"] = {name: story.to_json() for name, story in self.shadows.items()}
            data["what_if"] = (
                self.what_if
                if isinstance(self.what_if, str)
                else {name: summary.to_json() for name, summary in self.what_if.items()}
            )
        if self.why_not:
            data["why_not"] = [found.to_json() for found in self.why_not]
        data["story"] = [{"t": item.at_s - picked.run.started_s, **item_to_dict(item)} for item in self.items]
        return data


def _line(row: Row, started_s: Instant) -> str:
    subject = f"{row.operator} " if row.operator else ""
    return f"+{format_elapsed(row.at_s - started_s)}  {subject}{row.change}  {row.reason}"


def explanation_of(
    reader: JournalReader,
    picked: JournalRun,
    last: int | None,
    *,
    shadows: bool = False,
    fixed_sizes: FixedSizesFinder | None = None,
) -> Explanation:
    """Return the explanation of one run of an open journal; ``fixed_sizes`` simulates its load on fixed sizes."""
    items, decisions, observations = _read_story(reader, picked.number, last)
    standing = standing_of(reader, picked)
    return Explanation(
        picked,
        items,
        reader.thinned(run=picked.number),
        standing,
        startups_of(reader, picked.run, observations),
        newest_parts(observations),
        _judge(reader, picked, standing, decisions, observations, fixed_sizes),
        coverage(decisions, observations),
        last,
        shadow_stories(reader.decisions(run=picked.number)) if shadows else None,
    )


def why_not_of(reader: JournalReader, picked: JournalRun, size: int, after_s: float | None = None) -> list[WhyNot]:
    """Return why each operator did not get ``size`` in the decision ``after_s`` into a run, or in the newest one."""
    last = FIRST_PAGE if after_s is None else None
    decisions = [
        decision for decision in reader.decisions(run=picked.number, last=last) if decision.role is not Role.SHADOW
    ]
    if after_s is not None:
        until_s = picked.run.started_s + after_s
        decisions = [decision for decision in decisions if decision.at_s <= until_s]
    if not decisions:
        raise InputError(f"run {picked.number} of journal {reader.place} has no decision{_by(after_s)}.")
    return [WhyNot(decisions[-1].at_s, size, verdict) for verdict in decisions[-1].verdicts.values()]


def _by(after_s: float | None) -> str:
    return "" if after_s is None else f" within {format_elapsed(after_s)} of its start"


def _judge(
    reader: JournalReader,
    picked: JournalRun,
    standing: Standing,
    decisions: Sequence[Decision],
    observations: Sequence[Observation],
    fixed_sizes: FixedSizesFinder | None,
) -> RunVerdict:
    """Return the verdict on the whole run; of a very long one by its saved counts, without what limited it."""
    run, objective = picked.run, objective_of(picked.run)
    if not observations:
        return verdict_on(objective, 0.0, standing=standing)
    run_s = observations[-1].at_s - run.started_s
    shown_s = observations[-1].at_s - observations[0].at_s
    if len(observations) * run_s > MOST_JUDGED * max(1.0, shown_s):
        return verdict_on(
            objective,
            run_s,
            standing=standing,
            fixed=_unsimulated(reader),
            recommends=is_recommending(decisions),
            journal=reader.place,
        )
    whole, decided = reader.observations(run=picked.number), reader.decisions(run=picked.number)
    summary = summarise(course_of(whole, run.operators[0]), decided, objective, run.operators[0])
    fixed = None
    if fixed_sizes is not None:
        is_short = len(whole) <= MOST_SIMULATED
        fixed = fixed_sizes(whole, decided, objective, run.operators) if is_short else _unsimulated(reader)
    return judge_run(
        whole,
        decided,
        objective,
        summary,
        fixed=fixed,
        operators=run.operators,
        journal=reader.place,
    )


def _unsimulated(reader: JournalReader) -> FixedSizes:
    return FixedSizes(missing=f"the run is long; headgate report {reader.place} --html run.html simulates them.")


def _read_story(
    reader: JournalReader, run: int, last: int | None
) -> tuple[list[Item], list[Decision], list[Observation]]:
    """Return the story or its end with the entries behind it; of a long run no more than that is read."""
    size, is_enough = FIRST_PAGE, last is None
    decisions = reader.decisions(run=run, last=None if is_enough else size)
    while last is not None and not is_enough and len(decisions) == size:
        items = story_of(decisions)
        is_enough = len(latest(items, last)) < len(items)
        if not is_enough:
            size *= 4
            decisions = reader.decisions(run=run, last=size)
    is_whole = last is None or len(decisions) < size
    since_s = None if is_whole else decisions[0].at_s
    observations = reader.observations(run=run, since_s=since_s)
    items = story_of(
        decisions, observations, reader.receipts(run=run, since_s=since_s), reader.events(run=run, since_s=since_s)
    )
    return (items if last is None else latest(items, last)), decisions, observations


def objective_of(run: Run) -> Objective:
    """Return the objective of a run, with its bounds where it had any."""
    objective = parse_objective(run.objective)
    return objective if run.bounds is None else objective.within(*run.bounds)


def pick_run(reader: JournalReader, number: int | None = None, job: str | None = None) -> JournalRun:
    """Return the run of that number, or the newest one of the job, or of all jobs."""
    runs, jobs = dict(reader.runs()), reader.jobs()
    if not runs:
        raise InputError(f"journal {reader.place} has no run yet.")
    if job is not None and job not in jobs:
        raise UnknownNameError("job", job, jobs)
    of_job = [candidate for candidate, run in runs.items() if job in (None, run.job)]
    if number is None:
        number = of_job[-1]
    if number not in of_job:
        whose = "" if job is None else f" of job {job!r}"
        raise InputError(f"journal {reader.place} has no run {number}{whose}; it has {', '.join(map(str, of_job))}.")
    run = runs[number]
    siblings = [sibling for sibling in runs.values() if sibling.job == run.job]
    return JournalRun(number, run, len(siblings), [name for name in jobs if name != run.job])


def local_time(at_s: Instant) -> datetime:
    return datetime.fromtimestamp(at_s).astimezone()


def startups_of(reader: JournalReader, run: Run, observations: Sequence[Observation] = ()) -> dict[str, StartupSummary]:
    """Return how long new instances took to start, as the job has learned or as these observations show."""
    found = startup_summaries(reader.load_state(startup_key(run.job)), observations)
    return {operator: found[operator] for operator in run.operators if operator in found}


def startups_in_words(startups: Mapping[str, StartupSummary]) -> list[str]:
    """Return one sentence for each operator."""
    named = len(startups) > 1
    return [
        f"Start-up{f' of {operator}' if named else ''}, {startup_in_words(summary)}."
        for operator, summary in startups.items()
    ]


def standing_of(reader: JournalReader, picked: JournalRun) -> Standing:
    """Return the budget and cost at the end of a run: as its loop saved them, else computed from its observations."""
    objective = objective_of(picked.run)
    newest = reader.newest_run(picked.run.job)
    saved = reader.load_state(budget_key(picked.run.job))
    if saved is not None and newest is not None and newest[0] == picked.number:
        return saved_standing(saved, objective)
    return replayed_standing(reader.observations(run=picked.number), objective, picked.run.operators)


def thinned_in_words(picked: JournalRun, thinned: Thinned) -> list[str]:
    """Return a sentence on entries that were deleted; none while the journal is complete."""
    spans = (("an hour", thinned.hours_until_s), ("a minute", thinned.minutes_until_s))
    parts = [f"one {span} until {picked.when(until_s)}" for span, until_s in spans if until_s is not None]
    if not parts:
        return []
    return [f"Thinned: of entries that only repeated each other there is {', '.join(parts)}; changes are all there."]


def newest_parts(observations: Sequence[Observation]) -> dict[str, Mapping[str, Sample]]:
    """Return the newest reading of each part of an operator, such as the queries of a Spark application."""
    found: dict[str, Mapping[str, Sample]] = {}
    for observation in reversed(observations):
        for operator, sample in observation.samples.items():
            if sample.parts:
                found.setdefault(operator, sample.parts)
    return dict(reversed(found.items()))


def parts_in_words(picked: JournalRun, parts: Mapping[str, Mapping[str, Sample]]) -> list[str]:
    """Return one sentence for each operator that has parts."""
    is_one_of_several = len(picked.run.operators) > 1
    return [
        f"Queries{f' of {operator}' if is_one_of_several else ''}, as of "
        f"{picked.when(max(sample.at_s for sample in samples.values()))}: "
        f"{'; '.join(f'{name} {_reading_in_words(sample)}' for name, sample in samples.items())}."
        for operator, samples in parts.items()
    ]


def _reading_in_words(sample: Sample) -> str:
    return ", ".join(_known_values(sample)) or "not known"


def _known_values(sample: Sample) -> Iterator[str]:
    for name, value, unit in (
        ("", sample.input_rate_per_s, " records/s"),
        ("backlog ", sample.backlog, ""),
        ("latency ", sample.latency_s, " s"),
    ):
        if value is not None:
            yield f"{name}{plain(value)}{unit}"


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why an operator did not get a size in a decision."""

    at_s: Instant
    size: int
    verdict: Verdict

    @property
    def sentence(self) -> str:
        """The answer in words."""
        return why_not(self.verdict, self.size)

    def to_json(self) -> dict[str, JSON]:
        return {
            "at_s": self.at_s,
            "operator": self.verdict.operator,
            "size": self.size,
            "target": self.verdict.target,
            "answer": self.sentence,
            "alternatives": [size._asdict() for size in self.verdict.alternatives],
        }


def why_not(verdict: Verdict, size: int) -> str:
    """Return why a decision is not ``size``, by what the policy expected of the sizes that it compared."""
    subject = instances_in_words(size)
    if size == verdict.target:
        return f"{subject}: that is what was decided; {verdict.reason}."
    if size == verdict.proposed:
        notes = "; ".join(f"{note.guard}: {note.why}" for note in verdict.notes if note.before != note.after)
        return f"{subject}: that was proposed, and guards made it {verdict.target}; {notes}."
    if not verdict.alternatives:
        return f"{subject}: this decision compared no sizes; its reason for {verdict.target} is: {verdict.reason}."
    priced = {found.instances: found for found in verdict.alternatives}
    if size not in priced:
        return f"{subject}: not simulated; {_why_not_compared(verdict, size)}."
    expected, chosen = f"{subject} would cost {_costs(priced[size])}", priced.get(verdict.proposed)
    if chosen is None:
        return f"{expected}. {verdict.proposed} was not among the sizes compared; its reason is: {verdict.reason}."
    against = f"{verdict.proposed} cost {_costs(chosen)}"
    difference_s = priced[size].cost_s - chosen.cost_s
    if difference_s > 0:
        return f"{expected}. {against}: {plain(difference_s)} less."
    return f"{expected}. {against}, not less; {verdict.proposed} has another reason: {verdict.reason}."


def _why_not_compared(verdict: Verdict, size: int) -> str:
    compared = [found.instances for found in verdict.alternatives]
    if size > compared[-1]:
        return (
            f"more than {compared[-1]} are not allowed, not useful, or cost more than the cheapest size by their "
            "instances alone"
        )
    if size < compared[0]:
        return f"fewer than {compared[0]} are not allowed, or would not work off what is late already"
    lower, upper = max(other for other in compared if other < size), min(other for other in compared if other > size)
    near = [found for found in verdict.alternatives if found.instances in (lower, upper)]
    return "of the sizes next to it, " + " and ".join(f"{found.instances} would cost {_costs(found)}" for found in near)


def _costs(size: PricedSize) -> str:
    return (
        f"{plain(size.instance_s)} instance-seconds and {plain(size.late_s)} for late records "
        f"({percent(size.late_share)} of them late, {percent(size.break_chance)} chance to miss the objective)"
    )
