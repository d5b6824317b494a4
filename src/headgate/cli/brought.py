"""headgate engines, headgate forecasters: what is found by name, with the package that brings it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headgate.cli.common import JsonOption, check_target, make_console, say, write_json
from headgate.core.errors import InputError


def engines(json_file: JsonOption = None) -> None:
    """List the engines: those that come with Headgate, and those that installed packages bring.

    [bold]Examples[/bold]
      [cyan]headgate engines[/cyan]
      [cyan]headgate engines --json[/cyan]
    """
    from headgate.engines.base import brought_engines, engine_class, own_engines

    brought = brought_engines()
    spark = {"name": "spark", "summary": "Spark applications: autoscale(spark), headgate app run.", "package": None}

    def described(name: str) -> dict[str, Any]:
        return {"name": name, "summary": engine_class(name).summary, "package": brought.get(name)}

    hint = "headgate.autoscale_engine(NAME, TARGET) scales what an engine other than Spark runs."
    list_described({*own_engines(), *brought}, described, json_file, hint, first=[spark])


def forecasters(json_file: JsonOption = None) -> None:
    """List the load forecasters.

    [bold]Examples[/bold]
      [cyan]headgate forecasters[/cyan]
      [cyan]headgate forecasters --json[/cyan]
    """
    from headgate.forecast import brought_forecasters, forecaster_class, forecaster_names

    brought = brought_forecasters()

    def described(name: str) -> dict[str, Any]:
        return {"name": name, "summary": forecaster_class(name).summary, "package": brought.get(name)}

    hint = "headgate.forecast.make_forecaster(NAME) makes one."
    list_described({*forecaster_names(), *brought}, described, json_file, hint)


def list_described(
    names: Iterable[str],
    described: Callable[[str], dict[str, Any]],
    json_file: str | None,
    hint: str,
    first: Sequence[dict[str, Any]] = (),
) -> None:
    """Print or write what is known of each name; one that cannot be loaded is told and does not hide the rest."""
    check_target(json_file)
    found, broken = [*first], []
    for name in sorted(names):
        try:
            found.append(described(name))
        except InputError as error:
            broken.append(str(error))
    if json_file is not None:
        write_json(found, json_file)
    else:
        _print_all(found, hint)
    for sentence in broken:
        say(f"headgate: {sentence}", stderr=True)


def summary_of(one: Mapping[str, Any]) -> str:
    """What it does, and who brings it where that is another package."""
    return f"{one['summary']} ({one['package']})" if one["package"] else str(one["summary"])


def _print_all(found: Sequence[Mapping[str, Any]], hint: str) -> None:
    from rich.text import Text

    from headgate.cli.tables import print_described

    console = make_console()
    print_described([(str(one["name"]), summary_of(one)) for one in found], console)
    console.print(Text(f"\n{hint}", style="dim"))
