"""headgate policies"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from headgate.cli import options
from headgate.cli.common import argument, make_console, option, print_described, print_notes, say, write_json
from headgate.core.errors import InputError, StateError
from headgate.core.types import JSON

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SIDE_BY_SIDE = 76
"""Columns that a setting, its default, the allowed values and its meaning need side by side."""


FIRST = "Begin with one of these"
PURPOSES: Mapping[str, Sequence[str]] = {
    FIRST: ("autopilot", "rules", "reactive", "hpa", "keda-lag", "static"),
    "Thresholds of latency, utilization or backlog": (
        *("threshold", "trigger-ratio", "drain-time", "spark-dra", "spark-streaming-dra"),
        "online-parameter-optimization",
    ),
    "A model of the throughput": (*("ds2", "flink-autoscaler", "quantile"), *(f"mst-{number}" for number in range(8))),
    "Ahead of the load": ("proactive",),
    "Learning by trial": ("q-learning", "value-iteration", "rl-centralized", "rl-decentralized"),
    "Plans for several operators": ("mdp", "mdp-path"),
    "Several policies at once": ("committee",),
}
"""What policies are for; those of other packages follow in a group of their own."""
OTHERS = "From other packages"


class _PoliciesGroup(TyperGroup):
    """A name that is no command is the name of a policy to show: ``policies NAME`` is ``policies show NAME``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and not args[0].startswith("-") and args[0] not in self.commands
        return super().parse_args(ctx, ["show", *args] if named else args)


policies = typer.Typer(cls=_PoliciesGroup, rich_markup_mode="rich")


@policies.callback(invoke_without_command=True)
def _list(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="List all of them, by what they are for.")] = False,
    json_file: options.Json = None,
) -> None:
    """List the policies to choose from, or show one with its settings and what it has learned.

    A policy of your own is named by its file and its class, [bold]my_policy.py:HalfFull[/bold].

    [bold]Examples[/bold]
      [cyan]headgate policies[/cyan]
      [cyan]headgate policies --all[/cyan]
      [cyan]headgate policies reactive[/cyan]
      [cyan]headgate policies show q-learning --state run.journal[/cyan]
      [cyan]headgate policies --json | jq '.\\[].name'[/cyan]
    """
    if context.invoked_subcommand is not None:
        return
    from headgate.policies import brought_policies, policy_names

    names = {*policy_names(), *brought_policies()}
    hint = "headgate policies NAME shows the settings of one; --set and --guard change them."
    if json_file is not None:
        _print_summaries(names, _described, json_file, hint)
        return
    grouped = {purpose: [name for name in known if name in names] for purpose, known in PURPOSES.items()}
    grouped[OTHERS] = sorted(names.difference(*grouped.values()))
    console = make_console()
    shown = [purpose for purpose in (grouped if every else (FIRST, OTHERS)) if grouped[purpose]]
    for purpose in shown:
        console.print(Text(purpose, style="bold"))
        _print_summaries(grouped[purpose], _described, None, is_sorted=False)
        console.print()
    if (more := len(names) - sum(len(grouped[purpose]) for purpose in shown)) > 0:
        console.print(Text(f"{more} more: headgate policies --all.", style="dim"))
    console.print(Text(hint, style="dim"))


@policies.command()
def show(
    name: Annotated[str, argument("NAME", "Which policy.")],
    state: Annotated[
        Path | None,
        option("FILE", "Show what it has learned instead of its settings: a snapshot, or the journal of a run."),
    ] = None,
    json_file: options.Json = None,
) -> None:
    """Show one policy with all its settings, or what it has learned.

    [bold]Examples[/bold]
      [cyan]headgate policies show threshold[/cyan]
      [cyan]headgate policies show q-learning --state learned.json[/cyan]
    """
    from headgate.policies import policy_class
    from headgate.runtime.past import read_state

    described = _described(policy_class(name).name)
    learned = None if state is None else read_state(state, described["name"])
    if json_file is not None:
        write_json(described if learned is None else {**described, "state": learned}, json_file)
    elif learned is None:
        _print_one(described)
    else:
        _print_state(described, learned)


def _described(name: str) -> dict[str, Any]:
    from headgate.policies import brought_policies, policy_class
    from headgate.policies.frame.settings import describe_settings

    policy = policy_class(name)
    # A policy may bring other defaults for its guards than the general ones.
    defaults = policy.guards.model_dump(mode="json")
    guards = [{**row, "default": defaults[row["name"]]} for row in describe_settings(type(policy.guards))]
    return {
        "name": policy.name,
        "summary": policy.summary,
        "package": brought_policies().get(name),
        "settings": describe_settings(policy.Settings),
        "guards": guards,
    }


def _print_one(policy: dict[str, Any]) -> None:
    console = make_console()
    console.print(f"[bold cyan]{policy['name']}[/bold cyan]  {_summary(policy)}\n")
    _print_settings("Settings, by --set", policy["settings"], console)
    console.print()
    _print_settings("Guards around it, by --guard", policy["guards"], console)


def _print_state(policy: dict[str, Any], state: Mapping[str, JSON]) -> None:
    from rich.table import Table

    from headgate.journal.codec import to_json
    from headgate.policies import policy_class

    console = make_console()
    console.print(f"[bold cyan]{policy['name']}[/bold cyan]  {policy['summary']}")
    try:
        shown = policy_class(policy["name"]).state_tables(state)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateError(f"saved state of policy {policy['name']!r} is damaged: {error!r}.") from error
    for entry in shown:
        table = Table(title=f"\n{entry.title}", title_justify="left", title_style="bold", header_style="dim", box=None)
        for index, column in enumerate(entry.columns):
            table.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
        for row in entry.rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
    if not shown:
        console.print(Text(to_json(state, indent=2)))


def _print_settings(title: str, rows: list[dict[str, Any]], console: Console) -> None:
    if console.width >= SIDE_BY_SIDE:
        console.print(_settings_table(title, rows))
        return
    console.print(f"[bold]{title}[/bold]")
    if not rows:
        console.print("none")
    cells = map(_cells, rows)
    described = [(f"{name} = {default}", f"{text} Allowed: {allowed}.") for name, default, allowed, text in cells]
    print_described(described, console)


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return row["name"], _as_typed(row["default"]), row["allowed"] or row["type"], row["help"].replace("``", "")


def _settings_table(title: str, rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None)
    table.add_column("setting", no_wrap=True, style="cyan")
    table.add_column("default", no_wrap=True)
    table.add_column("allowed", max_width=24)
    table.add_column("what it does", ratio=1)
    for row in rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
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


def engines(json_file: options.Json = None) -> None:
    """List the engines: those that come with Headgate, and those that installed packages bring.

    [bold]Examples[/bold]
      [cyan]headgate engines[/cyan]
      [cyan]headgate engines --json[/cyan]
    """
    from headgate.engines.base import brought_engines, engine_class, own_engines

    brought = brought_engines()
    summarised = partial(_summarised, engine_class, brought)
    spark = {"name": "spark", "summary": "Spark applications: autoscale(spark), headgate app run.", "package": None}
    hint = "headgate.autoscale_engine(NAME, TARGET) scales what an engine other than Spark runs."
    _print_summaries({*own_engines(), *brought}, summarised, json_file, hint, first=[spark])


def forecasters(json_file: options.Json = None) -> None:
    """List the load forecasters.

    [bold]Examples[/bold]
      [cyan]headgate forecasters[/cyan]
      [cyan]headgate forecasters --json[/cyan]
    """
    from headgate.forecast import brought_forecasters, forecaster_class, forecaster_names

    brought = brought_forecasters()
    summarised = partial(_summarised, forecaster_class, brought)
    hint = "headgate.forecast.make_forecaster(NAME) makes one."
    _print_summaries({*forecaster_names(), *brought}, summarised, json_file, hint)


def _summarised(class_of: Callable[[str], Any], brought: Mapping[str, str], name: str) -> dict[str, Any]:
    return {"name": name, "summary": class_of(name).summary, "package": brought.get(name)}


def _print_summaries(
    names: Iterable[str],
    described: Callable[[str], dict[str, Any]],
    json_file: str | None,
    *hints: str,
    first: Sequence[dict[str, Any]] = (),
    is_sorted: bool = True,
) -> None:
    """Print or write what is known of each name; one that cannot be loaded is reported and does not hide the rest."""
    found, broken = [*first], []
    for name in sorted(names) if is_sorted else names:
        try:
            found.append(described(name))
        except InputError as error:
            broken.append(str(error))
    if json_file is not None:
        write_json(found, json_file)
    else:
        console = make_console()
        print_described([(str(entry["name"]), _summary(entry)) for entry in found], console)
        print_notes(hints, console)
    for sentence in broken:
        say(f"headgate: {sentence}", stderr=True)


def _summary(entry: Mapping[str, Any]) -> str:
    """What it does, and who brings it where that is another package."""
    return f"{entry['summary']} ({entry['package']})" if entry["package"] else str(entry["summary"])
