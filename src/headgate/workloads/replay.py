"""The replayer: sends the records of a schedule when they are due, whether or not the receiver keeps up (open loop).

No record is skipped or sent ahead of time. A record that could not be sent when due is sent as soon as possible, and
its lateness is measured.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.workloads.load import AS_FAST_AS_ACCEPTED, Load
from headgate.workloads.payloads import Payloads, Record
from headgate.workloads.schedule import event_times_ms

LEAST_S = 1e-5
RATIO = 1.02
BINS = 1200
"""From 10 µs to more than a day, each bin 2 % above the one before."""


class SendLateness:
    """How late records were sent; all times are seconds of the clock since the start of the run.

    Millions of records fit into its histogram: percentiles are exact to 2 %, the maximum is exact.

    >>> lateness = SendLateness()
    >>> lateness.sent(0.502, np.array([0.498, 0.5, 0.502]))
    >>> lateness.max_s, round(lateness.percentile_s(50), 3)
    (0.004, 0.002)
    """

    def __init__(self) -> None:
        self._counts = np.zeros(BINS, dtype=np.int64)
        self._due_in: Counter[int] = Counter()
        self._sent_in: Counter[int] = Counter()
        self.max_s = 0.0

    def sent(self, at_s: float, due_s: NDArray[np.float64]) -> None:
        """Count records that were sent at a time, with the times at which they were due."""
        late_s = np.maximum(at_s - due_s, 0.0)
        bins = np.ceil(np.log(np.maximum(late_s, LEAST_S) / LEAST_S) / np.log(RATIO)).astype(np.int64)
        self._counts += np.bincount(np.minimum(bins, BINS - 1), minlength=BINS)
        self.max_s = max(self.max_s, round(float(late_s.max()), 9))
        self._sent_in[int(at_s)] += len(due_s)
        seconds, counts = np.unique(due_s.astype(np.int64), return_counts=True)
        self._due_in.update(dict(zip(seconds.tolist(), counts.tolist(), strict=True)))

    def percentile_s(self, percent: float) -> float:
        """Return the lateness that this percentage of records did not exceed; 0 without records."""
        total = int(self._counts.sum())
        if total == 0:
            return 0.0
        place = int(np.searchsorted(np.cumsum(self._counts), percent / 100 * total))
        return min(LEAST_S * RATIO**place, self.max_s)

    @property
    def moved_share(self) -> float:
        """The share of records that were sent in another second than they were due in; 0 without records.

        Only net counts per second matter: as many late leavers as late arrivals cancel out.
        """
        seconds = self._due_in.keys() | self._sent_in.keys()
        # A record that moved is missing from one second and too many in another.
        moved = sum(abs(self._sent_in[second] - self._due_in[second]) for second in seconds) / 2
        return moved / self._due_in.total() if moved else 0.0


TICK_S = 0.005
"""Records due within a tick are sent together: sending one costs as much as sending hundreds."""
CHUNK = 2_000
"""The most records made at once."""
REPORT_EVERY_S = 0.25


class ReplayClock(Protocol):
    """The clock of the replayer."""

    def now(self) -> float:
        """Seconds; never goes back."""
        ...

    def wait_until(self, at_s: float, stop: threading.Event) -> None:
        """Wait for a time to come, or for ``stop`` to be set."""
        ...


@dataclass(frozen=True)
class Answers:
    """How the receiver answered the records sent."""

    acknowledged: int = 0
    failed: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Failed records, by reason."""


class Sink(Protocol):
    """Where records go."""

    def send(self, records: Sequence[Record]) -> int:
        """Take leading records without blocking for long, and return how many."""
        ...

    def answers(self) -> Answers:
        """Return the answers so far to the records taken."""
        ...

    def flush(self) -> None:
        """Wait until every record taken is answered."""
        ...


@dataclass(frozen=True)
class ReplayProgress:
    """The progress of a load, while it runs or at its end."""

    elapsed_s: float
    """By the clock, since the start."""
    due: int
    """Records due by now."""
    sent: int
    answers: Answers
    lateness: SendLateness | None
    """Of the records sent; ``None`` where they did not wait for their time."""
    interrupted: bool = False

    @property
    def unanswered(self) -> int:
        """Records sent whose arrival is unknown."""
        return self.sent - self.answers.acknowledged - self.answers.failed

    @property
    def rate_per_s(self) -> float:
        return self.sent / self.elapsed_s if self.elapsed_s > 0 else 0.0


class Replay:
    """Sends one load to a sink; ``start_ms`` is the event time at which its schedule starts.

    An interrupted load continues with ``first``, the number of the first unsent record, and ``began_s``, its original
    start; records due meanwhile are late. Event times pass at the speed of the load, or ``by_the_clock``: then they
    show how long a record has been under way.
    """

    def __init__(
        self,
        load: Load,
        payloads: Payloads,
        sink: Sink,
        clock: ReplayClock,
        *,
        start_ms: int,
        first: int = 0,
        began_s: float | None = None,
        by_the_clock: bool = False,
    ) -> None:
        self._load = load
        self._schedule = load.schedule
        self._payloads = payloads
        self._sink = sink
        self._clock = clock
        self._start_ms = start_ms
        self._event_speed = load.speed if by_the_clock else 1.0
        self._lateness = None if load.speed == AS_FAST_AS_ACCEPTED else SendLateness()
        self._first = self._sent = first
        self._given_s = began_s
        self._began_s = self._reported_s = clock.now() if began_s is None else began_s

    def run(self, stop: threading.Event, report: Callable[[ReplayProgress], None] = lambda _: None) -> ReplayProgress:
        """Send everything, or until ``stop`` is set, and wait for the answers; ``report`` is called regularly."""
        self._reported_s = self._clock.now()
        self._began_s = self._reported_s if self._given_s is None else self._given_s
        while self._sent < self._schedule.total and not stop.is_set():
            tick_s = self._clock.now()
            if not self._send_what_is_due(stop, report):
                self._wait(tick_s, stop)
            self._report_now_and_then(report)
        due = self._due()
        with suppress(KeyboardInterrupt):  # A second interrupt gives up on the remaining answers.
            self._sink.flush()
        return replace(self._progress(), due=due, interrupted=self._sent < self._schedule.total)

    def _send_what_is_due(self, stop: threading.Event, report: Callable[[ReplayProgress], None]) -> bool:
        """Send records that are due; return whether more may be due."""
        due_s = self._schedule.due_s(self._sent, min(self._due() - self._sent, CHUNK))
        records = self._payloads.records(self._sent, event_times_ms(due_s / self._event_speed, self._start_ms))
        done = 0
        while done < len(records) and not stop.is_set():
            taken = self._sink.send(records[done:])
            if taken and self._lateness is not None:
                self._lateness.sent(self._elapsed_s(), due_s[done : done + taken] / self._load.speed)
            done += taken
            self._sent += taken
            self._report_now_and_then(report)
        return len(records) == CHUNK

    def _wait(self, tick_s: float, stop: threading.Event) -> None:
        """Wait for the next tick with a due record, but not beyond the next report."""
        if self._sent < self._schedule.total:
            next_s = self._began_s + float(self._schedule.due_s(self._sent, 1)[0]) / self._load.speed
            self._clock.wait_until(min(max(next_s, tick_s + TICK_S), tick_s + REPORT_EVERY_S), stop)

    def _report_now_and_then(self, report: Callable[[ReplayProgress], None]) -> None:
        if self._clock.now() - self._reported_s >= REPORT_EVERY_S:
            self._reported_s = self._clock.now()
            report(self._progress())

    def _progress(self) -> ReplayProgress:
        answers = self._sink.answers()
        # Records sent before the interruption have been answered.
        answers = replace(answers, acknowledged=self._first + answers.acknowledged)
        return ReplayProgress(self._elapsed_s(), self._due(), self._sent, answers, self._lateness)

    def _due(self) -> int:
        """Records due by now."""
        # Rounding may make a record due a moment after it was sent.
        return max(self._load.due_after(self._elapsed_s()), self._sent)

    def _elapsed_s(self) -> float:
        return self._clock.now() - self._began_s
