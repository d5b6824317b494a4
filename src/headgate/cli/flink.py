"""headgate flink"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.common import JsonOption, check_target, make_console, say, write_json
from headgate.cli.detached_view import tell_down, tell_status
from headgate.cli.flink_run import run
from headgate.core.types import JSON

if TYPE_CHECKING:
    from headgate.local.flink import FlinkState

flink = typer.Typer(
    no_args_is_help=True,
    help="A real Flink cluster on this machine, to try things on, and applications for it.",
    rich_markup_mode="rich",
)
flink.command()(run)

DEFAULT_TASKMANAGERS = 1
DEFAULT_SLOTS = 2


@flink.command()
def up(
    taskmanagers: Annotated[
        int, typer.Option(metavar="N", help="How many TaskManagers it begins with.")
    ] = DEFAULT_TASKMANAGERS,
    slots: Annotated[int, typer.Option(metavar="N", help="How many slots a TaskManager has.")] = DEFAULT_SLOTS,
    json_file: JsonOption = None,
) -> None:
    """Start a cluster that goes on until [bold]headgate flink down[/bold].

    All its servers listen on this machine only. JobManager and coordinator take about 300 MB together, a TaskManager
    200 MB and 100 MB for each slot. One that ends is started again, and jobs go on from their last checkpoint, which
    are kept as long as the cluster is up.
    """
    from headgate.local import flink as local

    check_target(json_file)
    with make_console(stderr=True).status("starting a Flink JobManager and TaskManagers"):
        state = local.up(taskmanagers, slots)
    if json_file is not None:
        write_json({"up": True, **_as_json(state)}, json_file)
        return
    say(_told(state))


@flink.command()
def status(json_file: JsonOption = None) -> None:
    """Say whether a cluster is up, where, and with how many TaskManagers.

    The exit code is 1 if one should be up and is gone.
    """
    from headgate.local import flink as local

    check_target(json_file)
    none_is_up = "no Flink cluster is up; start one with: headgate flink up"
    tell_status(local.status(), json_file, none_is_up, _told, _as_json)


@flink.command()
def down(json_file: JsonOption = None) -> None:
    """Stop the cluster with all its jobs and their checkpoints; fine when none is up."""
    from headgate.local import flink as local

    check_target(json_file)
    tell_down(local.down(), json_file, "Flink cluster")


def _told(state: FlinkState) -> str:
    from headgate.local.flink import FlinkCluster

    found = FlinkCluster(state.url, state.directory).taskmanagers()
    slots, free = sum(one.slots for one in found), sum(one.free_slots for one in found)
    return f"up at {state.url}, {len(found)} TaskManager{'' if len(found) == 1 else 's'}, {free} of {slots} slots free"


def _as_json(state: FlinkState) -> dict[str, JSON]:
    from headgate.local.flink import FlinkCluster

    servers: list[JSON] = [
        {"id": one.id, "slots": one.slots, "free_slots": one.free_slots}
        for one in FlinkCluster(state.url, state.directory).taskmanagers()
    ]
    return {"url": state.url, "warden_pid": state.warden_pid, "taskmanagers": servers}
