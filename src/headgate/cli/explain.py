"""headgate explain"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.common import JsonOption, check_target, write_json
from headgate.cli.journal_run import (
    JobOption,
    JournalArgument,
    JournalRun,
    RunOption,
    newest_parts,
    objective_of,
    pick_run,
    standing_of,
    startups_of,
)
from headgate.core.errors import InputError
from headgate.core.types import Decision, Event, Observation, Receipt, Sample

if TYPE_CHECKING:
    from headgate.core.startup import StartupSummary
    from headgate.journal.budgets import Standing
    from headgate.journal.reader import JournalReader
    from headgate.journal.retention import Thinned
    from headgate.journal.shadows import ShadowStory
    from headgate.journal.story import Item
    from headgate.runtime.summary import Summary

FORMAT_VERSION = 2
"""Of the explanation as plain data. 2: it has a version, and tells how the error budget stands and what was spent."""
FIRST_LOOK = 1000
"""Decisions read at first; four times as many at a time if they do not hold enough changes."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is told."""

    picked: JournalRun
    items: Sequence[Item]
    thinned: Thinned
    standing: Standing
    startups: Mapping[str, StartupSummary]
    parts: Mapping[str, Mapping[str, Sample]]
    coverage: Mapping[str, tuple[int, int]]
    """How often what decisions expected was answered, and how often it came within the interval stated."""
    last: int | None
    """How many changes are told; ``None``: all."""
    shadows: Mapping[str, ShadowStory] | None
    """What shadows would have done; ``None`` where nobody asked."""
    what_if: Mapping[str, Summary] | str
    """What they would have come to, as simulated, or why that is not known."""


def explain(
    journal: JournalArgument,
    last: Annotated[
        int, typer.Option("--last", min=1, metavar="N", help="Tell the last N changes and stopped changes.")
    ] = 20,
    run: RunOption = None,
    job: JobOption = None,
    tell_all: Annotated[bool, typer.Option("--all", help="Tell the whole run.")] = False,
    shadows: Annotated[bool, typer.Option("--shadows", help="Tell where shadow policies differed.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Tell what was decided, when, and why.

    First comes what was asked, what was delivered, and what of the error budget is spent. Each change of size comes
    with its reason, the numbers behind it, what each guard did and what became of it; changes that a guard stopped and
    the holds in between are told too. The journal may be one that is being written, and may hold several jobs.

    [bold]Examples[/bold]
      [cyan]headgate simulate --workload constant:25 --service-rate 10 --seconds 10m --journal run.sqlite[/cyan]
      [cyan]headgate explain run.sqlite[/cyan]
      [cyan]headgate explain run.sqlite --last 3[/cyan]
      [cyan]headgate explain run.sqlite --run 1 --all --json story.json[/cyan]
      [cyan]headgate explain shared.sqlite --job enrich[/cyan]
      [cyan]headgate explain run.sqlite --shadows[/cyan]
    """
    from contextlib import closing

    from headgate.cli.explain_text import print_explanation
    from headgate.journal.sqlite import SqliteJournal

    check_target(json_file, journal=journal)
    with closing(SqliteJournal.read(journal)) as reader:
        explanation = _read(reader, pick_run(reader, run, job), None if tell_all else last, shadows=shadows)
    if json_file is not None:
        write_json(_as_data(explanation), json_file)
    else:
        print_explanation(explanation)


def _read(reader: JournalReader, picked: JournalRun, last: int | None, *, shadows: bool) -> Explanation:
    from headgate.journal.expectations import coverage
    from headgate.journal.shadows import shadow_stories

    items, decisions, observations = _read_story(reader, picked.number, last)
    stories = shadow_stories(reader.decisions(run=picked.number)) if shadows else None
    return Explanation(
        picked,
        items,
        reader.thinned(run=picked.number),
        standing_of(reader, picked),
        startups_of(reader, picked.run, observations),
        newest_parts(observations),
        coverage(decisions, observations),
        last,
        stories,
        _what_if(reader, picked, stories) if stories else "",
    )


def _what_if(reader: JournalReader, picked: JournalRun, shadows: Iterable[str]) -> Mapping[str, Summary] | str:
    """What the shadows, and the policy that acted, come to on a job that is simulated as this one was measured."""
    from headgate.lab.what_if import Contender, what_if

    run = picked.run
    if len(run.operators) > 1:
        return f"the job has {len(run.operators)} operators; the simulator is calibrated to jobs of one."
    contenders = [Contender(run.policy, run.settings), *(Contender(name, {}) for name in shadows)]
    try:
        objective = objective_of(run)
        observations, decisions = reader.observations(run=picked.number), reader.decisions(run=picked.number)
        operator = run.operators[0]
        return what_if(observations, contenders, objective, operator, decisions=decisions, seed=run.seed)
    except InputError as error:
        return str(error)


def _read_story(
    reader: JournalReader, run: int, last: int | None
) -> tuple[list[Item], list[Decision], list[Observation]]:
    """The story, or its end, and what is behind it: of a long run only as much is read as that takes."""
    from headgate.journal.story import latest, tell

    size, enough = FIRST_LOOK, last is None
    decisions = reader.decisions(run=run, last=None if enough else size)
    while last is not None and not enough and len(decisions) == size:
        told = tell(decisions)
        enough = len(latest(told, last)) < len(told)
        if not enough:
            size *= 4
            decisions = reader.decisions(run=run, last=size)
    is_whole = last is None or len(decisions) < size
    since_s = None if is_whole else decisions[0].at_s
    observations = reader.observations(run=run, since_s=since_s)
    items = tell(
        decisions, observations, reader.receipts(run=run, since_s=since_s), reader.events(run=run, since_s=since_s)
    )
    return (items if last is None else latest(items, last)), decisions, observations


# ------------------------------------------------------------------------------------------------------------ as JSON


def _as_data(explanation: Explanation) -> dict[str, Any]:
    from headgate.journal import codec

    picked = explanation.picked
    return {
        "version": FORMAT_VERSION,
        "run": {"number": picked.number, **codec.run_to_dict(picked.run)},
        "other_jobs": list(picked.other_jobs),
        "thinned": asdict(explanation.thinned),
        **explanation.standing.to_json(),
        "coverage": {
            name: {"answered": answered, "met": met} for name, (answered, met) in explanation.coverage.items()
        },
        "startups": {operator: asdict(summary) for operator, summary in explanation.startups.items()},
        "parts": {
            operator: {name: codec.sample_to_dict(sample) for name, sample in samples.items()}
            for operator, samples in explanation.parts.items()
        },
        **(
            {
                "shadows": {name: story.to_json() for name, story in explanation.shadows.items()},
                "what_if": explanation.what_if
                if isinstance(explanation.what_if, str)
                else {name: summary.to_json() for name, summary in explanation.what_if.items()},
            }
            if explanation.shadows is not None
            else {}
        ),
        "story": [{"t": item.at_s - picked.run.started_s, **_item_as_data(item)} for item in explanation.items],
    }


def _item_as_data(item: Item) -> dict[str, Any]:
    from headgate.journal import codec
    from headgate.journal.story import Advice, Hold, Repeated, Resize, Silence

    match item:
        case Resize():
            receipt = None if item.receipt is None else codec.receipt_to_dict(item.receipt)
            effect: dict[str, Any] = {"receipt": receipt, "reached_s": item.reached_s, "overtaken_s": item.overtaken_s}
            effect |= {"expected": [asdict(one) for one in item.expected]}
            return {"kind": "resize", "at_s": item.at_s, **codec.verdict_to_dict(item.verdict), **effect}
        case Hold():
            kind = "stopped" if item.is_stopped else "hold"
            span = {"at_s": item.at_s, "last_s": item.last_s, "count": item.count}
            return {"kind": kind, **span, **codec.verdict_to_dict(item.verdict)}
        case Advice():
            span = {"at_s": item.at_s, "last_s": item.last_s, "count": item.count}
            return {"kind": "recommended", **span, **codec.verdict_to_dict(item.verdict)}
        case Silence():
            return {"kind": "silence", **asdict(item)}
        case Receipt():
            return {"kind": "engine", **codec.receipt_to_dict(item)}
        case Event():
            event = codec.event_to_dict(item)
            return {"kind": "event", "event": event.pop("kind"), **event}
        case Repeated(at_s=at_s, last_s=last_s, count=count):
            return {**_item_as_data(item.event), "at_s": at_s, "last_s": last_s, "count": count}
