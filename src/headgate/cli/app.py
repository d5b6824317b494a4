"""The `headgate` command and its subcommands."""

import typer

from headgate import __version__

app = typer.Typer(
    name="headgate",
    help="Keep a streaming job at the size its service-level objective needs, and no larger.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def _root() -> None:
    """Keep a streaming job at the size its service-level objective needs, and no larger."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command line; the entry point of the `headgate` script."""
    app()
