"""headgate cluster, and what all servers say that outlive the command that started them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from headgate.cli import options
from headgate.cli.common import answer, make_console, option, say, write_json
from headgate.core.types import JSON

if TYPE_CHECKING:
    from headgate.local.servers import DetachedServer, ServerState
    from headgate.local.spark.cluster import ClusterState

cluster = typer.Typer(
    no_args_is_help=True, help="A real Spark cluster on this machine, to try things on.", rich_markup_mode="rich"
)

DEFAULT_SLOTS = 8


@cluster.command()
def up(
    slots: Annotated[int, option("N", "How many one-core executors it offers at most.")] = DEFAULT_SLOTS,
    json_file: options.Json = None,
) -> None:
    """Start a cluster that goes on until [bold]headgate cluster down[/bold].

    Master and worker listen on this machine only. An executor takes about half a gigabyte once a job runs on it.
    """
    from headgate.local.spark import cluster as local

    with make_console(stderr=True).status("starting a Spark master and a worker"):
        state = local.up(slots)
    sentence = f"up at {state.master_url} with {slots} slots, web page {state.web_url}"
    answer({"up": True, **_as_json(state)}, sentence, json_file)


@cluster.command()
def status(json_file: options.Json = None) -> None:
    """Say whether a cluster is up, and where.

    The exit code is 1 if one should be up and is gone.
    """
    from headgate.local.spark import cluster as local

    none_is_up = "no cluster is up; start one with: headgate cluster up"
    print_status(local.status(), json_file, none_is_up, _status_text, _as_json)


@cluster.command()
def down(json_file: options.Json = None) -> None:
    """Stop the cluster and everything that runs on it; fine when none is up."""
    from headgate.local.spark import cluster as local

    print_stopped(local.down(), json_file, "cluster")


def _status_text(state: ClusterState) -> str:
    return f"up at {state.master_url}, web page {state.web_url}"


def _as_json(state: ClusterState) -> dict[str, JSON]:
    return {"master_url": state.master_url, "web_url": state.web_url, "warden_pid": state.warden_pid}


# --------------------------------------------------------------------------------------------------- detached servers

StateT = TypeVar("StateT", bound="ServerState")


def print_status(
    found: DetachedServer[StateT] | None,
    json_file: str | None,
    none_is_up: str,
    describe: Callable[[StateT], str],
    as_json: Callable[[StateT], dict[str, JSON]],
) -> None:
    """Print whether the servers run, and where; exit with 1 if they should run and are gone."""
    if found is None:
        answer({"up": False}, none_is_up, json_file)
    elif found.gone:
        answer({"up": False, "reason": found.gone}, found.gone, json_file)
        raise typer.Exit(1)
    elif json_file is None:
        say(describe(found.state))
    else:
        write_json({"up": True, **as_json(found.state)}, json_file)


def print_stopped(found: DetachedServer[StateT] | None, json_file: str | None, what: str) -> None:
    """Print what was stopped; it is no error if nothing ran."""
    stopped = None if found is None else found.gone or f"stopped the {what} at {found.state.address}"
    answer(
        {"up": False, "stopped": found is not None and found.gone is None}, stopped or f"no {what} was up", json_file
    )
