"""headgate version"""

from __future__ import annotations

import typer

from headgate import __version__
from headgate.cli.common import JsonOption, check_target, write_json


def version(json_file: JsonOption = None) -> None:
    """Print the version."""
    check_target(json_file)
    if json_file is None:
        typer.echo(__version__)
    else:
        write_json({"version": __version__}, json_file)
