"""What headgate explain prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headgate.cli.common import make_console
from headgate.cli.journal_run import (
    JournalRun,
    local_time,
    parts_in_words,
    startups_in_words,
    thinned_in_words,
)
from headgate.cli.run_view import comparison_table
from headgate.core.types import Event, Instant, Receipt, Severity, Verdict
from headgate.core.units import format_duration
from headgate.journal.budgets import standing_in_words
from headgate.journal.expectations import coverage_in_words
from headgate.journal.shadows import ShadowStory, difference_in_words, story_in_words
from headgate.journal.story import (
    Advice,
    Hold,
    Item,
    Repeated,
    Resize,
    Silence,
    acting_notes,
    effect_in_words,
    expected_in_words,
    note_in_words,
    numbers_in_words,
    silence_in_words,
    unaffordable,
)

if TYPE_CHECKING:
    from headgate.cli.explain import Explanation
    from headgate.runtime.summary import Summary

SEVERITY_STYLES = {Severity.INFO: "blue", Severity.WARNING: "bold yellow", Severity.ERROR: "bold red"}
UNNAMED = "job"
"""The name of a job that was given none."""


def print_explanation(explanation: Explanation) -> None:
    """Which run it is, what is known of it, and its story."""
    console = make_console()
    picked, items = explanation.picked, explanation.items
    console.print(Text(f"Run {picked.number}", style="bold"), Text(picked.in_words, style="dim"))
    console.print(_about(picked))
    for told in (
        *standing_in_words(explanation.standing),
        *(f"Now {why}." for why in unaffordable(items).values()),
        *coverage_in_words(explanation.coverage),
        *startups_in_words(explanation.startups),
        *parts_in_words(picked, explanation.parts),
        *thinned_in_words(picked, explanation.thinned),
    ):
        console.print(Text(told))
    console.print()
    if items:
        console.print(_story(picked, items, explanation.thinned.until_s))
    else:
        console.print("Nothing has been decided yet.")
    if explanation.shadows is not None:
        _print_shadows(explanation.shadows, picked, explanation.last, console)
        _print_what_if(explanation.what_if, console)


def _print_shadows(shadows: Mapping[str, ShadowStory], picked: JournalRun, last: int | None, console: Console) -> None:
    """Where each shadow would have decided otherwise; of many times, the last."""
    console.print()
    if not shadows:
        console.print("No shadow policy decided in this run.")
    for name, story in shadows.items():
        console.print(Text(f"Shadow {story_in_words(name, story)}."))
        table = Table.grid(padding=(0, 2, 0, 0))
        for one in story.differences[0 if last is None else -last :]:
            since = Text(f"+{format_duration(one.at_s - picked.run.started_s)}", style="dim")
            what = Text("more" if one.wants_more else "fewer", style="green" if one.wants_more else "yellow")
            operator = [Text(one.verdict.operator, style="cyan")] if len(picked.run.operators) > 1 else []
            table.add_row(since, *operator, what, Text(difference_in_words(one)))
        if story.differences:
            console.print(table)


def _print_what_if(what_if: Mapping[str, Summary] | str, console: Console) -> None:
    """What each policy would have come to, the one that acted first."""
    if isinstance(what_if, str):
        if what_if:
            console.print(Text(f"\nWhat they would have come to is not known: {what_if}"))
        return
    console.print("\nUnder the recorded load, simulated as this job was measured, the one that acted first:")
    console.print(comparison_table(what_if))


def _about(picked: JournalRun) -> Text:
    run = picked.run
    parts = [f"policy {run.policy}", f"objective {run.objective}", f"engine {run.engine}"]
    if run.job != UNNAMED and not picked.other_jobs:
        parts.insert(0, f"job {run.job}")
    if len(run.operators) > 1:
        parts.append(f"operators {', '.join(run.operators)}")
    if picked.is_live:
        parts.append(f"started {picked.when(run.started_s)}")
    if run.settings:
        parts.append("settings " + ", ".join(f"{name}={_short(value)}" for name, value in run.settings.items()))
    return Text(" · ".join(parts))


def _short(value: object) -> str:
    """A setting in one line: a text of many lines, such as rules, is only counted."""
    lines = str(value).splitlines()
    return str(value) if len(lines) <= 1 else f"({len(lines)} lines)"


def _story(picked: JournalRun, items: Sequence[Item], thinned_until_s: Instant | None) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    several = len(picked.run.operators) > 1
    clock_format = _clock_format(items)
    for item in items:
        clock = [Text(local_time(item.at_s).strftime(clock_format))] if picked.is_live else []
        since = Text(f"+{format_duration(item.at_s - picked.run.started_s)}", style="dim")
        operator = [Text(_operator(item), style="cyan")] if several else []
        is_thinned = thinned_until_s is not None and item.at_s <= thinned_until_s
        what, why = _cells(item, is_thinned=is_thinned)
        table.add_row(*clock, since, *operator, what, Text("\n").join(why))
    return table


def _clock_format(items: Sequence[Item]) -> str:
    same_day = local_time(items[0].at_s).date() == local_time(items[-1].at_s).date()
    return "%H:%M:%S" if same_day else "%m-%d %H:%M:%S"


def _operator(item: Item) -> str:
    match item:
        case Resize(verdict=verdict) | Hold(verdict=verdict) | Advice(verdict=verdict):
            return verdict.operator
        case Silence(operator=operator):
            return operator
        case Receipt(answers=answers):
            return ", ".join(answers)
        case Event() | Repeated():
            return ""


def _cells(item: Item, *, is_thinned: bool) -> tuple[Text, list[Text]]:
    """What happened, and the lines that say why."""
    match item:
        case Resize(verdict=verdict):
            style = "bold green" if verdict.change > 0 else "bold yellow"
            after = [Text(one, style="dim") for one in (effect_in_words(item), expected_in_words(item)) if one]
            return Text(f"{verdict.current} → {verdict.target}", style=style), [*_why(verdict), *after]
        case Hold(verdict=verdict):
            often = _often(item, is_thinned=is_thinned)
            if item.is_stopped:
                what = Text(f"{verdict.current}, not {verdict.proposed}", style="magenta")
                return what, _why(verdict, often)
            return Text(f"hold {verdict.current}", style="dim"), [Text(verdict.reason + often, style="dim")]
        case Advice(verdict=verdict):
            what = Text(f"{verdict.current}, {verdict.target} recommended", style="bold cyan")
            return what, _why(verdict, _often(item, is_thinned=is_thinned))
        case Silence():
            return Text("silent", style="bold red"), [Text(silence_in_words(item))]
        case Receipt():
            return Text("engine", style="blue"), [Text(f"{item.outcome}: {item.detail or 'acted to keep the size'}")]
        case Event():
            return _event_cells(item)
        case Repeated(event=event):
            return _event_cells(event, _often(item, is_thinned=is_thinned))


def _event_cells(event: Event, often: str = "") -> tuple[Text, list[Text]]:
    return Text(event.kind, style=SEVERITY_STYLES[event.severity]), [Text(event.detail + often)]


def _often(row: Hold | Advice | Repeated, *, is_thinned: bool) -> str:
    """How often it was decided, or happened; where not all of the entries are left, only for how long."""
    if row.count == 1:
        return ""
    span = format_duration(row.last_s - row.at_s)
    return f" (for {span})" if is_thinned else f" ({row.count} times in {span})"


def _why(verdict: Verdict, more: str = "") -> list[Text]:
    lines = [Text(verdict.reason + more)]
    if verdict.numbers:
        lines.append(Text(numbers_in_words(verdict.numbers), style="dim"))
    return [*lines, *(Text(note_in_words(note), style="magenta") for note in acting_notes(verdict))]
