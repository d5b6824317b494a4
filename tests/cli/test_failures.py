"""How commands speak: options as they are typed, help that fits, completion, the version, and what nobody decided."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headgate import __version__
from headgate.cli.app import app, flowing
from headgate.cli.common import make_console
from headgate.cli.explain import print_undecided
from headgate.runtime.summary import Undecided
from tests.cli.commands import REACTIVE, SIMULATE, headgate, refused
from tests.cli.test_nasty_values import COMMANDS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--min", "5", "--max", "3"), "--max 3 is below --min 5; it must be at least as large."),
        (("--interval", "0"), "--interval 0.0 is not allowed; it must be finite and above 0."),
        (("--start", "50"), "--start 50 is not allowed; it must lie between min 1 and max 10."),
        (("--price", "-3"), "--price -3.0 is not allowed; it must be finite and not negative."),
        (("--service-rate", "0"), "--service-rate 0.0 of job is not allowed; it must be finite and above 0."),
        (("--min", "0", "--policy", "hpa"), "--min 0 is not allowed with policy 'hpa', which cannot wake a job"),
    ],
)
def test_options_are_called_as_they_were_typed(options: tuple[str, ...], message: str) -> None:
    assert refused(*SIMULATE, *options).startswith(message)


def test_the_version_is_an_option_too() -> None:
    assert headgate("--version").stdout == headgate("version").stdout == f"{__version__}\n"


# --------------------------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", [("simulate",), ("lab", "tune")])
def test_help_fits_the_terminal(command: tuple[str, ...], width: int) -> None:
    text = headgate(*command, "--help", width=width).stdout
    assert max(map(len, text.splitlines())) <= width
    lines = text.partition("Options")[0].splitlines()
    assert not [line for line in lines if line.lstrip().startswith(("headgate", "--")) and not line.startswith("  ")]


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_help_cuts_no_word_and_shows_flags_as_flags(width: int) -> None:
    for command in commands(typer.main.get_command(app)):
        text = headgate(*command, "--help", width=width).stdout
        panels = text[text.index("╭") :]
        assert "…" not in panels, text
        assert "<bool>" not in text
        examples = re.split(r"Examples?\s*\n", text[: text.index("╭")])
        assert len(examples) == 1 or all(line.startswith("   ") for line in examples[1].splitlines()), text
        assert max(map(len, text.splitlines())) <= width


def test_no_line_of_a_paragraph_begins_like_a_heading() -> None:
    """It would not be put together with the line before it."""
    for name, command in COMMANDS.items():
        lines = [line.strip() for line in (command.help or "").splitlines()]
        assert not [line for line in lines if line.startswith("[bold]") and not line.endswith("[/bold]")], name


def test_a_paragraph_flows_and_lines_that_stand_for_themselves_stay() -> None:
    text = "First.\n\nOne line\nand another.\n  constant:10\n  a long one that has to be broken\n\n[bold]So[/bold]\n"
    assert flowing(text, 24) == (
        "First.\n\nOne line and another.\n  constant:10\n  a long one that\n      has to be broken\n\n[bold]So[/bold]"
    )


def test_a_command_that_is_broken_can_still_be_copied() -> None:
    shown = flowing("Adds.\n\n[bold]So[/bold]\n  [cyan]headgate add --one 1 --two 2 --three 3[/cyan]", 30)
    text = shown.partition("  [cyan]")[2].replace("[/cyan]", "")
    assert "\\\n" in text
    assert text.replace("\\\n", "").split() == ["headgate", "add", "--one", "1", "--two", "2", "--three", "3"]


# ---------------------------------------------------------------------------------------------------------- completion


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_a_script_for_each_shell_completes_headgate(shell: str) -> None:
    script = headgate("completion", shell).stdout
    assert "_HEADGATE_COMPLETE" in script
    assert "headgate" in script


def test_another_shell_is_refused() -> None:
    assert refused("completion", "tcsh") == "unknown shell 'tcsh', did you mean 'zsh'? Known: bash, fish, zsh."


@pytest.mark.parametrize(
    ("line", "found"),
    [("headgate sim", ["simulate"]), ("headgate lab tr", ["traces"]), ("headgate simulate --min", ["--min"])],
)
def test_a_shell_that_asks_is_answered(line: str, found: list[str]) -> None:
    environment = {"_HEADGATE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    assert CliRunner().invoke(app, [], env=environment, prog_name="headgate").stdout.split() == found


# -------------------------------------------------------------------------------------------- what nobody decided


def test_rules_without_rules_are_refused() -> None:
    message = refused(*SIMULATE, "--policy", "rules")
    assert message == "--policy rules has no rules to go by; give a rule file with --rules FILE."


def test_a_policy_that_has_not_decided_yet_says_so() -> None:
    text = headgate(*SIMULATE, "--policy", "quantile").stdout
    assert "The policy has not decided anything: what instances can carry is not known yet" in text


def test_a_policy_that_began_to_decide_late_says_when() -> None:
    console = make_console()
    with console.capture() as printed:
        print_undecided(Undecided("nothing is known yet", 480.0), 3600.0, console)
        print_undecided(Undecided("nothing is known yet", 10.0), 3600.0, console)
        print_undecided(None, 3600.0, console)
    assert printed.get() == "\nThe policy decided nothing until +8m: nothing is known yet.\n"


def test_a_policy_that_decided_says_nothing_of_it() -> None:
    assert "decided" not in headgate(*SIMULATE, *REACTIVE).stdout


# ---------------------------------------------------------------------------------------------- the end of a recording


def test_a_run_lasts_as_long_as_what_was_recorded(tmp_path: Path) -> None:
    file = tmp_path / "load.csv"
    file.write_text("timestamp,count\n0,600\n60,600\n120,600\n")
    recorded = ("simulate", "--workload", f"csv:{file}", "--service-rate", "20", *REACTIVE)
    assert "for 3m," in headgate(*recorded).stdout
    longer = headgate(*recorded, "--seconds", "10m").stdout
    assert "ends after 3m, and the run lasts 10m: nothing arrives from then on." in longer


def test_a_load_without_an_end_needs_one() -> None:
    message = refused("simulate", "--workload", "constant:1", "--service-rate", "1")
    assert message == "--seconds is missing: the workload constant:1 has no end of its own."


def test_state_that_does_not_fit_is_reported_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text('{"policy": "reactive", "version": 0}')
    result = headgate(*SIMULATE, *REACTIVE, "--state", str(file))
    assert result.exit_code == 1
    assert str(file) in result.stderr
