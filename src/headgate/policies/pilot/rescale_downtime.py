"""How long a job stands still when its size changes, learned from its own changes.

A job that is started again for a new size does nothing meanwhile, and what arrives then waits. It shows in batches: the
next one starts long after it could have, or the one that was under way takes far longer than instances that only warm
up explain. Where there are no batches, nothing is done from one reading to the next though records wait, or the engine
has measured it.

>>> standstill = Standstill()
>>> standstill.usual_s
0.0
"""

from __future__ import annotations

from collections import deque
from statistics import median_low

from headgate.core.types import JSON, Batch, Instances, Instant, Sample

KEPT = 5
"""Of so many changes the middle one is believed: a failure may fall together with one of them."""
LEAST_S = 2.0
"""Shorter than this is what planning a batch takes, or chance: no standstill."""
COLD, COLD_S = 4.0, 8.0
"""A batch that takes so many times what was foretold, and so much more, may still be one of instances that warm up."""
GIVEN_UP_S = 900.0
"""A change after which no whole batch was seen for so long teaches nothing."""


class Standstill:
    """What was seen of the last changes, and of the one that is watched."""

    def __init__(self) -> None:
        self._kept_s: deque[float] = deque(maxlen=KEPT)
        self._instances: Instances | None = None
        self._read_s: Instant | None = None
        self._last: dict[str, Batch] = {}
        """The newest batch of each query."""
        self._idle_s: Instant | None = None
        """The newest reading at which nothing waited."""
        self._from_s: Instant | None = None
        """The last reading before the change that is watched; ``None`` while none is."""
        self._to_s: Instant = 0.0
        """The first reading with the new size."""
        self._fewest = 1
        """The smallest of the sizes before and after."""
        self._longest_s = 0.0
        self._is_clear = True
        """Whether all that was seen of the change can be told from warming up."""

    @property
    def usual_s(self) -> float:
        """How long the job stands still for a change of its size; 0 until it was seen to."""
        return median_low(self._kept_s) if self._kept_s else 0.0

    @property
    def fewest(self) -> int | None:
        """The smallest size since before the change that is watched; ``None`` while none is."""
        return None if self._from_s is None else self._fewest

    def left_s(self, now: Instant) -> float:
        """How long it is expected to go on standing still for the change that has just taken effect."""
        return 0.0 if self._from_s is None else max(0.0, self.usual_s - (now - self._from_s))

    def notice(self, at_s: Instant, instances: Instances) -> None:
        """Take in how many instances there are at a reading, before its batches."""
        before, before_s = self._instances, self._read_s
        self._instances, self._read_s = instances, at_s
        if before is None or before_s is None or before.ready == instances.ready:
            return
        if self._from_s is None:
            self._from_s, self._longest_s, self._is_clear = before_s, 0.0, True
            self._fewest = max(1, before.ready)
        # Those that join one after the other belong to one change.
        self._to_s, self._fewest = at_s, max(1, min(self._fewest, instances.ready))

    def in_batch_s(self, batch: Batch, expected_s: float | None) -> float:
        """How long the job stood still in a batch, which is taken in; ``expected_s`` is what it takes otherwise."""
        before = self._last.get(batch.query)
        self._last[batch.query] = batch
        if self._from_s is None or batch.ended_s <= self._from_s:
            return 0.0
        if before is not None and batch.started_s > self._from_s and not self._was_idle(before, batch):
            self._longest_s = max(self._longest_s, _before_s(before, batch))
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

    def judge(self, before: Sample | None, sample: Sample) -> None:
        """Keep what the watched change came to, if it is over."""
        if sample.backlog is not None and sample.backlog < 1:
            self._idle_s = sample.at_s
        if self._from_s is None:
            return
        is_over = any(batch.started_s >= self._to_s for batch in self._last.values())
        if before is not None and None not in (before.paused_s, sample.paused_s):
            # What an engine has measured needs no guessing, and may be shorter than the time between two readings.
            self._longest_s += max(0.0, (sample.paused_s or 0.0) - (before.paused_s or 0.0))
            is_over = sample.at_s > self._to_s
        elif sample.batch_ended_s is None:
            is_over = not self._stood(before, sample) and sample.at_s > self._to_s
        if is_over and (self._is_clear or self._longest_s > 0):
            self._kept_s.append(self._longest_s)
        if is_over or sample.at_s - self._to_s > GIVEN_UP_S:
            self._from_s = None

    def _was_idle(self, before: Batch, batch: Batch) -> bool:
        """Whether there was nothing to do between two batches: when a record came then is only guessed."""
        return self._idle_s is not None and before.ended_s <= self._idle_s <= batch.started_s

    def _stood(self, before: Sample | None, sample: Sample) -> bool:
        """Whether nothing was done between two readings though records waited; where there are no batches."""
        if before is None or None in (before.done, sample.done, before.backlog):
            self._is_clear = False
            return False
        stood = (sample.done or 0.0) <= (before.done or 0.0) and (before.backlog or 0.0) >= 1
        if stood and self._from_s is not None:
            self._longest_s += sample.at_s - max(before.at_s, self._from_s)
        return stood

    def begin_anew(self) -> None:
        """Times are other than they were."""
        self._instances = self._read_s = self._idle_s = self._from_s = None
        self._last.clear()

    def to_json(self) -> list[float]:
        # A change that is being watched is not worth keeping: after a restart its batches would not be whole.
        return list(self._kept_s)

    def restore(self, saved: JSON) -> None:
        self._kept_s = deque((float(one_s) for one_s in saved), maxlen=KEPT)
        self.begin_anew()


def _before_s(before: Batch, batch: Batch) -> float:
    """How much later a batch started than it could have, with the one before it done and a record there; or 0."""
    if batch.oldest_s is None:
        return 0.0
    interval_s = batch.trigger_interval_s
    due_s = max(before.ended_s, before.started_s + interval_s, batch.oldest_s + interval_s)
    late_s = batch.started_s - due_s
    return late_s if late_s >= LEAST_S else 0.0
