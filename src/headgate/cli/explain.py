"""headgate explain"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.common import JsonOption, check_target, make_console, write_json
from headgate.core.errors import InputError
from headgate.core.types import Event, Instant, Receipt, Run, Verdict
from headgate.core.units import format_duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from headgate.journal.reader import JournalReader
    from headgate.journal.story import Item

SIMULATED_BEFORE_S = 1e9
"""Instants below this (2001) are not of a wall clock: they count from the start of a simulated run."""

FIRST_LOOK = 1000
"""Decisions read at first; four times as many at a time if they do not hold enough changes."""

JournalArgument = Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal's file.", show_default=False)]
RunOption = Annotated[
    int | None,
    typer.Option("--run", metavar="NUMBER", help="Which run; the newest where not given.", show_default=False),
]


def explain(
    journal: JournalArgument,
    last: Annotated[
        int, typer.Option("--last", min=1, metavar="N", help="Tell the last N changes and stopped changes.")
    ] = 20,
    run: RunOption = None,
    tell_all: Annotated[bool, typer.Option("--all", help="Tell the whole run.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Tell what was decided, when, and why.

    Each change of size comes with its reason, the numbers behind it, what each guard did and what became of it; changes
    that a guard stopped and the holds in between are told too. The journal may be one that is being written.

    [bold]Examples[/bold]
      [cyan]headgate simulate --workload constant:25 --service-rate 10 --seconds 10m --journal run.sqlite[/cyan]
      [cyan]headgate explain run.sqlite[/cyan]
      [cyan]headgate explain run.sqlite --last 3[/cyan]
      [cyan]headgate explain run.sqlite --run 1 --all --json story.json[/cyan]
    """
    from contextlib import closing

    from headgate.journal.sqlite import SqliteJournal

    check_target(json_file, journal=journal)
    with closing(SqliteJournal.read(journal)) as reader:
        number, of_run = pick_run(reader, run)
        items = _read_story(reader, number, None if tell_all else last)
        known = [number for number, _ in reader.runs()]
    if json_file is not None:
        write_json(_as_data(number, of_run, items), json_file)
    else:
        _print(number, known, of_run, items)


def pick_run(reader: JournalReader, wanted: int | None) -> tuple[int, Run]:
    """The run that was asked for, or the newest one."""
    runs = dict(reader.runs())
    if not runs:
        raise InputError(f"journal {reader.path} has no run yet.")
    number = max(runs) if wanted is None else wanted
    if number not in runs:
        raise InputError(f"journal {reader.path} has no run {number}; it has {', '.join(map(str, runs))}.")
    return number, runs[number]


def _read_story(reader: JournalReader, run: int, last: int | None) -> list[Item]:
    """The story, or its end: of a long run only as much is read as that takes."""
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
    items = tell(
        decisions,
        reader.observations(run=run, since_s=since_s),
        reader.receipts(run=run, since_s=since_s),
        reader.events(run=run, since_s=since_s),
    )
    return items if last is None else latest(items, last)


# ------------------------------------------------------------------------------------------------------------ as JSON


def _as_data(number: int, run: Run, items: Sequence[Item]) -> dict[str, Any]:
    from headgate.journal import codec

    return {
        "run": {"number": number, **codec.run_to_dict(run)},
        "story": [{"t": item.at_s - run.started_s, **_item_as_data(item)} for item in items],
    }


def _item_as_data(item: Item) -> dict[str, Any]:
    from headgate.journal import codec
    from headgate.journal.story import Hold, Resize

    match item:
        case Resize():
            receipt = None if item.receipt is None else codec.receipt_to_dict(item.receipt)
            effect = {"receipt": receipt, "reached_s": item.reached_s, "overtaken_s": item.overtaken_s}
            return {"kind": "resize", "at_s": item.at_s, **codec.verdict_to_dict(item.verdict), **effect}
        case Hold():
            kind = "stopped" if item.is_stopped else "hold"
            span = {"at_s": item.at_s, "last_s": item.last_s, "count": item.count}
            return {"kind": kind, **span, **codec.verdict_to_dict(item.verdict)}
        case Receipt():
            return {"kind": "engine", **codec.receipt_to_dict(item)}
        case Event():
            event = codec.event_to_dict(item)
            return {"kind": "event", "event": event.pop("kind"), **event}


# -------------------------------------------------------------------------------------------------------------- as text


def _print(number: int, known: Sequence[int], run: Run, items: Sequence[Item]) -> None:
    from rich.table import Table
    from rich.text import Text

    console = make_console()
    console.print(Text(f"Run {number}", style="bold"), Text(f"of {len(known)} in this journal", style="dim"))
    console.print(_about(run), "\n")
    if not items:
        console.print("Nothing has been decided yet.")
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    is_live = run.started_s >= SIMULATED_BEFORE_S
    several = len(run.operators) > 1
    clock_format = _clock_format(items) if is_live else ""
    for item in items:
        clock = [Text(_local(item.at_s).strftime(clock_format))] if is_live else []
        since = Text(f"+{format_duration(item.at_s - run.started_s)}", style="dim")
        operator = [Text(_operator(item), style="cyan")] if several else []
        what, why = _cells(item)
        table.add_row(*clock, since, *operator, what, Text("\n").join(why))
    console.print(table)


def _about(run: Run) -> RenderableType:
    from rich.text import Text

    parts = [f"policy {run.policy}", f"objective {run.objective}", f"engine {run.engine}"]
    if len(run.operators) > 1:
        parts.append(f"operators {', '.join(run.operators)}")
    if run.started_s >= SIMULATED_BEFORE_S:
        parts.append(f"started {_local(run.started_s):%Y-%m-%d %H:%M:%S}")
    if run.settings:
        parts.append("settings " + ", ".join(f"{name}={_short(value)}" for name, value in run.settings.items()))
    return Text(" · ".join(parts))


def _short(value: object) -> str:
    """A setting in one line: a text of many lines, such as rules, is only counted."""
    lines = str(value).splitlines()
    return str(value) if len(lines) <= 1 else f"({len(lines)} lines)"


def _local(at_s: Instant) -> datetime:
    return datetime.fromtimestamp(at_s).astimezone()


def _clock_format(items: Sequence[Item]) -> str:
    same_day = _local(items[0].at_s).date() == _local(items[-1].at_s).date()
    return "%H:%M:%S" if same_day else "%m-%d %H:%M:%S"


def _operator(item: Item) -> str:
    verdict: Verdict | None = getattr(item, "verdict", None)
    return "" if verdict is None else verdict.operator


def _cells(item: Item) -> tuple[Text, list[Text]]:
    """What happened, and the lines that say why."""
    from rich.text import Text

    from headgate.journal.story import Hold, Resize, effect_in_words

    match item:
        case Resize(verdict=verdict):
            style = "bold green" if verdict.change > 0 else "bold yellow"
            effect = Text(effect_in_words(item), style="dim")
            return Text(f"{verdict.current} → {verdict.target}", style=style), [*_why(verdict), effect]
        case Hold(verdict=verdict):
            often = f" ({item.count} times in {format_duration(item.last_s - item.at_s)})" if item.count > 1 else ""
            if item.is_stopped:
                what = Text(f"{verdict.current}, not {verdict.proposed}", style="magenta")
                return what, _why(verdict, often)
            return Text(f"hold {verdict.current}", style="dim"), [Text(verdict.reason + often, style="dim")]
        case Receipt():
            return Text("engine", style="blue"), [Text(f"{item.outcome}: {item.detail or 'acted to keep the size'}")]
        case Event():
            is_bad = item.kind.endswith(("failed", "refused"))
            return Text(item.kind, style="bold red" if is_bad else "blue"), [Text(item.detail)]


def _why(verdict: Verdict, more: str = "") -> list[Text]:
    from rich.text import Text

    from headgate.journal.story import acting_notes, note_in_words, numbers_in_words

    lines = [Text(verdict.reason + more)]
    if verdict.numbers:
        lines.append(Text(numbers_in_words(verdict.numbers), style="dim"))
    return [*lines, *(Text(note_in_words(note), style="magenta") for note in acting_notes(verdict))]
