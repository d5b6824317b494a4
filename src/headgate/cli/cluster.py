"""headgate cluster"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import options
from headgate.cli.common import make_console, option, say, write_json
from headgate.cli.detached_view import print_status, print_stopped
from headgate.core.types import JSON

if TYPE_CHECKING:
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
    if json_file is not None:
        write_json({"up": True, **_as_json(state)}, json_file)
        return
    say(f"up at {state.master_url} with {slots} slots, web page {state.web_url}")


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
