"""headgate app"""

from __future__ import annotations

import typer

from headgate.cli.app_run import run
from headgate.cli.common import JsonOption, check_target, make_console, write_json

application = typer.Typer(
    no_args_is_help=True, help="Streaming applications to be scaled, and records for them.", rich_markup_mode="rich"
)


application.command()(run)


@application.command("list")
def list_applications(json_file: JsonOption = None) -> None:
    """List the applications: what each computes, where it is from, its data, and whether it keeps state.

    [bold]Examples[/bold]
      [cyan]headgate app list[/cyan]
      [cyan]headgate app list --json | jq '.\\[].name'[/cyan]
    """
    from rich.table import Table

    from headgate.apps.registry import APPLICATIONS

    if json_file is not None:
        check_target(json_file)
        write_json([one.to_json() for one in APPLICATIONS], json_file)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("application", style="bold cyan", no_wrap=True)
    table.add_column("what it computes")
    table.add_column("from", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("records", no_wrap=True)
    for one in APPLICATIONS:
        table.add_row(one.name, one.summary, one.document, one.state, one.data)
    make_console().print(table)
