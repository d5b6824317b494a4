"""Running the command line in the tests."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from headgate.cli.app import app


def headgate(*arguments: str, width: int = 200) -> Result:
    """Run a command in this process, on a terminal of so many columns."""
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(width), "NO_COLOR": "1"})


def refused(*arguments: str) -> str:
    """What a command says that cannot use its input: one sentence, exit code 2, nothing on standard output."""
    result = headgate(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("headgate: ")
    return result.stderr.removeprefix("headgate: ").rstrip("\n")


REACTIVE = ("--policy", "reactive")
"""The policy whose course is easy to foretell."""
SIMULATE = ("simulate", "--workload", "constant:25", "--service-rate", "10", "--seconds", "5m")
