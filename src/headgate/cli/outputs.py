"""Writes the results of a command to files; if one cannot be written, the others still are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec

from headgate.core.errors import JournalError, OutputError

if TYPE_CHECKING:
    from headgate.core.types import Decision
    from headgate.render.verdict import FixedSizes
    from headgate.runtime.summary import RunRecord

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

    from headgate.journal.sqlite import SqliteJournal
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
