"""headgate completion"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from headgate.core.errors import UnknownNameError

SHELLS = ("bash", "fish", "zsh")
VARIABLE = "_HEADGATE_COMPLETE"
"""By it a shell asks how a line may go on."""


def completion(shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, fish or zsh.")]) -> None:
    """Print a script by which a shell completes commands and options.

    [bold]Examples[/bold]
      [cyan]headgate completion bash > ~/.local/share/bash-completion/completions/headgate[/cyan]
      [cyan]headgate completion fish > ~/.config/fish/completions/headgate.fish[/cyan]
      [cyan]eval "$(headgate completion zsh)"[/cyan]
    """
    from typer._completion_shared import get_completion_script  # What its own --show-completion prints.

    if shell not in SHELLS:
        raise UnknownNameError("shell", shell, SHELLS)
    typer.echo(get_completion_script(prog_name="headgate", complete_var=VARIABLE, shell=shell))


def prepare_completion() -> None:
    """Let Typer answer a shell that asks."""
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init  # What an app with its own options does.

        completion_init()
