"""headgate explain and headgate report, and how runs are shown in a terminal: verdict, plots, figures and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headgate.cli import options
from headgate.cli.common import check_target, duration_s, grid, make_console, option, say, write_json
from headgate.cli.progress import progress_bar
from headgate.core.errors import InputError
from headgate.core.units import LONG_LATENCY_S, format_duration, format_elapsed, format_latency, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from headgate.core.objective import Objective
    from headgate.core.types import JSON, Decision, Observation
    from headgate.journal.findings import ShadowStory, Standing
    from headgate.render.explanation import Explanation, JournalRun
    from headgate.render.story import Row
    from headgate.render.verdict import FixedSizes, RunVerdict
    from headgate.runtime.summary import RunRecord, Summary, Undecided


def explain(  # noqa: PLR0913 - one parameter per option
    *,
    journal: options.Journal,
    last: Annotated[int, option("N", "Explain the last N changes and stopped changes.", "--last", min=1)] = 20,
    run: options.Run = None,
    job: options.JobOfJournal = None,
    whole: Annotated[bool, typer.Option("--all", help="Explain the whole run.")] = False,
    shadows: Annotated[bool, typer.Option("--shadows", help="Show where shadow policies differed.")] = False,
    why_not: Annotated[
        int | None,
        option("N", "Answer why the size is not N, by the sizes that were compared.", "--why-not", min=0),
    ] = None,
    at: Annotated[
        str | None, option("DURATION", "With --why-not: in the decision so long after the start of the run.", "--at")
    ] = None,
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
      [cyan]headgate explain run.sqlite --why-not 2 --at 5m[/cyan]
    """
    from headgate.lab.what_if import explain as explain_journal

    check_target(json_file, journal=journal)
    if at is not None and why_not is None:
        raise InputError("--at goes with --why-not: it names the decision that is explained.")
    explanation = explain_journal(
        journal,
        run=run,
        job=job,
        last=None if whole else last,
        shadows=shadows,
        why_not=why_not,
        at=None if at is None else duration_s("--at", at),
    )
    if json_file is not None:
        write_json(explanation.to_json(), json_file)
    else:
        print_explanation(explanation)


def report(
    journal: options.Journal,
    html: Annotated[Path, option("FILE", "Where to write the report.", "--html")],
    price: options.Price = None,
    run: options.Run = None,
    job: options.JobOfJournal = None,
) -> None:
    """Write an HTML report of a run in a journal.

    The report begins with the verdict: was the objective met, at what cost, which fixed size would have met it, and
    what limited it. It has plots, figures, and every decision with its reason, in one file that needs no network. The
    journal may be in use.

    [bold]Example[/bold]
      [cyan]headgate report run.sqlite --html run.html[/cyan]
    """
    from headgate.journal.writer import SqliteJournal
    from headgate.lab.what_if import fixed_sizes_of
    from headgate.render import explanation
    from headgate.render.page import require_plotly
    from headgate.render.report import write_report
    from headgate.runtime.summary import course_of, summarise

    check_target(html, journal=journal)
    require_plotly()
    with closing(SqliteJournal.read(journal)) as reader:
        picked = explanation.pick_run(reader, run, job)
        of_run, number = picked.run, picked.number
        observations, decisions = reader.observations(run=number), reader.decisions(run=number)
        receipts, events = reader.receipts(run=number), reader.events(run=number)
        facts = [
            *explanation.startups_in_words(explanation.startups_of(reader, of_run, observations)),
            *explanation.parts_in_words(picked, explanation.newest_parts(observations)),
            *explanation.thinned_in_words(picked, reader.thinned(run=number)),
        ]
    objective = explanation.objective_of(of_run).priced(price)
    started = f", started {picked.when(of_run.started_s)}" if picked.is_live else ""
    settings = ", ".join(f"{name}={value}" for name, value in of_run.settings.items())
    with progress_bar("Comparing with fixed sizes") as progress:
        fixed = fixed_sizes_of(observations, decisions, objective, of_run.operators, progress)
    write_report(
        html,
        title=of_run.job,
        observations=observations,
        decisions=decisions,
        objective=objective,
        summary=summarise(course_of(observations, of_run.operators[0]), decisions, objective, of_run.operators[0]),
        receipts=receipts,
        events=events,
        fixed=fixed,
        journal=str(journal),
        notes=[
            f"Run {number} of journal {journal.name}, engine {of_run.engine}, policy {of_run.policy}{started}.",
            *([f"Settings: {settings}."] if settings else []),
            *facts,
        ],
    )
    typer.echo(f"report: {html}")


UNNAMED = "job"
"""The name of a job that was given none."""
SHOWN_CHANGES = 20
SIDE_BY_SIDE = 76
"""Columns that plots with their largest values, and figures in two columns, need."""
NOTABLY_OTHER = 0.25
"""Readings whose largest backlog is off by this share of the true one are explained."""
LONG_SHARE = 0.05
"""Shown if a policy could not decide for this share of a run."""


def plots(series: Sequence[Mapping[str, JSON]], console: Console) -> Table:
    """Return one line each for input rate, backlog, latency and instances."""
    from headgate.cli.live_view import sparkline

    table = grid()
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    is_narrow = console.width < SIDE_BY_SIDE
    if not is_narrow:
        table.add_column(justify="right", no_wrap=True)
    width = min(72, console.width - (20 if is_narrow else 44))
    for name, key, style, unit in (
        ("input rate", "input_rate", "blue", "records/s"),
        ("backlog", "backlog", "yellow", "records"),
        ("latency", "latency_s", "magenta", "s"),
        ("instances ready", "ready", "green", ""),
    ):
        values = [point[key] for point in series]
        largest = max((value for value in values if value is not None), default=None)
        if largest is None:
            text = "unknown"
        else:
            text = f"max {format_latency(largest) if key == 'latency_s' else f'{plain(largest)} {unit}'.rstrip()}"
        drawn = f"[{style}]{sparkline(values, width)}[/{style}]"
        table.add_row(name, *([f"{drawn}\n{text}"] if is_narrow else [drawn, text]))
    return table


def figures(summary: Summary, objective: Objective, console: Console) -> Table:
    """Return the figures of one run, in two columns where the terminal is wide enough."""
    table = grid()
    is_narrow = console.width < SIDE_BY_SIDE
    for _ in range(1 if is_narrow else 2):
        table.add_column(style="dim", no_wrap=not is_narrow)
        table.add_column(justify="right", no_wrap=True, style="bold")
    latencies_s = (summary.latency_p50_s, summary.latency_p95_s, summary.latency_p99_s)
    bounds = f"{objective.min_instances} to {objective.max_instances}"
    rows = [
        ("late records", _known(summary.late_records_pct, " %")),
        ("objective violated", f"{_known(summary.slo_violation_pct, ' %')} of the time"),
        ("keeping up", f"{_known(summary.qos_pct, ' %')} of the time"),
        ("latency p50 / p95 / p99", _latencies(latencies_s)),
        ("largest backlog", _known(summary.max_backlog)),
    ]
    size = [
        ("mean instances", _known(summary.mean_instances)),
        ("instance hours", _known(summary.instance_seconds / 3600)),
        ("changes of size", str(summary.rescales)),
        ("bounds", bounds),
        ("", "") if summary.cost is None else ("cost", _known(summary.cost)),
    ]
    if is_narrow:
        for row in (*rows, *(row for row in size if row[0])):
            table.add_row(*row)
        return table
    for left, right in zip(rows, size, strict=True):
        table.add_row(*left, *right)
    return table


def _latencies(seconds: Sequence[float | None]) -> str:
    if all(value is None or value < LONG_LATENCY_S for value in seconds):
        return f"{' / '.join(map(_known, seconds))} s"
    return " / ".join("unknown" if value is None else format_latency(value) for value in seconds)


def comparison_table(rows: Mapping[str, Summary]) -> Table:
    """Return a table of several runs under the same load; the others are compared with the first."""
    from rich.table import Table

    headings = ["late records", "violated", "latency p95", "largest backlog", "mean instances", "instance hours"]
    is_priced = any(summary.cost is not None for summary in rows.values())
    table = Table("", box=None, header_style="dim", padding=(0, 2, 0, 0))
    for heading in (*headings, "cost") if is_priced else headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for index, (name, summary) in enumerate(rows.items()):
        table.add_row(
            Text(name),
            _known(summary.late_records_pct, " %"),
            _known(summary.slo_violation_pct, " %"),
            "unknown" if summary.latency_p95_s is None else format_latency(summary.latency_p95_s),
            _known(summary.max_backlog),
            f"{summary.mean_instances:.2f}",
            f"{summary.instance_seconds / 3600:.3f}",
            *([_known(summary.cost)] if is_priced else []),
            style="bold" if index == 0 else "",
        )
    return table


def print_run(
    record: RunRecord, seconds: float, console: Console, fixed: FixedSizes | None = None, journal: str = ""
) -> None:
    """Print the verdict on a run, its plots and figures, its standing, and its changes of size."""
    from headgate.render.verdict import judge_run

    if record.observations:
        print_verdict(
            judge_run(
                record.observations,
                record.decisions,
                record.objective,
                record.summary(),
                fixed=fixed,
                operators=(record.operator,),
                journal=journal,
            ),
            console,
        )
        series, summary = record.series(), record.summary()
        console.print(plots(series, console))
        if record.truth is not None and _read_otherwise(series, summary):
            text = (
                "The lines are of readings, which estimate what arrives during a batch; the figures are of the truth."
            )
            console.print(Text(text, style="dim"))
        console.print()
        console.print(figures(summary, record.objective, console))
        print_standing(record.standing(), console)
        print_undecided(record.undecided(), seconds, console)
    print_changes(record.decisions, record.observations, console)


def _read_otherwise(series: Sequence[Mapping[str, JSON]], summary: Summary) -> bool:
    """Return whether the largest backlog that was read is far from the true one."""
    largest = max((float(str(point["backlog"])) for point in series if point["backlog"] is not None), default=0.0)
    true = summary.max_backlog
    return true is not None and abs(largest - true) > NOTABLY_OTHER * max(1.0, true)


def print_verdict(verdict: RunVerdict, console: Console) -> None:
    """Print the verdict, a sentence a line."""
    style = {True: "bold green", False: "bold red", None: "bold"}[verdict.is_met]
    for index, sentence in enumerate(verdict.sentences):
        console.print(Text(sentence, style="" if index else style))
    console.print()


def print_standing(standing: Standing, console: Console) -> None:
    """Print the objective, what was delivered, and how much of the error budget and of the cost limit is spent."""
    from headgate.journal.findings import standing_in_words

    sentences = standing_in_words(standing)
    if sentences:
        console.print()
    for sentence in sentences:
        console.print(Text(sentence))


def print_undecided(undecided: Undecided | None, seconds: float, console: Console) -> None:
    """Print why a policy decided nothing for a large part of the run, if so."""
    if undecided is None:
        return
    if undecided.until_s is None:
        say(f"\nThe policy has not decided anything: {undecided.reason}.", console=console)
    elif undecided.until_s >= max(60.0, LONG_SHARE * seconds):
        until = format_duration(undecided.until_s)
        say(f"\nThe policy decided nothing until +{until}: {undecided.reason}.", console=console)


def print_changes(decisions: Sequence[Decision], observations: Sequence[Observation], console: Console) -> None:
    """Print the changes of size with their reasons."""
    from headgate.cli.live_view import KIND_STYLES
    from headgate.render.story import Advice, Resize, note_in_words, row_of, story_of

    changes = [item for item in story_of(decisions, observations) if isinstance(item, Resize | Advice)]
    if not changes:
        console.print("\nThe size was never changed.")
        return
    start_s = observations[0].at_s if observations else 0.0
    table = grid()
    for item in changes[:SHOWN_CHANGES]:
        row = row_of(item)
        altered = [f"\n{note_in_words(note)}" for note in item.verdict.notes if note.before != note.after]
        table.add_row(
            Text(f"+{format_elapsed(max(0.0, row.at_s - start_s))}", style="dim"),
            Text(row.change, style=KIND_STYLES[row.kind]),
            Text.assemble(row.reason, ("".join(altered), "magenta")),
        )
    console.print("\n[bold]Changes of size[/bold]")
    console.print(table)
    if len(changes) > SHOWN_CHANGES:
        more = len(changes) - SHOWN_CHANGES
        console.print(f"[dim]and {more} more; headgate explain lists them all from a journal.[/dim]")


def _known(value: float | None, unit: str = "") -> str:
    return "unknown" if value is None else f"{plain(value)}{unit}"


def print_explanation(explanation: Explanation) -> None:
    """Print what was decided in a run, when, and why."""
    console = make_console()
    picked = explanation.picked
    console.print(Text(f"Run {picked.number}", style="bold"), Text(picked.in_words, style="dim"))
    console.print(_about(picked))
    print_verdict(explanation.verdict, console)
    for sentence in explanation.sentences:
        console.print(Text(sentence))
    console.print()
    if explanation.why_not:
        _print_why_not(explanation, console)
        return
    if explanation.items:
        console.print(_story(picked, explanation.rows, explanation.thinned.until_s))
    else:
        console.print("Nothing has been decided yet.")
    if explanation.shadows is not None:
        _print_shadows(explanation.shadows, picked, explanation.last, console)
        _print_what_if(explanation.what_if, console)


def _print_why_not(explanation: Explanation, console: Console) -> None:
    """Print why a size was not chosen, and what was expected of the sizes that were compared."""
    from rich.table import Table

    from headgate.render.story import HEADINGS, ladder_cells

    for found in explanation.why_not:
        since = f"+{format_elapsed(found.at_s - explanation.picked.run.started_s)}"
        operator = f"{found.verdict.operator} " if len(explanation.picked.run.operators) > 1 else ""
        console.print(Text(f"{since} {operator}Why not {found.size}?", style="bold"))
        console.print(Text(found.sentence))
        if not found.verdict.alternatives:
            continue
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
        for heading in HEADINGS:
            table.add_column(heading, justify="right", no_wrap=True)
        for cells in ladder_cells(found.verdict):
            table.add_row(*cells, style="bold" if cells[0].startswith("▸") else "")
        console.print()
        console.print(table)


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
    """Return a setting in one line; of a text of many lines, such as rules, only their number."""
    lines = str(value).splitlines()
    return str(value) if len(lines) <= 1 else f"({len(lines)} lines)"


def _story(picked: JournalRun, rows: Sequence[Row], thinned_until_s: float | None) -> Table:
    from headgate.cli.live_view import KIND_STYLES
    from headgate.render.explanation import local_time

    is_same_day = local_time(rows[0].at_s).date() == local_time(rows[-1].at_s).date()
    clock_format = "%H:%M:%S" if is_same_day else "%m-%d %H:%M:%S"
    table = grid()
    for row in rows:
        clock = [Text(local_time(row.at_s).strftime(clock_format))] if picked.is_live else []
        since = Text(f"+{format_elapsed(row.at_s - picked.run.started_s)}", style="dim")
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
    from headgate.cli.live_view import KIND_STYLES
    from headgate.journal.findings import difference_in_words, story_in_words

    console.print()
    if not shadows:
        console.print("No shadow policy decided in this run.")
    for name, story in shadows.items():
        console.print(Text(f"Shadow {story_in_words(name, story)}."))
        table = grid()
        for difference in story.differences[0 if last is None else -last :]:
            since = Text(f"+{format_elapsed(difference.at_s - picked.run.started_s)}", style="dim")
            wants_more = difference.wants_more
            what = Text("more" if wants_more else "fewer", style=KIND_STYLES["out" if wants_more else "in"])
            operator = [Text(difference.verdict.operator, style="cyan")] if len(picked.run.operators) > 1 else []
            table.add_row(since, *operator, what, Text(difference_in_words(difference)))
        if story.differences:
            console.print(table)


def _print_what_if(what_if: Mapping[str, Summary] | str, console: Console) -> None:
    """Print the results of each policy, the one that acted first."""
    if isinstance(what_if, str):
        if what_if:
            console.print(Text(f"\nTheir results are not known: {what_if}"))
        return
    console.print("\nUnder the recorded load, simulated as this job was measured, the one that acted first:")
    console.print(comparison_table(what_if))
