"""headgate explain"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import options
from headgate.cli.common import check_target, make_console, option, write_json
from headgate.core.errors import InputError
from headgate.core.types import Severity
from headgate.core.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from headgate.journal.findings import ShadowStory
    from headgate.journal.reader import JournalReader
    from headgate.render.explanation import Explanation, JournalRun
    from headgate.render.story import Row
    from headgate.runtime.summary import Summary

UNNAMED = "job"
"""The name of a job that was given none."""
SEVERITY_STYLES = {Severity.INFO: "blue", Severity.WARNING: "bold yellow", Severity.ERROR: "bold red"}
KIND_STYLES = {
    "out": "bold green",
    "in": "bold yellow",
    "stopped": "magenta",
    "advice": "bold cyan",
    "hold": "dim",
    "event": SEVERITY_STYLES[Severity.INFO],
    "warning": SEVERITY_STYLES[Severity.WARNING],
    "failed": SEVERITY_STYLES[Severity.ERROR],
}


def explain(
    journal: options.Journal,
    last: Annotated[int, option("N", "Explain the last N changes and stopped changes.", "--last", min=1)] = 20,
    run: options.Run = None,
    job: options.JobOfJournal = None,
    whole: Annotated[bool, typer.Option("--all", help="Explain the whole run.")] = False,
    shadows: Annotated[bool, typer.Option("--shadows", help="Show where shadow policies differed.")] = False,
    json_file: options.Json = None,
) -> None:
    """Explain what was decided, when, and why.

    The first lines compare what the objective requires with what was delivered, and show how much of the error budget
    is spent. Each change of size is listed with its reason, the numbers behind it, what each guard did and how the
    change turned out; so are changes that a guard stopped, and the holds in between. The journal may be in use, and may
    hold several jobs.

    [bold]Examples[/bold]
      [cyan]headgate simulate --workload constant:25 --service-rate 10 --seconds 10m --journal run.sqlite[/cyan]
      [cyan]headgate explain run.sqlite[/cyan]
      [cyan]headgate explain run.sqlite --last 3[/cyan]
      [cyan]headgate explain run.sqlite --run 1 --all --json story.json[/cyan]
      [cyan]headgate explain shared.sqlite --job enrich[/cyan]
      [cyan]headgate explain run.sqlite --shadows[/cyan]
    """
    from headgate.journal.sqlite import SqliteJournal
    from headgate.render.explanation import explanation_of, pick_run

    check_target(json_file, journal=journal)
    with closing(SqliteJournal.read(journal)) as reader:
        picked = pick_run(reader, run, job)
        explanation = explanation_of(reader, picked, None if whole else last, shadows=shadows)
        if explanation.shadows:
            explanation = replace(explanation, what_if=_what_if(reader, picked, explanation.shadows))
    if json_file is not None:
        write_json(explanation.to_json(), json_file)
    else:
        _print(explanation)


def _what_if(reader: JournalReader, picked: JournalRun, shadows: Iterable[str]) -> Mapping[str, Summary] | str:
    """Simulate the acting policy and its shadows on a job calibrated to this run; or say why that is not possible."""
    from headgate.lab.what_if import CandidatePolicy, what_if
    from headgate.render.explanation import objective_of

    run = picked.run
    if len(run.operators) > 1:
        return f"the job has {len(run.operators)} operators; the simulator is calibrated to jobs of one."
    contenders = [CandidatePolicy(run.policy, run.settings), *(CandidatePolicy(name, {}) for name in shadows)]
    try:
        objective = objective_of(run)
        observations, decisions = reader.observations(run=picked.number), reader.decisions(run=picked.number)
        operator = run.operators[0]
        return what_if(observations, contenders, objective, operator, decisions=decisions, seed=run.seed)
    except InputError as error:
        return str(error)


# ------------------------------------------------------------------------------------------------------------ as text


def _print(explanation: Explanation) -> None:
    from rich.text import Text

    console = make_console()
    picked = explanation.picked
    console.print(Text(f"Run {picked.number}", style="bold"), Text(picked.in_words, style="dim"))
    console.print(_about(picked))
    for sentence in explanation.sentences:
        console.print(Text(sentence))
    console.print()
    if explanation.items:
        console.print(_story(picked, explanation.rows, explanation.thinned.until_s))
    else:
        console.print("Nothing has been decided yet.")
    if explanation.shadows is not None:
        _print_shadows(explanation.shadows, picked, explanation.last, console)
        _print_what_if(explanation.what_if, console)


def _about(picked: JournalRun) -> Text:
    from rich.text import Text

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
    """Return a setting in one line; of a text of many lines, such as rules, only their number."""
    lines = str(value).splitlines()
    return str(value) if len(lines) <= 1 else f"({len(lines)} lines)"


def _story(picked: JournalRun, rows: Sequence[Row], thinned_until_s: float | None) -> Table:
    from rich.table import Table
    from rich.text import Text

    from headgate.render.explanation import local_time

    is_same_day = local_time(rows[0].at_s).date() == local_time(rows[-1].at_s).date()
    clock_format = "%H:%M:%S" if is_same_day else "%m-%d %H:%M:%S"
    table = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        clock = [Text(local_time(row.at_s).strftime(clock_format))] if picked.is_live else []
        since = Text(f"+{format_duration(row.at_s - picked.run.started_s)}", style="dim")
        operator = [Text(row.operator, style="cyan")] if len(picked.run.operators) > 1 else []
        repetition = row.repetition(is_thinned=thinned_until_s is not None and row.at_s <= thinned_until_s)
        table.add_row(
            *clock,
            since,
            *operator,
            Text(row.change, style=KIND_STYLES[row.kind]),
            Text("\n").join(_why(row, repetition)),
        )
    return table


def _why(row: Row, repetition: str) -> list[Text]:
    from rich.text import Text

    is_hold = row.kind == "hold"
    lines = [Text(f"{row.reason} ({repetition})" if repetition else row.reason, style="dim" if is_hold else "")]
    if is_hold:
        return lines
    if row.numbers:
        lines.append(Text(row.numbers, style="dim"))
    lines += [Text(note, style="magenta") for note in row.notes]
    return [*lines, *(Text(effect, style="dim") for effect in row.effects)]


def _print_shadows(shadows: Mapping[str, ShadowStory], picked: JournalRun, last: int | None, console: Console) -> None:
    """Print where each shadow differed; of many times, the last."""
    from rich.table import Table
    from rich.text import Text

    from headgate.journal.findings import difference_in_words, story_in_words

    console.print()
    if not shadows:
        console.print("No shadow policy decided in this run.")
    for name, story in shadows.items():
        console.print(Text(f"Shadow {story_in_words(name, story)}."))
        table = Table.grid(padding=(0, 2, 0, 0))
        for difference in story.differences[0 if last is None else -last :]:
            since = Text(f"+{format_duration(difference.at_s - picked.run.started_s)}", style="dim")
            wants_more = difference.wants_more
            what = Text("more" if wants_more else "fewer", style=KIND_STYLES["out" if wants_more else "in"])
            operator = [Text(difference.verdict.operator, style="cyan")] if len(picked.run.operators) > 1 else []
            table.add_row(since, *operator, what, Text(difference_in_words(difference)))
        if story.differences:
            console.print(table)


def _print_what_if(what_if: Mapping[str, Summary] | str, console: Console) -> None:
    """Print the results of each policy, the one that acted first."""
    from rich.text import Text

    from headgate.cli.run_view import comparison_table

    if isinstance(what_if, str):
        if what_if:
            console.print(Text(f"\nTheir results are not known: {what_if}"))
        return
    console.print("\nUnder the recorded load, simulated as this job was measured, the one that acted first:")
    console.print(comparison_table(what_if))
