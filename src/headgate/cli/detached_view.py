"""What ``status`` and ``down`` print about servers that outlive the command that started them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from headgate.cli.common import say, write_json
from headgate.core.types import JSON

if TYPE_CHECKING:
    from headgate.local.servers import DetachedServer, ServerState

StateT = TypeVar("StateT", bound="ServerState")


def print_status(
    found: DetachedServer[StateT] | None,
    json_file: str | None,
    none_is_up: str,
    describe: Callable[[StateT], str],
    as_json: Callable[[StateT], dict[str, JSON]],
) -> None:
    """Print whether the servers run, and where; exit with 1 if they should run and are gone."""
    if json_file is not None:
        write_json(_standing(found, as_json), json_file)
    elif found is None:
        say(none_is_up)
    else:
        say(found.gone or describe(found.state))
    if found is not None and found.gone:
        raise typer.Exit(1)


def _standing(found: DetachedServer[StateT] | None, as_json: Callable[[StateT], dict[str, JSON]]) -> dict[str, JSON]:
    if found is None:
        return {"up": False}
    if found.gone:
        return {"up": False, "reason": found.gone}
    return {"up": True, **as_json(found.state)}


def print_stopped(found: DetachedServer[StateT] | None, json_file: str | None, what: str) -> None:
    """Print what was stopped; it is no error if nothing ran."""
    if json_file is not None:
        write_json({"up": False, "stopped": found is not None and found.gone is None}, json_file)
    elif found is None:
        say(f"no {what} was up")
    else:
        say(found.gone or f"stopped the {what} at {found.state.address}")
