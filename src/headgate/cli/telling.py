"""How a command ends: faults in one sentence on standard error, and exit codes that say what kind of fault it was.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | the work failed, or what was asked about is not as it should be |
| 2 | the input was at fault, or a cluster that is not set up to be scaled |
| 3 | a result could not be written; the others were |
| 130 | interrupted |
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import Any

import typer
from typer.core import TyperGroup

from headgate.cli.common import with_json_target
from headgate.cli.completion import prepare_completion
from headgate.cli.help_text import let_help_flow
from headgate.core.errors import HeadgateError, InputError, OutputError, UnsupportedEngineError, cause_of
from headgate.core.extras import MissingExtraError, missing_module

FAILED, WRONG_INPUT, NOT_WRITTEN = 1, 2, 3
MARGIN = 2
"""Columns that Typer leaves empty beside help texts."""


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
            code = _tell(as_typed(in_one_line(str(error), given), self, given), code_of(error))
        except typer.TyperException as error:
            code = _tell_usage(error)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            # Whoever asks for such a file is told, also who only asks whether it is there.
            code = _tell(f"no file can be called {error.filename!r}: {cause_of(error)}.", WRONG_INPUT)
        except ModuleNotFoundError as error:
            if (module := missing_module(error)) is None:
                raise
            code = _tell(str(MissingExtraError("this command", module)), WRONG_INPUT)
        sys.exit(code if isinstance(code, int) else 0)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_json_target(args))


def code_of(error: HeadgateError) -> int:
    """The exit code that says what kind of fault it was."""
    if isinstance(error, OutputError):
        return NOT_WRITTEN
    return WRONG_INPUT if isinstance(error, InputError | UnsupportedEngineError) else FAILED


def as_typed(sentence: str, command: Any, arguments: Sequence[str]) -> str:
    """A sentence in which options are called as the user typed them: ``--min`` and not ``min_instances``."""
    for name in arguments:
        command = getattr(command, "commands", {}).get(name, command)
    for parameter in getattr(command, "params", ()):
        option = next((one for one in parameter.opts if one.startswith("--")), None)
        if option is None:
            continue
        name = parameter.name
        if "_" in name:
            sentence = re.sub(rf"\b{name}\b(?![=(])", option, sentence)
        # In the midst of a sentence a plain word may mean something else, and interval_s a setting of a policy.
        said = rf"^({name}_s|{name}|{name.replace('_', ' ')}|an? {name} of)"
        sentence = re.sub(rf"{said}[ =](?=-?(\d|inf|nan)|')", f"{option} ", sentence)
    return sentence


def in_one_line(sentence: str, arguments: Sequence[str]) -> str:
    """A sentence in which what the user typed breaks no line: a path may have any character in it."""
    for argument in arguments:
        value = argument.partition("=")[2]
        for typed in (argument, value, str(PurePath(value or argument).parent)):
            if not typed.isprintable() and typed in sentence:
                sentence = sentence.replace(typed, repr(typed))
    return sentence


def _tell(sentence: str, code: int) -> int:
    with suppress(OSError):  # Where nothing can be said, the exit code still can.
        typer.echo(f"headgate: {sentence}", err=True)
    return code


def _tell_usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        return error.exit_code  # The help has been printed instead.
    message = error.format_message().rstrip(".")
    problems: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if problems:  # Typer tells what is allowed, but not what it got.
        message = message.replace("Invalid value for", f"Invalid value {problems[0]['input']!r} for", 1)
    hint = f" See '{context.command_path} --help'." if context is not None else ""
    # A question ends by itself: "Did you mean 'version'?"
    end = "" if message.endswith("?") else "."
    return _tell(f"{message[:1].lower()}{message[1:]}{end}{hint}", error.exit_code)


# ---------------------------------------------------------------------------------------------------- standard output


class StandardOutput(io.TextIOWrapper):
    """Standard output that tells in a sentence that it cannot be written."""

    @classmethod
    def take_over(cls) -> None:
        """Be ``sys.stdout`` from now on."""
        usual = sys.stdout
        if isinstance(usual, io.TextIOWrapper):  # It is nothing at all where it was closed from the start.
            # A sign that the terminal's encoding does not have is no reason to lose the others.
            errors = "replace" if usual.errors == "strict" else usual.errors
            sys.stdout = cls(usual.buffer, encoding=usual.encoding, errors=errors, line_buffering=usual.line_buffering)

    def write(self, text: str, /) -> int:
        with self._told():
            return super().write(text)

    def flush(self) -> None:
        with self._told():
            super().flush()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:  # ``headgate policies | head -1``: nobody wants to read on, and Typer ends quietly.
            raise
        except OSError as error:
            # Python itself would try again when it ends, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise OutputError(f"standard output cannot be written: {cause_of(error)}.") from error
