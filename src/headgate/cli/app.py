"""The ``headgate`` command, put together from one file per command."""

from __future__ import annotations

from typing import Annotated

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


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version_and_exit, help="Print the version and exit."),
    ] = False,
) -> None:
    """Keep a streaming job at the size its service-level objective needs, and no larger.

    Durations are written 90s, 5m, 2h or as a number of seconds. Commands that print results take --json.
    """


def _print_version(json_file: options.Json = None) -> None:
    """Print the version."""
    answer({"version": __version__}, __version__, json_file)


app.command()(demo)
app.command()(simulate)
app.add_typer(policies, name="policies")
app.command()(forecasters)
app.command()(engines)
app.command()(explain)
app.command()(report)
app.command()(replay)
app.command()(mst)
app.add_typer(rules, name="rules")
app.add_typer(cluster, name="cluster")
app.add_typer(kafka, name="kafka")
app.add_typer(flink, name="flink")
app.command("autoscale-flink")(autoscale_flink)
app.command()(load)
app.add_typer(application, name="app")
app.add_typer(pipeline, name="pipeline")
app.command()(serve)
app.command()(agent)
app.add_typer(token, name="token")
app.command()(status)
app.command()(pause)
app.command()(resume)
app.command("set")(set_job)
app.command()(history)
app.add_typer(lab, name="lab")
app.command()(doctor)
app.command()(completion)
app.command("version")(_print_version)


def main() -> None:
    """Run the command line; the entry point of the ``headgate`` script."""
    StandardOutput.take_over()
    with interrupts_delivered():
        app()
