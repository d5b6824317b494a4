"""Sends the records of a load to a topic while a job reads it, and continues after an interruption.

A killed process leaves gaps: some partitions have received their last records and others have not. Records are
numbered, so the missing ones are found by reading the topic, and are sent first.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from itertools import groupby

from headgate.apps.running.folder import Beginning
from headgate.core.errors import HeadgateError, InputError
from headgate.local.records import TopicSink, topic_values
from headgate.runtime.loop import SystemClock
from headgate.workloads.load import Load
from headgate.workloads.replay import Replay, ReplayProgress
from headgate.workloads.schedule import event_times_ms


@dataclass(frozen=True)
class Sent:
    """The records of a load that a topic holds."""

    first: int
    """The number after the last record in the topic."""
    missing: tuple[int, ...]
    """Smaller numbers that the topic lacks."""


class TopicFeeder:
    """Sends a load to a topic, on a thread."""

    def __init__(self, load: Load, bootstrap: str, topic: str, beginning: Beginning) -> None:
        self._load = load
        self._bootstrap = bootstrap
        self._topic = topic
        self._beginning = beginning
        self._stop = threading.Event()
        self._newest: ReplayProgress | None = None
        self._result: ReplayProgress | None = None
        self._failure: HeadgateError | None = None
        self._thread = threading.Thread(target=self._work, name="headgate-load", daemon=True)

    def start(self) -> None:
        sent = numbers_sent(self._bootstrap, self._topic, self._load.schedule.total)
        payloads = self._load.make_payloads()
        again = TopicSink(self._bootstrap, self._topic)
        for _, run in groupby(enumerate(sent.missing), lambda pair: pair[1] - pair[0]):
            numbers = [number for _, number in run]
            due_s = self._load.schedule.due_s(numbers[0], len(numbers))
            records = payloads.records(numbers[0], event_times_ms(due_s, self._beginning.start_ms))
            done = 0
            while done < len(records):
                done += again.send(records[done:])
        again.flush()
        self._replay = Replay(
            self._load,
            payloads,
            TopicSink(self._bootstrap, self._topic),
            SystemClock(),
            start_ms=self._beginning.start_ms,
            first=sent.first,
            began_s=self._beginning.started_s,
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop sending, and wait for the acknowledgements."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_done(self) -> bool:
        """Whether the load has ended or failed."""
        return self._result is not None or self._failure is not None

    @property
    def standing(self) -> ReplayProgress | None:
        """The progress of the load; raises the error of a failed load."""
        if self._failure is not None:
            raise self._failure
        return self._result or self._newest

    def _work(self) -> None:
        try:
            self._result = self._replay.run(self._stop, self._update)
        except HeadgateError as error:
            self._failure = error

    def _update(self, progress: ReplayProgress) -> None:
        self._newest = progress


def numbers_sent(bootstrap: str, topic: str, total: int) -> Sent:
    """Return the records of a load that a topic holds; refuse a topic that holds others too."""
    there: set[int] = set()
    for value in topic_values(bootstrap, topic):
        try:
            number = json.loads(value)["number"]
        except (KeyError, TypeError, ValueError):
            continue  # A malformed record has no number.
        if number in there or not (isinstance(number, int) and 0 <= number < total):
            raise InputError(
                f"topic {topic!r} holds records of another load (number {number}); name another topic, or send no load."
            )
        there.add(number)
    first = max(there, default=-1) + 1
    return Sent(first, tuple(number for number in range(first) if number not in there))
