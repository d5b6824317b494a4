"""Accounts for the batches of a run as they are done, on a thread of its own: a listener must not keep Spark waiting.

Malformed records are kept aside by reading what a batch read once more, which costs nothing where there are none. A
batch that Spark could not tell of, because its driver was killed, is accounted for from the checkpoint.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
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

from headgate.apps.contract import Application
from headgate.apps.running.accounts import Account, Accounts
from headgate.apps.running.checkpoint import done_batches, planned
from headgate.apps.running.folder import RunFolder
from headgate.apps.running.results import ResultFiles
from headgate.apps.running.sources import Offset, RunSource, records_between
from headgate.apps.tally import tally

logger = logging.getLogger("headgate")

TOLD_WITHIN_S = 3.0
"""How long is waited at the end for what Spark has still to tell of its last batches."""


class Bookkeeper(StreamingQueryListener):
    """Listens to the query that has the application's name."""

    def __init__(self, spark: SparkSession, application: Application, source: RunSource, folder: RunFolder) -> None:
        self._spark = spark
        self._application = application
        self._source = source
        self._folder = folder
        self._aside = ResultFiles(folder.malformed, "json")
        self.accounts = Accounts(folder.accounts)
        self._left: list[int] = []
        self._told: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="headgate-bookkeeper", daemon=True)

    def start(self) -> None:
        """Listen from now on, and account for what an earlier start has left open meanwhile."""
        self._left = self._open_batches()
        self._spark.streams.addListener(self)
        self._thread.start()

    def close(self) -> None:
        """Account for all batches that are done; the query has ended before."""
        until_s = time.monotonic() + TOLD_WITHIN_S
        while self._open_batches() and time.monotonic() < until_s:
            time.sleep(0.05)
        self._spark.streams.removeListener(self)
        self._told.put(None)
        self._thread.join()
        self._settle()

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        # A query that waits for records reports too, of a batch that has not been run.
        if event.progress.name == self._application.name and "addBatch" in event.progress.durationMs:
            self._told.put(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...

    def _work(self) -> None:
        for batch in self._left:
            self._try(batch, partial(self._account_by_checkpoint, batch))
        while (progress := self._told.get()) is not None:
            self._try(progress["batchId"], partial(self._account, progress))

    def _try(self, batch: int, account: Callable[[], None]) -> None:
        """What fails now can be made up for by the next start: the batch is in the checkpoint."""
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
        """Account for batches that are done and of which nothing was told."""
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
        """Write the malformed records of a batch into a folder; says how many there are."""
        malformed = self._application.malformed(self._source.table(self._spark, start, end))
        self._aside.write(malformed, batch)
        kept = self._aside.read_part(self._spark, batch, malformed.schema).count()
        if not kept:
            self._aside.forget(batch)
        return kept
