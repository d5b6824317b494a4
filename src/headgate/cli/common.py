"""What all commands share: how errors are told, where JSON goes, consoles and progress.

Nothing heavy is imported at the top, here and in the commands: ``headgate version`` should not wait for a plot library.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from headgate.core.errors import HeadgateError, InputError
from headgate.core.types import JSON
from headgate.core.units import parse_duration_s

if TYPE_CHECKING:
    from rich.console import Console

STANDARD_OUTPUT = "-"

JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="[FILE]",
        help="Write the result as JSON to FILE, or to standard output where no file is given.",
        show_default=False,
    ),
]


# ------------------------------------------------------------------------------------------------------------- errors


class HeadgateGroup(TyperGroup):
    """The root command: an error is one sentence on standard error, and 2 as exit code where the input was at fault."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        try:
            # Outside of its standalone mode, Typer raises its errors and returns exit codes: 130 after Ctrl-C.
            code = super().main(args, *others, **{**options, "standalone_mode": False})
        except HeadgateError as error:
            code = _tell(str(error), 2 if isinstance(error, InputError) else 1)
        except typer.TyperException as error:
            code = _tell_usage(error)
        sys.exit(code if isinstance(code, int) else 0)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_json_target(args))


def _tell(sentence: str, code: int) -> int:
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


# --------------------------------------------------------------------------------------------------------------- JSON


def with_json_target(arguments: Sequence[str]) -> list[str]:
    """Give a ``--json`` that stands alone its target, standard output: Typer's options always take a value.

    >>> with_json_target(["policies", "--json"]), with_json_target(["simulate", "--json", "--seed", "1"])
    (['policies', '--json=-'], ['simulate', '--json=-', '--seed', '1'])
    >>> with_json_target(["policies", "--json", "out.json"])
    ['policies', '--json', 'out.json']
    """
    result = list(arguments)
    end = result.index("--") if "--" in result else len(result)
    for index in range(end):
        following = result[index + 1] if index + 1 < end else None
        alone = following is None or (following.startswith("-") and following != STANDARD_OUTPUT)
        if result[index] == "--json" and alone:
            result[index] = f"--json={STANDARD_OUTPUT}"
    return result


def write_json(value: JSON, target: str) -> None:
    """JSON to a file, or to standard output for ``-``."""
    from headgate.journal.codec import to_json
    from headgate.lab.files import write_file

    text = to_json(value, indent=2) + "\n"
    if target == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        write_file(Path(target), text)


def check_target(target: Path | str | None, *, journal: Path | None = None) -> None:
    """Refuse, before any work is done, a file that cannot be written, or that is the journal itself."""
    if target is None or target == STANDARD_OUTPUT:
        return
    path = Path(target)
    if path.is_dir():
        raise InputError(f"{path} is a folder; a file is needed to write to.")
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"{path} cannot be written: permission denied.")
    if journal is not None and path.resolve() == journal.resolve():
        raise InputError(f"{path} is the journal; another file is needed to write to.")


def prepare_folder(option: str, folder: Path) -> None:
    """Make a folder for what a command writes, or refuse one that cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(
            f"{option} {folder} cannot be written to: {(error.strerror or str(error)).lower()}."
        ) from error


# -------------------------------------------------------------------------------------------------------------- input


def duration_s(option: str, text: str) -> float:
    """Seconds from the text of an option."""
    try:
        return parse_duration_s(text)
    except InputError as error:
        raise InputError(f"{option}: {error}") from error


def key_values(option: str, items: Sequence[str]) -> dict[str, str]:
    """``key=value`` as often as the option was given.

    >>> key_values("--set", ["upper=0.8", "hold_s=2m"])
    {'upper': '0.8', 'hold_s': '2m'}
    """
    values: dict[str, str] = {}
    for item in items:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not (key and equals):
            raise InputError(f"{option} {item!r} is not understood; write {option} key=value.")
        if key in values:
            raise InputError(f"{option} gives {key} twice, as {values[key]!r} and {value!r}; once is allowed.")
        values[key] = value
    return values


# ------------------------------------------------------------------------------------------------------------- output


def make_console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal; wide enough for whole sentences where there is none."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 120
    return console


def say(sentence: str, *, stderr: bool = False) -> None:
    """A sentence as it is: no markup, and no line ends where the terminal ends."""
    make_console(stderr=stderr).print(sentence, markup=False, soft_wrap=True)


@contextmanager
def progress_bar(
    description: str, *, after_s: float = 1.0, counted: int | None = None
) -> Iterator[Callable[[float], None]]:
    """Gives a function to call with the share that is done, 0 to 1.

    The bar shows on standard error, only on a terminal, only when the work takes longer than ``after_s``, and leaves no
    trace. Where ``counted`` says how many runs the work is, it tells how many of them are done.
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    told = [] if counted is None else [TextColumn("{task.fields[done]}")]
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), *told)
    # A single run may take minutes: the time left is told from longer ago than usual.
    bar = Progress(*columns, console=make_console(stderr=True), transient=True, speed_estimate_period=600.0)
    task = bar.add_task(description, total=1.0, done="")
    began_s = time.monotonic()
    shown = False

    def show(share: float) -> None:
        nonlocal shown
        if not shown and bar.console.is_terminal and time.monotonic() - began_s >= after_s:
            bar.start()
            shown = True
        bar.update(task, completed=share, done="" if counted is None else f"{round(share * counted)} of {counted} runs")

    try:
        yield show
    finally:
        if shown:
            bar.stop()
