"""headgate lab"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.common import JsonOption, check_target, make_console, progress_bar, write_json
from headgate.cli.lab_traces import traces

lab = typer.Typer(no_args_is_help=True, help="Named experiments that anybody can run again.", rich_markup_mode="rich")
lab.command()(traces)


@lab.command("list")
def list_scenarios(json_file: JsonOption = None) -> None:
    """List the experiments."""
    from rich.table import Table

    from headgate.lab.scenario import scenarios

    known = scenarios()
    if json_file is not None:
        check_target(json_file)
        write_json([{"name": one.name, "summary": one.summary} for one in known], json_file)
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for one in known:
        table.add_row(f"[bold cyan]{one.name}[/bold cyan]", one.summary)
    make_console().print(table)


@lab.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which experiment; headgate lab list names them.")],
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an HTML report with plots.", show_default=False)
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Run one experiment and show its table, with the figures of its source document beside it.

    [bold]Examples[/bold]
      [cyan]headgate lab run russo-table-1 --json table.json --report table.html[/cyan]
    """
    from rich.table import Table
    from rich.text import Text

    from headgate.lab.scenario import find_scenario
    from headgate.lab.scenario_report import cell, write_scenario_report

    check_target(json_file)
    check_target(None if report is None else str(report))
    found = find_scenario(name)
    with progress_bar(name) as progress:
        outcome = found.run(progress)
    if report is not None:
        write_scenario_report(report, found, outcome)
    if json_file is not None:
        write_json(found.to_json(outcome), json_file)
    if json_file == "-":
        return
    console = make_console()
    names = list(dict.fromkeys(key for row in outcome.rows for key in row))
    table = Table(*names, title=found.summary, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for row in outcome.rows:
        table.add_row(*(cell(row.get(key)) for key in names))
    console.print(table)
    for note in outcome.notes:
        console.print(Text(f"\n{note}", style="dim"))
