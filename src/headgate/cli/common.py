"""What all commands share: JSON output, settings, consoles, progress, written results and tables.

Commands import heavy libraries in functions, so that ``headgate version`` does not wait for a plot library.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

import typer

from headgate.core.errors import InputError, JournalError, OutputError, not_written
from headgate.core.types import JSON
from headgate.core.units import parse_duration_s, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from headgate.core.types import Decision
    from headgate.documents import DocumentError
    from headgate.render.page import Column
    from headgate.render.verdict import FixedSizes
    from headgate.runtime.summary import RunRecord


STANDARD_OUTPUT = "-"
LEAST_COLUMNS = 40
"""The least width assumed: some terminals report none."""
_DATABASE = b"SQLite format 3"


# --------------------------------------------------------------------------------------------------------------- JSON


def with_json_target(arguments: Sequence[str]) -> list[str]:
    """Give a bare ``--json`` standard output as its target, because Typer's options always take a value.

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


def write_json(value: JSON, target: str | None) -> None:
    """Write JSON to a file, to standard output for ``-``, or nowhere for ``None``."""
    if target is None:
        return
    from headgate.journal.codec import to_json
    from headgate.render.page import write_file

    text = to_json(value, indent=2) + "\n"
    if target == STANDARD_OUTPUT:
        sys.stdout.write(text)  # A failure is reported by StandardOutput.
    else:
        write_file(Path(target), text)


def refused_document(file: Path, error: DocumentError) -> dict[str, JSON]:
    """Return what is wrong with a document, as the JSON of the commands that check one."""
    problems = [
        {"line": problem.position.line, "column": problem.position.column, "message": problem.message}
        for problem in error.problems
    ]
    return {"file": str(file), "valid": False, "errors": problems}


def check_target(target: Path | str | None, *, journal: Path | None = None) -> None:
    """Refuse, before any work is done, a file that cannot be written, or that is the journal itself."""
    if target is None or target == STANDARD_OUTPUT:
        return
    path = Path(target)
    if path.is_dir():
        raise InputError(f"{path} is a folder; a file is needed to write to.")
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}.")
    from headgate.journal.database import problem_with_writing

    if (problem := problem_with_writing(path)) is not None:
        raise not_written(f"{path} cannot be written", problem)
    if journal is not None and path.resolve() == journal.resolve():
        raise InputError(f"{path} is the journal; another file is needed to write to.")
    if path.is_file() and _begins_with(path, _DATABASE):
        raise InputError(f"{path} is a database, such as a journal; another file is needed to write to.")


def checked(context: typer.Context, target: Path | str | None) -> Path | str | None:
    """Refuse a file that cannot be written before the command starts.

    A command that has a journal checks its files itself: they must not be that journal.
    """
    has_journal = any(parameter.name == "journal" for parameter in context.command.params)
    if not (has_journal or context.resilient_parsing):  # The latter is when a shell completes the line.
        check_target(target)
    return target


def _begins_with(path: Path, start: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except OSError:  # A file that cannot be read may still be writable.
        return False


def prepare_folder(option: str, folder: Path) -> None:
    """Create an output folder, or refuse one that cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise not_written(f"{option} {folder} cannot be written to", error) from error


# -------------------------------------------------------------------------------------------------------------- input


def option(metavar: str, meaning: str, *names: str, **more: Any) -> Any:
    """Declare an option by its value's name and its meaning; ``names`` if it is not called like its parameter."""
    return typer.Option(*names, metavar=metavar, help=meaning, **more)


def argument(metavar: str, meaning: str, **more: Any) -> Any:
    """Declare an argument by its name and its meaning."""
    return typer.Argument(metavar=metavar, help=meaning, **more)


def duration_s(option: str, text: str) -> float:
    """Return the seconds of a duration option."""
    try:
        return parse_duration_s(text)
    except InputError as error:
        raise InputError(f"{option}: {error}") from error


def key_values(option: str, items: Sequence[str]) -> dict[str, str]:
    """Return the values of a repeated ``key=value`` option.

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


def chosen_settings(
    policy: str | None, file: Path | None, setting: Sequence[str] | None, guard: Sequence[str] | None
) -> tuple[str | None, dict[str, str], dict[str, str]]:
    """Return policy, settings and guards; ``--set`` and ``--guard`` override the settings file."""
    settings, guards = key_values("--set", setting or []), key_values("--guard", guard or [])
    if file is None:
        return policy, settings, guards
    from headgate.runtime.settings_file import read_settings

    found = read_settings(file)
    if policy not in (None, found.policy):
        raise InputError(f"--policy {policy} does not go with --settings {file}, which is for {found.policy}.")
    return found.policy, {**found.settings, **settings}, {**found.guards, **guards}


# ------------------------------------------------------------------------------------------------------------- output


def make_console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal; 120 columns where there is none, and never too narrow for words."""
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

    class PrintableConsole(Console):
        """Shows what no text may contain as a replacement: names and reasons may come from another's journal."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable(text), style, control)

    console = PrintableConsole(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 120
    console.width = max(LEAST_COLUMNS, console.width)
    return console


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "job"), counted(2, "job")
    ('1 job', '2 jobs')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def say(sentence: str, *, stderr: bool = False, console: Console | None = None, style: str | None = None) -> None:
    """Print a sentence without markup and without wrapping at the width of the terminal."""
    used = make_console(stderr=stderr) if console is None else console
    used.print(sentence, style=style, markup=False, soft_wrap=True)


def answer(value: JSON, sentence: str, json_file: str | None) -> None:
    """Write a result as JSON where that was requested, and print it as a sentence otherwise."""
    if json_file is None:
        say(sentence)
    else:
        write_json(value, json_file)


P = ParamSpec("P")


class Outputs:
    """Writes each result that was requested; failures are raised together at the end.

    >>> def full(path: str) -> None:
    ...     raise OutputError(f"{path} cannot be written: no space left on device.")
    >>> with Outputs() as outputs:
    ...     wrote = outputs.write(full, "run.html")
    ...     print("the figures")
    Traceback (most recent call last):
    headgate.core.errors.OutputError: run.html cannot be written: no space left on device.
    """

    def __init__(self) -> None:
        self._failed: list[str] = []

    def write(self, write: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> bool:
        """Call a function that writes; return whether it succeeded."""
        try:
            write(*arguments, **named)
        except (JournalError, OutputError) as error:  # A report may be made of a journal.
            self.failed(error)
            return False
        return True

    def failed(self, error: Exception | str | None) -> None:
        """Record a failure to raise at the end; ``None`` is ignored."""
        if error is not None and str(error) not in self._failed:
            self._failed.append(str(error))

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OutputError):
            self.failed(error)
        if self._failed and (error is None or isinstance(error, OutputError)):
            raise OutputError(" ".join(self._failed)) from None


def write_live_report(
    path: Path,
    title: str,
    record: RunRecord,
    journal: Path,
    notes: Sequence[str],
    fixed: FixedSizes | None = None,
) -> Path:
    """Write the report of a live run; decisions, receipts and events are those of the journal's newest run.

    Without fixed sizes they are simulated under the load of the run.
    """
    from contextlib import closing

    from headgate.journal.writer import SqliteJournal
    from headgate.render.report import write_report

    with closing(SqliteJournal.read(journal)) as history:
        number = history.runs()[-1][0]  # A run that was continued has one for each of its starts.
        decisions = history.decisions(run=number)
        return write_report(
            path,
            title=title,
            observations=record.observations,
            decisions=decisions,
            objective=record.objective,
            summary=record.summary(),
            receipts=history.receipts(run=number),
            events=history.events(run=number),
            fixed=fixed or live_fixed_sizes(record, decisions),
            notes=notes,
            journal=str(journal),
        )


def live_fixed_sizes(record: RunRecord, decisions: Sequence[Decision]) -> FixedSizes:
    """Simulate fixed sizes under the load that a live run has counted."""
    from headgate.lab.what_if import fixed_sizes_of

    return fixed_sizes_of(record.observations, decisions, record.objective, (record.operator,))


GAP = 2
LONGEST_TEXT = 40
"""Longer text is broken into lines."""
LEAST_TEXT = 30
"""With less room than this next to a name, its description is printed below it."""
INDENT = 2


def print_table(rows: Sequence[Mapping[str, JSON]], console: Console, notes: Iterable[str] = ()) -> None:
    """Print rows as a table, or as several below each other that begin with the same columns; then notes on them."""
    from headgate.render.page import columns_of

    for index, block in enumerate(blocks(columns_of(rows), console.width)):
        if index:
            console.print()
        _print(block, console)
    print_notes(notes, console)


def print_notes(notes: Iterable[str], console: Console) -> None:
    from rich.text import Text

    for note in notes:
        console.print(Text(f"\n{note}", style="dim"))


def grid(rows: Iterable[Iterable[RenderableType]] = ()) -> Table:
    """Return rows side by side, without headings."""
    from rich.table import Table

    table = Table.grid(padding=(0, GAP, 0, 0))
    for row in rows:
        table.add_row(*row)
    return table


def print_described(described: Sequence[tuple[str, str]], console: Console) -> None:
    """Print names with their descriptions, which stand below them where the terminal is narrow."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    widest = max((len(name) for name, _ in described), default=0)
    if console.width - widest - GAP < LEAST_TEXT:
        for name, text in described:
            console.print(Text(name, style="bold cyan"))
            console.print(Padding(Text(text), (0, 0, 0, INDENT)))
        return
    table = Table(box=None, padding=(0, GAP, 0, 0), show_header=False)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    for name, text in described:
        table.add_row(Text(name), Text(text))
    console.print(table)


def blocks(columns: Sequence[Column], width: int) -> list[list[tuple[Column, int]]]:
    """Return columns with their widths, in as many blocks as the width needs; each begins with the key columns."""
    keys = _keys(columns)
    room = width + GAP - sum(_wanted(column) + GAP for column in keys)  # None follows the last column.
    found: list[list[tuple[Column, int]]] = []
    block: list[Column] = []
    left = room
    for column in columns[len(keys) :]:
        if block and column.least_width + GAP > left:
            found.append(_widened([*keys, *block], width))
            block, left = [], room
        block.append(column)
        left -= column.least_width + GAP
    return [*found, _widened([*keys, *block], width)] if columns else []


def _keys(columns: Sequence[Column]) -> Sequence[Column]:
    """Return the fewest leading columns that identify each row."""
    for count in range(1, len(columns)):
        keys = list(zip(*(column.cells for column in columns[:count]), strict=True))
        if len(set(keys)) == len(keys):
            return columns[:count] if count <= 3 else columns[:1]
    return columns[:1]


def _wanted(column: Column) -> int:
    return max(column.least_width, min(column.full_width, LONGEST_TEXT))


def _widened(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Return each column with its least width, widened from the left while there is room."""
    widths = [column.least_width for column in columns]
    room = width - sum(widths) - GAP * (len(columns) - 1)
    for index, column in enumerate(columns):
        more = min(max(0, _wanted(column) - widths[index]), max(0, room))
        widths[index] += more
        room -= more
    return list(zip(columns, widths, strict=True))


def _print(block: Sequence[tuple[Column, int]], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", padding=(0, GAP, 0, 0), pad_edge=False)
    for column, width in block:
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        table.add_column(Text(column.heading), justify=justify, width=width)
    for row in zip(*(column.cells for column, _ in block), strict=True):
        table.add_row(*(Text(text) for text in row))
    console.print(table)
