"""What became of the records of a run, batch by batch, in a file that outlives the process: one line of JSON per batch.

What was read is told by offsets and what was malformed by the records kept aside, not by Spark's counters: those count
again what tasks do again. What was late only Spark counts; where it could not tell, because its driver was killed
before it did, ``late`` is ``None``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headgate.apps.running.sources import Offset
from headgate.core.errors import StateError


@dataclass(frozen=True)
class Account:
    """One batch."""

    batch: int
    start: Offset
    end: Offset
    read: int
    malformed: int
    """Records that could not be used; they are kept aside."""
    late: int | None
    """What came after its window was closed, as Spark counts it."""
    watermark_ms: int | None
    """Up to when windows were closed when the batch was done; ``None`` if no window can have been."""


@dataclass(frozen=True)
class Totals:
    """All batches of a run."""

    read: int = 0
    malformed: int = 0
    late: int = 0
    batches: int = 0
    unknown_late: int = 0
    """Batches of which it is not known what was late."""
    watermark_ms: int | None = None
    end: Offset | None = None
    """Up to where the source was read; ``None`` if it was not."""


class Accounts:
    """The accounts of a run. A batch that is written again replaces itself."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_batch = {account.batch: account for account in _lines(path)}

    def add(self, account: Account) -> None:
        self._by_batch[account.batch] = account
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+b") as file:
            # A process that was killed may have left half a line.
            is_torn = file.tell() > 0 and not _ends_a_line(self._path)
            file.write((b"\n" if is_torn else b"") + json.dumps(asdict(account)).encode() + b"\n")

    def __contains__(self, batch: int) -> bool:
        return batch in self._by_batch

    def all(self) -> Sequence[Account]:
        """In the order of batches."""
        return [self._by_batch[batch] for batch in sorted(self._by_batch)]

    def totals(self) -> Totals:
        accounts = self.all()
        watermarks = [account.watermark_ms for account in accounts if account.watermark_ms is not None]
        return Totals(
            read=sum(account.read for account in accounts),
            malformed=sum(account.malformed for account in accounts),
            late=sum(account.late or 0 for account in accounts),
            batches=len(accounts),
            unknown_late=sum(account.late is None for account in accounts),
            watermark_ms=max(watermarks, default=None),
            end=accounts[-1].end if accounts else None,
        )


def _lines(path: Path) -> Iterator[Account]:
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            yield Account(**json.loads(line))
        except (TypeError, ValueError) as error:
            if line == lines[-1] or not line.endswith(b"}"):
                continue  # Half a line: its batch is accounted for anew.
            raise StateError(f"{path}, line {number}, is not an account of a batch: {error}.") from error


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() == b"\n"
