"""headgate policies"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.common import JsonOption, check_target, make_console, write_json

if TYPE_CHECKING:
    from rich.table import Table


def policies(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show one policy with all its settings.", show_default=False)
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """List the policies, or show one with its settings.

    [bold]Examples[/bold]
      [cyan]headgate policies[/cyan]
      [cyan]headgate policies reactive[/cyan]
      [cyan]headgate policies --json | jq '.\\[].name'[/cyan]
    """
    from headgate.policies import policy_class, policy_names

    check_target(json_file)
    described = [_described(found) for found in ([policy_class(name).name] if name else policy_names())]
    if json_file is not None:
        write_json(described[0] if name else described, json_file)
    elif name:
        _print_one(described[0])
    else:
        _print_all(described)


def _described(name: str) -> dict[str, Any]:
    from headgate.policies import policy_class
    from headgate.policies.settings import describe_settings

    policy = policy_class(name)
    # A policy may bring other defaults for its guards than the general ones.
    defaults = policy.guards.model_dump(mode="json")
    guards = [{**row, "default": defaults[row["name"]]} for row in describe_settings(type(policy.guards))]
    return {
        "name": policy.name,
        "summary": policy.summary,
        "settings": describe_settings(policy.Settings),
        "guards": guards,
    }


def _print_all(described: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    for policy in described:
        table.add_row(policy["name"], policy["summary"])
    console = make_console()
    console.print(table)
    console.print("\n[dim]headgate policies NAME shows the settings of one; --set and --guard change them.[/dim]")


def _print_one(policy: dict[str, Any]) -> None:
    console = make_console()
    console.print(f"[bold cyan]{policy['name']}[/bold cyan]  {policy['summary']}\n")
    console.print(_settings_table("Settings, by --set", policy["settings"]))
    console.print()
    console.print(_settings_table("Guards around it, by --guard", policy["guards"]))


def _settings_table(title: str, rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None)
    table.add_column("setting", no_wrap=True, style="cyan")
    table.add_column("default", no_wrap=True)
    table.add_column("allowed", max_width=24)
    table.add_column("what it does", ratio=1)
    for row in rows:
        cells = (row["name"], _as_typed(row["default"]), row["allowed"] or row["type"], row["help"].replace("``", ""))
        table.add_row(*(Text(cell) for cell in cells))
    if not rows:
        table.add_row("none")
    return table


def _as_typed(value: object) -> str:
    """A default as it would be typed after ``--set``."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
