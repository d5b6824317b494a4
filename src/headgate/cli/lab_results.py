"""headgate lab results: what is in the folder of a lab run."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headgate.cli import options
from headgate.cli.common import (
    Outputs,
    argument,
    check_target,
    key_values,
    make_console,
    option,
    print_notes,
    print_table,
    write_json,
)
from headgate.core.errors import InputError
from headgate.core.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headgate.core.types import JSON
    from headgate.lab.experiments.results import GroupComparison, LabResults
    from headgate.lab.experiments.summary import RepeatGroup
    from headgate.lab.scenario import ScenarioOutcome


def show_ranks(found: LabResults, report: Path | None, json_file: str | None) -> None:
    """Write the requested files, and print the ranks unless JSON goes to standard output."""
    from headgate.research.league.report import league_outcome

    outcome = league_outcome(found)
    summary = f"{found.done:,} simulated runs: policies ranked by cost where the objective is met."
    show_outcome(outcome, found.name, summary, report, json_file)


def show_outcome(
    outcome: ScenarioOutcome, name: str, summary: str, report: Path | None, json_file: str | None, heading: str = ""
) -> None:
    """Write the requested files, and print the table unless JSON goes to standard output."""
    from headgate.lab.scenario import write_scenario_report

    with Outputs() as outputs:
        if report is not None:
            outputs.write(write_scenario_report, report, name, summary, outcome)
        outputs.write(write_json, outcome.to_json(name, summary), json_file)
        if json_file != "-":
            console = make_console()
            if heading:
                console.print(Text(heading, style="italic"))
            print_table(outcome.rows, console, outcome.notes)


_HOURS = {"instance-hours": "instance_hours"}
_PRICED = {"cost": "cost"}
_SHOWN = {"late %": "late_records_pct", "p95 s": "latency_p95_s", "rescales": "rescales"}


def results(
    folder: Annotated[Path, argument("DIR", "The folder of a lab run.")],
    where: Annotated[
        list[str] | None,
        option("LABEL=VALUE", "Only some: workload, job, objective or policy; * stands for anything; may be repeated."),
    ] = None,
    sort: Annotated[str | None, option("FIGURE", "The least of a figure first.", show_default="met, then cost")] = None,
    against: Annotated[Path | None, option("DIR", "Another lab run to compare with, as the earlier one.")] = None,
    rank: Annotated[
        bool, typer.Option("--rank", help="Rank policies over all contests, by cost where the objective is met.")
    ] = False,
    csv_file: Annotated[Path | None, option("FILE", "Write all figures as CSV.", "--csv")] = None,
    report: options.Report = None,
    json_file: options.Json = None,
) -> None:
    """Show what a lab run came to, also while it is under way or after it was stopped.

    [bold]Examples[/bold]
      [cyan]headgate lab results lab/first-look --where policy=hpa* --sort late_records_pct[/cyan]
      [cyan]headgate lab results lab/after --against lab/before --csv both.csv[/cyan]
    """
    from headgate.lab.experiments.results import compare, compared_to_json, read_results
    from headgate.render.page import require_plotly, write_file

    for target in (json_file, csv_file, report):
        check_target(target)
    if report is not None and against is not None:
        raise InputError(f"--report {report} and --against {against} do not go together; a report is of one lab run.")
    if rank and (against is not None or csv_file is not None or sort is not None):
        raise InputError("--rank goes with --where, --report and --json; --against, --csv and --sort are of contests.")
    if report is not None:
        require_plotly()
    require("a lab run", "pyarrow")
    wanted = key_values("--where", where or [])
    found = read_results(folder).where(wanted).sorted_by(sort)
    if rank:
        show_ranks(found, report, json_file)
        return
    pairs = None if against is None else compare(read_results(against).where(wanted), found)
    plain = found.to_json() if pairs is None else compared_to_json(pairs)
    with Outputs() as outputs:
        if csv_file is not None:
            outputs.write(write_file, csv_file, _as_csv(plain["rows"]))
        if pairs is None:
            show_results(found, report, json_file)
            return
        outputs.write(write_json, plain, json_file)
        if json_file != "-":
            _print_compared(pairs)


def show_results(found: LabResults, report: Path | None, json_file: str | None) -> None:
    """Write the requested files, and print the contests unless JSON goes to standard output."""
    from headgate.lab.experiments.report import write_results_report

    with Outputs() as outputs:
        if report is not None:
            outputs.write(write_results_report, report, found)
        outputs.write(write_json, found.to_json(), json_file)
        if json_file != "-":
            print_results(found)


def print_results(found: LabResults) -> None:
    """A table for each contest, and what to know about them."""
    from headgate.lab.experiments.report import with_interval

    console = make_console()
    contests = dict.fromkeys(group.contest for group in found.groups)
    for contest in contests:
        columns = _columns(group for group in found.groups if group.contest == contest)
        rows = [
            {"policy": group.policy, "kept": f"{group.met}/{group.runs}"}
            | {name: with_interval(group.figures[figure]) for name, figure in columns.items()}
            | {"": str(verdict)}
            for group, verdict in found.rows
            if group.contest == contest
        ]
        console.print(Text("\n" + " · ".join(contest), style="bold cyan"))
        print_table(rows, console)
    print_notes(found.notes, console)


def _print_compared(pairs: Sequence[GroupComparison]) -> None:
    console = make_console()
    for contest in dict.fromkeys(pair.labels[:3] for pair in pairs):
        columns = _columns(
            group for pair in pairs for group in (pair.before, pair.after) if group and group.contest == contest
        )
        rows = [
            {"policy": pair.labels[3]} | {name: _change(pair, figure) for name, figure in columns.items()}
            for pair in pairs
            if pair.labels[:3] == contest
        ]
        console.print(Text("\n" + " · ".join(contest), style="bold cyan"))
        print_table(rows, console)
    print_notes(
        ["before → after. *: differs by more than noise (Welch's test, 95 %). –: not in that lab run."], console
    )


def _columns(groups: Iterable[RepeatGroup]) -> dict[str, str]:
    """Money where there is a price, and what it is paid for otherwise."""
    is_priced = any(group.figures["cost"] for group in groups)
    return (_PRICED if is_priced else _HOURS) | _SHOWN


def _change(pair: GroupComparison, figure: str) -> str:
    from headgate.render.tables import number

    before, after, is_change = pair.change(figure)
    values = f"{'–' if before is None else number(before)} → {'–' if after is None else number(after)}"
    return f"{values} *" if is_change else values


def _as_csv(rows: Sequence[Mapping[str, JSON]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
