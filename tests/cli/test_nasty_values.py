"""Every option of every command with values that nobody should write: one sentence, and never a traceback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from headgate.cli.app import app
from tests.cli.commands import SIMULATE, headgate, refused
from tests.docs.blocks import ROOT, blocks

NOBODY = "127.0.0.1:1"
SERVICE = ("--service", f"http://{NOBODY}", "--token-file", "token")
USUAL: dict[str, tuple[str, ...]] = {
    "agent": (f"http://{NOBODY}", *SERVICE, "--job", "orders", "--operator", "orders", "--instances", "9", "1"),
    "assess": ("counts.csv",),
    "app run": ("grep", "--workload", "constant:1", "--seconds", "5s", "--bootstrap", NOBODY),
    "completion": ("bash",),
    "demo": ("--seconds", "40s"),
    "doctor": ("--only", "clock"),
    "explain": ("run.db",),
    "history": ("orders", *SERVICE),
    "kafka status": ("--bootstrap", NOBODY),
    "kafka topic": ("orders", "--bootstrap", NOBODY),
    "lab new": ("new.yaml",),
    "lab results": ("lab",),
    "lab run": ("experiment.yaml",),
    "lab tune": ("--workload", "constant:5", "--service-rate", "10", "--seconds", "1h", "--trials", "1"),
    "load": ("constant:5", "--to", "kafka:orders", "--seconds", "1s", "--bootstrap", NOBODY),
    "mst": ("steady-job",),
    "pause": ("orders", "--why", "so", *SERVICE),
    "pipeline check": ("pipeline.yaml",),
    "pipeline run": ("pipeline.yaml", "--bootstrap", NOBODY),
    "policies show": ("hpa",),
    "release": ("orders", "count", "--why", "so", *SERVICE),
    "replay": ("run.db",),
    "report": ("run.db", "--html", "run.html"),
    "resume": ("orders", "--why", "so", *SERVICE),
    "rules check": ("rules.yaml",),
    "rules show": ("rules.yaml",),
    "rules try": ("rules.yaml", "--journal", "run.db"),
    "serve": ("--check", "service.yaml"),
    "set": ("orders", "--why", "so", "--size", "3", *SERVICE),
    "simulate": ("--policy", "reactive", *SIMULATE[1:]),
    "status": ("orders", *SERVICE),
    "token list": ("--config", "service.yaml"),
    "token make": ("reader", "--scope", "read", "--config", "service.yaml"),
    "token revoke": ("reader", "--config", "service.yaml"),
}
"""What each command is usually given, where it needs something. None of it starts a server: there is no Java."""

NUMBERS = ("nan", "inf", "-1", "1e308", "9" * 23)
WORDS = ("", "a=ünï\ncödé 🐘[/bold]")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    for name, subcommand in below.items():
        yield from commands(subcommand, (*path, name))
    if not below:
        yield " ".join(path), command


COMMANDS = dict(commands(typer.main.get_command(app)))
AT_ONCE = {"autoscale-flink", "load", "serve", "simulate"}
"""The commands with the most options; all others take a minute together, and are tried with the longer proofs."""


def attempts(name: str) -> Iterator[list[str]]:
    """The command with one value changed; they take turns, for all of them with all options would take minutes."""
    usual = [*name.split(), *USUAL.get(name, ())]
    first = len(name.split())
    for turn, parameter in enumerate(COMMANDS[name].params):
        if getattr(parameter, "is_flag", False):
            continue
        for value in (WORDS[turn % len(WORDS)], NUMBERS[turn % len(NUMBERS)]):
            option = parameter.opts[0]
            if option.startswith("--"):
                yield [*usual, f"{option}={value}"]
            else:
                yield [*usual[:first], value, *usual[first + 1 :]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What commands are usually given."""
    made = tmp_path_factory.mktemp("given")
    rules = next(block for block in blocks() if block.name == "docs/guides/rules.md yaml 1")
    (made / "rules.yaml").write_text(rules.text)
    (made / "token").write_text("hg_token")
    (made / "counts.csv").write_text("timestamp,count\n0,5\n60,9\n")
    (made / "pipeline.yaml").write_bytes((ROOT / "examples/pipeline-chain.yaml").read_bytes())
    (made / "pipeline_chain.py").write_bytes((ROOT / "examples/pipeline_chain.py").read_bytes())
    assert headgate("lab", "new", str(made / "experiment.yaml")).exit_code == 0
    assert headgate(*SIMULATE, "--policy", "reactive", "--journal", str(made / "run.db")).exit_code == 0
    return made


@pytest.fixture
def _in_a_copy(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own for each command: what one writes is not what another is given."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


@pytest.mark.usefixtures("_in_a_copy")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in AT_ONCE else [pytest.mark.soak]) for name in COMMANDS]
)
def test_nasty_values_are_reported_in_one_sentence(name: str) -> None:
    for arguments in attempts(name):
        result = headgate(*arguments)
        text = f"headgate {arguments}: {result.output}"
        assert isinstance(result.exception, SystemExit | None), f"{text}{result.exception!r}"
        assert result.exit_code in (0, 1, 2, 3), text
        if result.exit_code == 2:
            assert result.stderr.startswith("headgate: "), text
            assert len(result.stderr.splitlines()) == 1, text


def test_what_each_command_is_given_is_for_a_command_that_is_there() -> None:
    assert USUAL.keys() <= COMMANDS.keys()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("demo", "--seconds", "1s"), "--seconds 1 are too few for the demo"),
        (("load", "constant:1", "--to", "kafka:a", "--seconds", "0"), "--seconds 0s is not allowed"),
        (("load", "constant:1", "--to", "kafka:a", "--seconds", "1s", "--speed", "nan"), "--speed nan is not allowed"),
        (("load", "constant:1", "--to", "kafka:a", "--seconds", "1s", "--speed", "fast"), "--speed 'fast' is not"),
        (("load", "constant:1", "--to", "kafka:a", "--seconds", "1s", "--skew", "inf"), "--skew inf is not possible"),
        ((*SIMULATE, "--startup-spread", "nan"), "--startup-spread nan is not allowed"),
        ((*SIMULATE, "--readings", "sprak"), "unknown readings 'sprak', did you mean 'spark'?"),
        ((*SIMULATE, "--seed", "-1"), "invalid value '-1' for '--seed'"),
        (("explain", "no\nsuch.db"), r"journal 'no\nsuch.db' does not exist."),
    ],
)
def test_options_and_values_are_quoted_as_typed(arguments: tuple[str, ...], message: str) -> None:
    assert refused(*arguments).startswith(message)
