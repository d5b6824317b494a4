"""The accounts of a run's records, batch by batch, in a file with a line of JSON per batch.

Records read are counted by offsets and malformed ones by the records set aside, not by Spark's counters, which count
repeated tasks twice. Only Spark counts late records; if its driver was killed before it reported, ``late`` is ``None``.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from headgate.apps.contract import StreamingApplication, tally
from headgate.apps.running.folder import RunFolder
from headgate.apps.running.results import ResultFiles
from headgate.apps.running.sources import Offset, RunSource, records_between
from headgate.core.errors import StateError


@dataclass(frozen=True)
class Account:
    """The account of a batch."""

    batch: int
    start: Offset
    end: Offset
    read: int
    malformed: int
    """Records that could not be parsed; they are set aside."""
    late: int | None
    """Records of closed windows, as Spark counts them."""
    watermark_ms: int | None
    """Windows up to this time were closed after the batch; ``None`` without a watermark."""


@dataclass(frozen=True)
class Totals:
    """The totals over all batches of a run."""

    read: int = 0
    malformed: int = 0
    late: int = 0
    batches: int = 0
    unknown_late: int = 0
    """Batches whose late records are unknown."""
    watermark_ms: int | None = None
    end: Offset | None = None
    """The offset up to which the source was read; ``None`` if it was not."""


class Accounts:
    """The accounts of a run. A later account of a batch replaces the earlier one."""

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
        """Return the accounts in the order of batches."""
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
                continue  # An incomplete line: its batch is accounted for again.
            raise StateError(f"{path}, line {number}, is not an account of a batch: {error}.") from error


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() == b"\n"


@dataclass(frozen=True)
class Planned:
    """A batch as planned by Spark."""

    batch: int
    end: Offset
    watermark_ms: int
    """The watermark; 0 without one."""


def done_batches(checkpoint: Path) -> list[int]:
    """Return the completed batches that the checkpoint still lists, in their order."""
    return _numbers(checkpoint / "commits")


def planned(checkpoint: Path, batch: int) -> Planned | None:
    """Return a batch as planned, or ``None`` if it is no longer known."""
    path = checkpoint / "offsets" / str(batch)
    try:
        _, metadata, source, *_ = path.read_text(encoding="utf-8").splitlines()
        return Planned(batch, json.loads(source), int(json.loads(metadata)["batchWatermarkMs"]))
    except FileNotFoundError:
        return None
    except (OSError, KeyError, ValueError) as error:
        raise StateError(f"{path} is not what Spark writes of a batch: {error}.") from error


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit())


logger = logging.getLogger("headgate")

REPORTED_WITHIN_S = 3.0
"""How long to wait at the end for Spark's reports of its last batches."""


class Bookkeeper(StreamingQueryListener):
    """Listens to the query that has the application's name."""

    def __init__(
        self, spark: SparkSession, application: StreamingApplication, source: RunSource, folder: RunFolder
    ) -> None:
        self._spark = spark
        self._application = application
        self._source = source
        self._folder = folder
        self._aside = ResultFiles(folder.malformed, "json")
        self.accounts = Accounts(folder.accounts)
        self._left: list[int] = []
        self._progresses: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="headgate-bookkeeper", daemon=True)

    def start(self) -> None:
        """Listen from now on, and account for batches that an earlier start left open."""
        self._left = self._open_batches()
        self._spark.streams.addListener(self)
        self._thread.start()

    def close(self) -> None:
        """Account for all completed batches, after the end of the query."""
        until_s = time.monotonic() + REPORTED_WITHIN_S
        while self._open_batches() and time.monotonic() < until_s:
            time.sleep(0.05)
        self._spark.streams.removeListener(self)
        self._progresses.put(None)
        self._thread.join()
        self._settle()

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        # A query that waits for records also reports a batch, which has not run.
        if event.progress.name == self._application.name and "addBatch" in event.progress.durationMs:
            self._progresses.put(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...

    def _work(self) -> None:
        for batch in self._left:
            self._try(batch, partial(self._account_by_checkpoint, batch))
        while (progress := self._progresses.get()) is not None:
            self._try(progress["batchId"], partial(self._account, progress))

    def _try(self, batch: int, account: Callable[[], None]) -> None:
        """Account for a batch; the next start repeats a failure from the checkpoint."""
        try:
            account()
        except (PySparkException, Py4JError, OSError) as error:
            logger.warning("batch %s is not accounted for yet: %s", batch, error)

    def _account(self, progress: dict[str, Any]) -> None:
        batch, found, source = progress["batchId"], tally([progress]), progress["sources"][0]
        start, end = source["startOffset"] or self._source.begin, source["endOffset"]
        malformed = self._keep_aside(batch, start, end) if found.malformed else 0
        read = records_between(start, end)
        self.accounts.add(Account(batch, start, end, read, malformed, found.late, found.watermark_ms))

    def _settle(self) -> None:
        """Account for completed batches that were not reported."""
        for batch in self._open_batches():
            self._try(batch, partial(self._account_by_checkpoint, batch))

    def _account_by_checkpoint(self, batch: int) -> None:
        now, before = planned(self._folder.checkpoint, batch), planned(self._folder.checkpoint, batch - 1)
        if now is None or (before is None and batch > 0):
            return
        start = self._source.begin if before is None else before.end
        malformed = self._keep_aside(batch, start, now.end) if start != now.end else 0
        late = None if self._application.watermark_s is not None else 0
        watermark_ms = None if self._application.watermark_s is None else now.watermark_ms
        read = records_between(start, now.end)
        self.accounts.add(Account(batch, start, now.end, read, malformed, late, watermark_ms))

    def _open_batches(self) -> list[int]:
        return [batch for batch in done_batches(self._folder.checkpoint) if batch not in self.accounts]

    def _keep_aside(self, batch: int, start: Offset, end: Offset) -> int:
        """Write the malformed records of a batch into a folder, and return their number."""
        malformed = self._application.malformed(self._source.table(self._spark, start, end))
        self._aside.write(malformed, batch)
        stored = self._aside.read_part(self._spark, batch, malformed.schema).count()
        if not stored:
            self._aside.forget(batch)
        return stored
