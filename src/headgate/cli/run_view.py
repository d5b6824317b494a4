"""The results of a run in the terminal: small plots, figures, changes of size, and a comparison with other runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headgate.core.objective import Objective
from headgate.core.types import JSON, Decision, Observation
from headgate.core.units import format_duration, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from headgate.journal.findings import Standing
    from headgate.runtime.summary import RunRecord, Summary, Undecided

SHOWN_CHANGES = 20
SIDE_BY_SIDE = 76
"""Columns that plots with their largest values, and figures in two columns, need."""
LONG_SHARE = 0.05
"""Shown if a policy could not decide for this share of a run."""


def plots(series: Sequence[Mapping[str, JSON]], console: Console) -> Table:
    """Return one line each for input rate, backlog, latency and instances."""
    from rich.table import Table

    from headgate.cli.live_view import sparkline

    table = Table.grid(padding=(0, 2, 0, 0))
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
        text = "unknown" if largest is None else f"max {plain(largest)} {unit}".rstrip()
        drawn = f"[{style}]{sparkline(values, width)}[/{style}]"
        table.add_row(name, *([f"{drawn}\n{text}"] if is_narrow else [drawn, text]))
    return table


def figures(summary: Summary, objective: Objective, console: Console) -> Table:
    """Return the figures of one run, in two columns where the terminal is wide enough."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    is_narrow = console.width < SIDE_BY_SIDE
    for _ in range(1 if is_narrow else 2):
        table.add_column(style="dim", no_wrap=not is_narrow)
        table.add_column(justify="right", no_wrap=True, style="bold")
    latencies_s = (summary.latency_p50_s, summary.latency_p95_s, summary.latency_p99_s)
    bounds = f"{objective.min_instances} to {objective.max_instances}"
    rows = [
        ("late records", _known(summary.late_records_pct, " %")),
        ("objective violated", f"{_known(summary.slo_violation_pct, ' %')} of the time"),
        ("kept up", f"{_known(summary.qos_pct, ' %')} of the time"),
        ("latency p50 / p95 / p99", f"{' / '.join(map(_known, latencies_s))} s"),
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


def comparison_table(rows: Mapping[str, Summary]) -> Table:
    """Return a table of several runs under the same load; the others are compared with the first."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("")
    headings = ["late records", "violated", "latency p95", "largest backlog", "mean instances", "instance hours"]
    is_priced = any(summary.cost is not None for summary in rows.values())
    for heading in (*headings, "cost") if is_priced else headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for index, (name, summary) in enumerate(rows.items()):
        table.add_row(
            Text(name),
            _known(summary.late_records_pct, " %"),
            _known(summary.slo_violation_pct, " %"),
            _known(summary.latency_p95_s, " s"),
            _known(summary.max_backlog),
            f"{summary.mean_instances:.2f}",
            f"{summary.instance_seconds / 3600:.3f}",
            *([_known(summary.cost)] if is_priced else []),
            style="bold" if index == 0 else "",
        )
    return table


def print_run(record: RunRecord, seconds: float, console: Console) -> None:
    """Print plots and figures of a run, its standing, and its changes of size."""
    if record.observations:
        console.print(plots(record.series(), console))
        console.print()
        console.print(figures(record.summary(), record.objective, console))
        print_standing(record.standing(), console)
        print_undecided(record.undecided(), seconds, console)
    print_changes(record.decisions, record.observations, console)


def print_standing(standing: Standing, console: Console) -> None:
    """Print the objective, what was delivered, and how much of the error budget and of the cost limit is spent."""
    from rich.text import Text

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
        console.print(f"\nThe policy has not decided anything: {undecided.reason}.", markup=False, soft_wrap=True)
    elif undecided.until_s >= max(60.0, LONG_SHARE * seconds):
        sentence = f"The policy decided nothing until +{format_duration(undecided.until_s)}: {undecided.reason}."
        console.print(f"\n{sentence}", markup=False, soft_wrap=True)


def print_changes(decisions: Sequence[Decision], observations: Sequence[Observation], console: Console) -> None:
    """Print the changes of size with their reasons."""
    from rich.table import Table
    from rich.text import Text

    from headgate.cli.explain import KIND_STYLES
    from headgate.render.story import Advice, Resize, note_in_words, row_of, story_of

    changes = [item for item in story_of(decisions, observations) if isinstance(item, Resize | Advice)]
    if not changes:
        console.print("\nThe size was never changed.")
        return
    start_s = observations[0].at_s if observations else 0.0
    table = Table.grid(padding=(0, 2, 0, 0))
    for item in changes[:SHOWN_CHANGES]:
        row = row_of(item)
        altered = [f"\n{note_in_words(note)}" for note in item.verdict.notes if note.before != note.after]
        table.add_row(
            Text(f"+{format_duration(max(0.0, row.at_s - start_s))}", style="dim"),
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
