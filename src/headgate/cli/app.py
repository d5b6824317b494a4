"""The ``headgate`` command, put together from one file per command."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headgate import __version__
from headgate.cli import options
from headgate.cli.agent import agent
from headgate.cli.application import application
from headgate.cli.autoscale_flink import autoscale_flink
from headgate.cli.cluster import cluster
from headgate.cli.common import answer
from headgate.cli.demo import demo
from headgate.cli.doctor import doctor
from headgate.cli.explain import explain, report
from headgate.cli.failures import HeadgateGroup, StandardOutput, completion
from headgate.cli.flink import flink
from headgate.cli.interrupts import interrupts_delivered
from headgate.cli.kafka import kafka
from headgate.cli.lab import lab
from headgate.cli.load import load
from headgate.cli.mst import mst
from headgate.cli.pipeline import pipeline
from headgate.cli.policies import engines, forecasters, policies
from headgate.cli.replay import replay
from headgate.cli.rules import rules
from headgate.cli.serve import serve
from headgate.cli.simulate import simulate
from headgate.cli.status import history, status
from headgate.cli.steering import pause, resume, set_job
from headgate.cli.submit import submit
from headgate.cli.token import token

app = typer.Typer(
    name="headgate",
    cls=HeadgateGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    # A defect prints Python's traceback; errors that users can cause print one sentence (see HeadgateGroup).
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version_and_exit(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _show_all(context: typer.Context, wanted: bool) -> None:
    """Print the help with the commands that are seldom used."""
    if wanted:
        for command in getattr(context.command, "commands", {}).values():
            command.hidden = False
        typer.echo(context.get_help())
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version_and_exit, help="Print the version and exit."),
    ] = False,
    every: Annotated[
        bool,
        typer.Option("--all", is_eager=True, callback=_show_all, help="Show all commands, seldom-used ones too."),
    ] = False,
) -> None:
    """Keep a streaming job at the size its service-level objective needs, and no larger.

    Durations are written 90s, 5m, 2h or as a number of seconds. Commands that print results take --json.
    """


def _print_version(json_file: options.Json = None) -> None:
    """Print the version."""
    answer({"version": __version__}, __version__, json_file)


RUN, UNDERSTAND, WHAT_IF, SERVICE, TRY = "Run", "Understand", "What if", "Service", "Try out"


def _add(group: str, command: Any, name: str | None = None, *, is_seldom: bool = False) -> None:
    """Add a command, or a typer of several, to a group of the help; one that is seldom used is shown by ``--all``."""
    named: dict[str, Any] = {"rich_help_panel": group, "hidden": is_seldom}
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, **named)
    else:
        app.command(name, **named)(command)


_add(RUN, submit)
_add(RUN, autoscale_flink, "autoscale-flink")
_add(RUN, pipeline, "pipeline")
_add(UNDERSTAND, explain)
_add(UNDERSTAND, report)
_add(UNDERSTAND, policies, "policies")
_add(UNDERSTAND, rules, "rules")
_add(UNDERSTAND, doctor)
_add(WHAT_IF, simulate)
_add(WHAT_IF, replay)
_add(WHAT_IF, lab, "lab")
_add(WHAT_IF, mst)
_add(SERVICE, serve)
_add(SERVICE, status)
_add(SERVICE, history)
_add(SERVICE, pause)
_add(SERVICE, resume)
_add(SERVICE, set_job, "set")
_add(TRY, demo)
_add(TRY, application, "app")
_add(TRY, load)
_add(TRY, cluster, "cluster")
_add(TRY, kafka, "kafka")
_add(TRY, flink, "flink")
_add(SERVICE, agent, is_seldom=True)
_add(SERVICE, token, "token", is_seldom=True)
_add(UNDERSTAND, forecasters, is_seldom=True)
_add(UNDERSTAND, engines, is_seldom=True)
_add(UNDERSTAND, completion, is_seldom=True)
_add(UNDERSTAND, _print_version, "version", is_seldom=True)


def main() -> None:
    """Run the command line; the entry point of the ``headgate`` script."""
    StandardOutput.take_over()
    with interrupts_delivered():
        app()
