"""headgate cluster"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.common import JsonOption, check_target, make_console, say, write_json
from headgate.core.types import JSON

if TYPE_CHECKING:
    from headgate.local.cluster import ClusterState
    from headgate.local.detached import Found

cluster = typer.Typer(
    no_args_is_help=True, help="A real Spark cluster on this machine, to try things on.", rich_markup_mode="rich"
)

DEFAULT_SLOTS = 8


@cluster.command()
def up(
    slots: Annotated[
        int, typer.Option(metavar="N", help="How many one-core executors it offers at most.")
    ] = DEFAULT_SLOTS,
    json_file: JsonOption = None,
) -> None:
    """Start a cluster that goes on until [bold]headgate cluster down[/bold].

    Master and worker listen on this machine only. An executor takes about half a gigabyte once a job runs on it.
    """
    from headgate.local import cluster as local
    from headgate.local.detached import Found

    check_target(json_file)
    with make_console(stderr=True).status("starting a Spark master and a worker"):
        state = local.up(slots)
    if json_file is not None:
        write_json(_as_json(Found(state, gone=None)), json_file)
        return
    say(f"up at {state.master_url} with {slots} slots, web page {state.web_url}")


@cluster.command()
def status(json_file: JsonOption = None) -> None:
    """Say whether a cluster is up, and where.

    The exit code is 1 if one should be up and is gone.
    """
    from headgate.local import cluster as local

    found = local.status()
    if json_file is not None:
        write_json(_as_json(found), json_file)
    elif found is None:
        say("no cluster is up; start one with: headgate cluster up")
    else:
        say(found.gone or f"up at {found.state.master_url}, web page {found.state.web_url}")
    if found is not None and found.gone:
        raise typer.Exit(1)


@cluster.command()
def down(json_file: JsonOption = None) -> None:
    """Stop the cluster and everything that runs on it; fine when none is up."""
    from headgate.local import cluster as local

    found = local.down()
    if json_file is not None:
        write_json({"up": False, "stopped": found is not None and found.gone is None}, json_file)
    elif found is None:
        say("no cluster was up")
    else:
        say(found.gone or f"stopped the cluster at {found.state.master_url}")


def _as_json(found: Found[ClusterState] | None) -> dict[str, JSON]:
    if found is None:
        return {"up": False}
    if found.gone:
        return {"up": False, "reason": found.gone}
    state = found.state
    return {"up": True, "master_url": state.master_url, "web_url": state.web_url, "warden_pid": state.warden_pid}
