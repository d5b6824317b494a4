"""The ``headgate`` command, put together from one file per command, and how commands fail.

A failure is a sentence on standard error, and an exit code for its kind:

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | the work failed, or a check did not pass |
| 2 | the input was at fault, or a cluster that is not set up to be scaled |
| 3 | a result could not be written; the others were |
| 130 | interrupted |
"""

from __future__ import annotations

import errno
import inspect
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from headgate import __version__
from headgate.cli import options
from headgate.cli.agent import agent
from headgate.cli.application import application
from headgate.cli.assess import assess
from headgate.cli.autoscale_flink import autoscale_flink
from headgate.cli.cluster import cluster
from headgate.cli.common import answer, with_json_target
from headgate.cli.demo import demo
from headgate.cli.doctor import doctor
from headgate.cli.explain import explain, report
from headgate.cli.flink import flink
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
from headgate.cli.steering import pause, release, resume, set_job
from headgate.cli.submit import submit
from headgate.cli.token import token
from headgate.core.errors import (
    HeadgateError,
    InputError,
    OutputError,
    UnknownNameError,
    UnsupportedEngineError,
    cause_of,
)
from headgate.core.extras import MissingExtraError, missing_module
from headgate.runtime.interrupts import interrupts_delivered

_MARKUP = re.compile(r"(?<!\\)\[/?[a-z ]+\]")
_OPTION = re.compile(r"(--[a-z-]+) (?!-)(\S)")
_DEEPER = 4
NARROW = 76
"""Columns below which names, values and what they mean do not fit next to each other in whole words."""
ON = "\\"
"""At the end of a line: the command goes on."""


def flowing(text: str, width: int) -> str:
    """A help text for a terminal of so many columns.

    >>> print(flowing("Adds up.\\n\\nAll that\\nis there:\\n  one and two and three", 18))
    Adds up.
    <BLANKLINE>
    All that is there:
      one and two
          and three
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(_flowing(paragraph, width) for paragraph in paragraphs)


def _flowing(paragraph: str, width: int) -> str:
    lines: list[str] = []
    for line in paragraph.split("\n"):
        stands_alone = line.startswith((" ", "[bold]"))
        if lines and _is_continued(lines[-1]):
            lines[-1] = f"{lines[-1].rstrip(' ' + ON)} {line.strip()}"
        elif lines and not stands_alone and not lines[-1].startswith((" ", "[bold]")):
            lines[-1] = f"{lines[-1]} {line}"
        else:
            lines.append(line)
    return "\n".join(_broken(line, width) if line.startswith(" ") else line for line in lines)


def _is_continued(line: str) -> bool:
    """Whether a command is broken in the source."""
    return "[cyan]" in line and "[/cyan]" not in line


def _broken(line: str, width: int) -> str:
    """A line that stands for itself, in several if it must be; a command can still be copied from them."""
    if len(_MARKUP.sub("", line)) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    end = f" {ON}" if "[cyan]" in line else ""
    # An option and its value stay together. Tags take no room on the screen; a little less is used than there is.
    parts = textwrap.wrap(
        _OPTION.sub(r"\1\0\2", line.strip()),
        width - len(indent) - _DEEPER - len(end),
        break_long_words=False,
        break_on_hyphens=False,
    )
    broken = f"{end}\n".join(indent + (" " * _DEEPER if index else "") + part for index, part in enumerate(parts))
    return broken.replace("\0", " ")


def let_help_flow(command: Any, width: int) -> None:
    """Make the help of a command, and of all below it, fit."""
    if command.help:
        # Typer takes the indent from examples that all else below the first paragraph is, but for an empty line.
        command.help = flowing(command.help, width).replace("\n\n", "\n\n\n", 1)
    for parameter in command.params:
        _let_fit(parameter, width)
    usual = command.get_help_option

    def help_option(context: Any) -> Any:
        option = usual(context)
        if option is not None:
            _let_fit(option, width)
        return option

    command.get_help_option = help_option  # Typer creates the option at every access.
    for below in getattr(command, "commands", {}).values():
        let_help_flow(below, width)


def _let_fit(parameter: Any, width: int) -> None:
    """A flag has no value to tell of; in a narrow terminal, what a value is stands before what it means."""
    if getattr(parameter, "is_flag", False):
        parameter.metavar = ""
    elif width < NARROW and parameter.metavar and parameter.param_type_name == "option":
        value = escape(parameter.metavar.replace("|", " | "))
        parameter.help, parameter.metavar = f"{value}: {parameter.help}", ""


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


FAILED, WRONG_INPUT, NOT_WRITTEN = 1, 2, 3
MARGIN = 2
"""Columns that Typer leaves empty next to help texts."""


class HeadgateGroup(TyperGroup):
    """The root command."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        prepare_completion()
        let_help_flow(self, shutil.get_terminal_size().columns - MARGIN)
        try:
            # Outside of its standalone mode, Typer raises its errors and returns exit codes: 130 after Ctrl-C.
            code = super().main(args, *others, **{**options, "standalone_mode": False})
            if isinstance(sys.stdout, StandardOutput):
                sys.stdout.flush()
        except HeadgateError as error:
            code = _report(as_typed(in_one_line(str(error), given), self, given), code_of(error))
        except typer.TyperException as error:
            code = _report_usage(error)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            # Even a check whether such a file exists raises this error.
            code = _report(f"no file can be called {error.filename!r}: {cause_of(error)}.", WRONG_INPUT)
        except ModuleNotFoundError as error:
            if (module := missing_module(error)) is None:
                raise
            code = _report(str(MissingExtraError("this command", module)), WRONG_INPUT)
        sys.exit(code if isinstance(code, int) else 0)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_json_target(args))


def code_of(error: HeadgateError) -> int:
    """Return the exit code for the kind of error."""
    if isinstance(error, OutputError):
        return NOT_WRITTEN
    return WRONG_INPUT if isinstance(error, InputError | UnsupportedEngineError) else FAILED


def as_typed(sentence: str, command: Any, arguments: Sequence[str]) -> str:
    """Return a sentence with options as the user types them: ``--min`` and not ``min_instances``."""
    for name in arguments:
        command = getattr(command, "commands", {}).get(name, command)
    for parameter in getattr(command, "params", ()):
        option = next((name for name in parameter.opts if name.startswith("--")), None)
        if option is None:
            continue
        name = parameter.name
        if "_" in name:
            sentence = re.sub(rf"\b{name}\b(?![=(])", option, sentence)
        # Inside a sentence a plain word may mean something else, and interval_s a setting of a policy.
        subject = rf"^({name}_s|{name}|{name.replace('_', ' ')}|an? {name} of)"
        sentence = re.sub(rf"{subject}[ =](?=-?(\d|inf|nan)|')", f"{option} ", sentence)
    return sentence


def in_one_line(sentence: str, arguments: Sequence[str]) -> str:
    """Return a sentence without line breaks from the user's arguments: a path may contain any character."""
    for argument in arguments:
        value = argument.partition("=")[2]
        for typed in (argument, value, str(PurePath(value or argument).parent)):
            if not typed.isprintable() and typed in sentence:
                sentence = sentence.replace(typed, repr(typed))
    return sentence


def _report(sentence: str, code: int) -> int:
    with suppress(OSError):  # Without standard error the exit code still reports the failure.
        typer.echo(f"headgate: {sentence}", err=True)
    return code


def _report_usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        return error.exit_code  # The help has been printed instead.
    message = error.format_message().rstrip(".")
    problems: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if problems:  # Typer says what is allowed, but not what it received.
        message = message.replace("Invalid value for", f"Invalid value {problems[0]['input']!r} for", 1)
    hint = f" See '{context.command_path} --help'." if context is not None else ""
    # A question ends by itself: "Did you mean 'version'?"
    end = "" if message.endswith("?") else "."
    return _report(f"{message[:1].lower()}{message[1:]}{end}{hint}", error.exit_code)


# ---------------------------------------------------------------------------------------------------- standard output


class StandardOutput(io.TextIOWrapper):
    """Standard output whose failures become an ``OutputError`` with a readable message."""

    @classmethod
    def take_over(cls) -> None:
        """Replace ``sys.stdout``."""
        usual = sys.stdout
        if isinstance(usual, io.TextIOWrapper):  # It is None if it was closed from the start.
            # A character that the terminal's encoding lacks must not lose the others.
            errors = "replace" if usual.errors == "strict" else usual.errors
            sys.stdout = cls(usual.buffer, encoding=usual.encoding, errors=errors, line_buffering=usual.line_buffering)

    def write(self, text: str, /) -> int:
        with self._reported():
            return super().write(text)

    def flush(self) -> None:
        with self._reported():
            super().flush()

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:  # ``headgate policies | head -1``: the reader has closed the pipe; Typer ends quietly.
            raise
        except OSError as error:
            # Python itself would try again when it ends, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise OutputError(f"standard output cannot be written: {cause_of(error)}.") from error


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
_add(WHAT_IF, assess)
_add(WHAT_IF, lab, "lab")
_add(WHAT_IF, mst)
_add(SERVICE, serve)
_add(SERVICE, status)
_add(SERVICE, history)
_add(SERVICE, pause)
_add(SERVICE, resume)
_add(SERVICE, set_job, "set")
_add(SERVICE, release, is_seldom=True)
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
