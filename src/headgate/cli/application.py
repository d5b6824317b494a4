"""headgate app"""

from __future__ import annotations

import typer

from headgate.cli.app_run import run
from headgate.cli.common import JsonOption, check_target, make_console, write_json
from headgate.core.types import JSON

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
    from headgate.apps.registry import APPLICATIONS
    from headgate.cli.tables import print_table

    if json_file is not None:
        check_target(json_file)
        write_json([one.to_json() for one in APPLICATIONS], json_file)
        return
    rows: list[dict[str, JSON]] = [
        {
            "application": one.name,
            "what it computes": one.summary,
            "from": one.document,
            "state": one.state,
            "records": one.data,
        }
        for one in APPLICATIONS
    ]
    print_table(rows, make_console())
