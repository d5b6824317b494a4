"""How long a job processes nothing while its size changes, learned from its own changes.

A job that is restarted for a new size does nothing meanwhile, and arrivals wait. In a job with batches this shows as a
next batch that starts long after it could have, as a running batch that takes far longer than instances warming up
explain, or as readings between which nothing was done, for much longer than usual. In a job without batches it shows as
readings between which nothing was done although records waited, unless the engine measures it.

>>> RescaleDowntime().usual_s
0.0
"""

from __future__ import annotations

from collections import deque
from statistics import median_low

from headgate.core.types import JSON, Batch, Instances, Instant, Sample

CHANGES = 5
"""The median of this many changes is used: a failure may coincide with one of them."""
LEAST_RECORDS = 0.5
"""Fewer records more are no progress, but rounding."""
LEAST_S = 2.0
"""Shorter gaps are planning time or chance, not downtime."""
COLD, COLD_S = 4.0, 8.0
"""Up to this multiple of its expected time plus this many seconds, a batch may be slow only from warming up."""
STALLED, STALLED_S = 2.0, 8.0
"""Nothing done for longer than this multiple of the usual time between two signs of progress, and for so many seconds,
is a standstill."""
GAP_MEMORY = 0.99
"""Weight of the usual time between two signs of progress, per reading."""
AWAITED_S = 120.0
"""For this long after a first change, its effect is awaited before the next one."""
GIVEN_UP_S = 900.0
"""Observation of a change ends without a result if no whole batch followed within this time."""


class RescaleDowntime:
    """Downtimes of the last changes, and the state of the change under observation."""

    def __init__(self) -> None:
        self._downtimes_s: deque[float] = deque(maxlen=CHANGES)
        self._instances: Instances | None = None
        self._read_s: Instant | None = None
        self._last: dict[str, Batch] = {}
        """The newest batch of each query."""
        self._idle_s: Instant | None = None
        """The newest reading at which nothing waited."""
        self._from_s: Instant | None = None
        """The last reading before the observed change; ``None`` while none is observed."""
        self._to_s: Instant = 0.0
        """The first reading with the new size."""
        self._fewest = 1
        """The smallest of the sizes before and after."""
        self._longest_s = 0.0
        self._is_clear = True
        """Whether the downtime of the observed change can be distinguished from warming up."""
        self._done: float | None = None
        """Records done at the last reading with progress, tasks of running batches included."""
        self._progress_s: Instant = 0.0
        """Time of that reading."""
        self._usual_gap_s = 0.0
        """The usual longest time without progress while records wait."""
        self._stalled_s = 0.0
        """How long nothing was done after the observed change."""
        self._is_stalled = False
        """Whether nothing has been done since, up to the newest reading."""
        self._changed_s: Instant = 0.0
        """The first reading with another size."""
        self._has_progressed = True
        """Whether anything was done after that reading."""
        self._is_measured = False
        """Whether the standstill has ended with a batch that it had interrupted."""

    @property
    def usual_s(self) -> float:
        """The typical downtime of a change of size; 0 until one was observed."""
        return median_low(self._downtimes_s) if self._downtimes_s else 0.0

    @property
    def fewest(self) -> int | None:
        """The smallest size since before the observed change; ``None`` while none is observed."""
        return None if self._from_s is None else self._fewest

    def is_awaited(self, now: Instant) -> bool:
        """Whether a first change of size is in effect and nothing was done since.

        Until it is known whether changes stop the job, another one could prolong the standstill.
        """
        return self._is_stalled and not self._downtimes_s and now - self._to_s <= AWAITED_S

    def remaining_s(self, now: Instant) -> float:
        """Return the expected rest of the downtime of the change that has just taken effect."""
        return 0.0 if self._from_s is None else max(0.0, self.usual_s - (now - self._from_s))

    def observe_size(self, at_s: Instant, instances: Instances) -> None:
        """Record the instances at a reading; call this before its batches."""
        before, before_s = self._instances, self._read_s
        self._instances, self._read_s = instances, at_s
        if before is None or before_s is None or before.ready == instances.ready:
            return
        if self._from_s is None:
            self._from_s, self._longest_s, self._is_clear = before_s, 0.0, True
            self._fewest = max(1, before.ready)
            self._changed_s, self._stalled_s = at_s, 0.0
            self._has_progressed = self._is_stalled = self._is_measured = False
        # Instances that join one after the other belong to one change.
        self._to_s, self._fewest = at_s, max(1, min(self._fewest, instances.ready))

    def downtime_in_batch_s(self, batch: Batch, expected_s: float | None) -> float:
        """Record a batch and return the downtime within it; ``expected_s`` is its time without downtime."""
        before = self._last.get(batch.query)
        self._last[batch.query] = batch
        if self._from_s is None or batch.ended_s <= self._from_s:
            return 0.0
        if before is not None and batch.started_s > self._from_s and not self._was_idle(before, batch):
            self._longest_s = max(self._longest_s, _before_s(before, batch))
        if self._stalled_s >= max(STALLED_S, STALLED * self._usual_gap_s) and batch.started_s <= self._to_s:
            self._longest_s, self._is_measured = max(self._longest_s, self._stalled_s), True
            return min(self._stalled_s, batch.processing_time_s - LEAST_S)
        if not batch.warming:
            return 0.0
        if expected_s is None:
            self._is_clear = False
            return 0.0
        longer_s = batch.processing_time_s - expected_s
        if longer_s < LEAST_S:
            return 0.0
        if batch.processing_time_s <= COLD * expected_s + COLD_S:
            self._is_clear = False
            return 0.0
        self._longest_s = max(self._longest_s, longer_s)
        return longer_s

    def conclude(self, before: Sample | None, sample: Sample) -> None:
        """Record the downtime of the observed change if it is over."""
        if sample.backlog is not None and sample.backlog < 1:
            self._idle_s = sample.at_s
        self._follow_progress(sample)
        if self._from_s is None:
            return
        is_over = self._is_measured or any(batch.started_s >= self._to_s for batch in self._last.values())
        if before is not None and None not in (before.paused_s, sample.paused_s):
            # A measured downtime is exact and may be shorter than the time between two readings.
            self._longest_s += max(0.0, (sample.paused_s or 0.0) - (before.paused_s or 0.0))
            is_over = sample.at_s > self._to_s
        elif sample.batch_ended_s is None:
            is_over = not self._made_no_progress(before, sample) and sample.at_s > self._to_s
        if is_over and (self._is_clear or self._longest_s > 0):
            self._downtimes_s.append(self._longest_s)
        if is_over or sample.at_s - self._to_s > GIVEN_UP_S:
            self._from_s = None

    def _follow_progress(self, sample: Sample) -> None:
        """Measure how long nothing is done after a change, and at other times."""
        if None in (sample.arrived, sample.done, sample.backlog):
            self._done, self._has_progressed, self._is_stalled = None, True, False
            return
        backlog = sample.backlog or 0.0
        done = max(sample.done or 0.0, (sample.arrived or 0.0) - backlog)
        if self._done is not None and abs(done - self._done) < LEAST_RECORDS and backlog >= 1:
            if not self._has_progressed and self._from_s is not None:
                self._is_stalled, self._stalled_s = True, sample.at_s - max(self._progress_s, self._from_s)
            return
        if self._done is not None and backlog >= 1 and self._from_s is None:
            self._usual_gap_s = max(GAP_MEMORY * self._usual_gap_s, sample.at_s - self._progress_s)
        # Work that was done before the change took effect does not end its standstill.
        self._has_progressed = self._has_progressed or sample.at_s > self._changed_s
        self._is_stalled = False
        self._done, self._progress_s = done, sample.at_s

    def _was_idle(self, before: Batch, batch: Batch) -> bool:
        """Whether the job was idle between two batches, so that the arrival of the next record is only estimated."""
        return self._idle_s is not None and before.ended_s <= self._idle_s <= batch.started_s

    def _made_no_progress(self, before: Sample | None, sample: Sample) -> bool:
        """Whether, in a job without batches, nothing was done between two readings although records waited."""
        if before is None or None in (before.done, sample.done, before.backlog):
            self._is_clear = False
            return False
        no_progress = (sample.done or 0.0) <= (before.done or 0.0) and (before.backlog or 0.0) >= 1
        if no_progress and self._from_s is not None:
            self._longest_s += sample.at_s - max(before.at_s, self._from_s)
        return no_progress

    def reset_clock(self) -> None:
        """Forget timestamps: the clock was reset."""
        self._instances = self._read_s = self._idle_s = self._from_s = self._done = None
        self._has_progressed, self._is_stalled = True, False
        self._last.clear()

    def to_json(self) -> list[float]:
        # A change under observation is not saved: after a restart its batches would be incomplete.
        return list(self._downtimes_s)

    def restore(self, saved: JSON) -> None:
        self._downtimes_s = deque((float(downtime_s) for downtime_s in saved), maxlen=CHANGES)
        self.reset_clock()


def _before_s(before: Batch, batch: Batch) -> float:
    """Return how much later a batch started than the previous batch, its trigger and its first record required."""
    if batch.oldest_s is None:
        return 0.0
    interval_s = batch.trigger_interval_s
    due_s = max(before.ended_s, before.started_s + interval_s, batch.oldest_s + interval_s)
    late_s = batch.started_s - due_s
    return late_s if late_s >= LEAST_S else 0.0
