"""One source of a query: how far it has come, how far the batches have come, and what its offsets are worth.

No JVM is needed here. Records are counted from offsets; ``worth`` is how many there are per step of an offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.core.types import Instant
from headgate.engines.spark.arrivals import ArrivalCurve
from headgate.engines.spark.offsets import Offsets, Partition, RecordsPerOffset, distance
from headgate.engines.spark.snapshots import Source

RATE_OVER_S = 5.0
"""The rate of arrivals is that of the last so many seconds of what is known, or of the last span between two news."""
GOES_ON_OVER_S = 30.0
"""The rate at which records are taken to go on arriving is a steadier one."""
UNANSWERED_S = 2.0
"""A source that has answered before and does not for so short a time is where it was: on a busy machine that happens
every now and then. What is taken to have come and has not would stay in the count of arrivals."""


@dataclass(slots=True)
class SourceState:
    """What is known of a source."""

    set_up: Source
    worth: RecordsPerOffset
    curve: ArrivalCurve = field(default_factory=ArrivalCurve)
    done: dict[Partition, float] = field(default_factory=dict)
    """Where the newest batch that was reported ends."""
    planned: Offsets | None = None
    """Where the batch after it ends, that runs or was not reported yet."""
    share_done: float = 0.0
    """Of the records of that batch."""
    least_done: float = 0.0
    """Of the records of the partition that is furthest behind."""
    counted: Offsets = field(default_factory=dict)
    """Up to here arrivals were counted."""
    answers: bool = False
    """It can be asked, and has answered."""

    @classmethod
    def of(cls, set_up: Source) -> SourceState:
        return cls(set_up, RecordsPerOffset(set_up.kind))

    def begin(self, start: Offsets | None, end: Offsets | None) -> None:
        """Take in where the first batch begins that anybody looks at, and where it ends."""
        if not self.done:
            self.done = dict(start if start is not None else self.set_up.first_offsets(end))

    # ------------------------------------------------------------------------------------------------- what arrived

    def reached(self, now: Instant, *, goes_on: bool) -> tuple[Offsets, float]:
        """How far it has come by now, and how old the news is that this rests on.

        ``goes_on``: records are taken to have gone on arriving since, as they did before.
        """
        newest_s, newest = self.curve.newest_s, self.curve.newest
        age_s = 0.0 if newest_s is None else max(0.0, now - newest_s)
        if age_s > (UNANSWERED_S if self.answers else 0.0) and goes_on:
            rates = self.curve.rate_per_s(GOES_ON_OVER_S)
            newest = {name: value + rates.get(name, 0.0) * age_s for name, value in newest.items()}
        return newest, age_s

    def count(self, reached: Offsets) -> float:
        """Records that came since the last count. It never goes back, though an estimate of what has come may."""
        before = self.counted or self.done
        self.counted = {name: max(value, before.get(name, value)) for name, value in reached.items()}
        return self.worth.value * distance({name: before.get(name, 0.0) for name in reached}, reached)

    def rate_per_s(self) -> float | None:
        """Records per second that arrive; ``None`` before two news are there."""
        rates = self.curve.rate_per_s(RATE_OVER_S)
        return self.worth.value * sum(rates.values()) if rates else None

    def forget_arrivals(self, before_s: Instant) -> None:
        """Let go of what is older, but for what rates, and the age of records that are not done, are found by."""
        needed_s = [before_s]
        if self.curve.newest_s is not None:
            needed_s.append(self.curve.newest_s - GOES_ON_OVER_S)
        if (oldest_s := self.curve.oldest_after(self.done)) is not None:
            needed_s.append(oldest_s)
        self.curve.forget_before(min(needed_s))

    # -------------------------------------------------------------------------------------------------- what is done

    def backlog(self, reached: Offsets) -> float:
        """Records from what was reported to be done up to an offset."""
        return self.worth.value * distance(self.done, reached)

    @property
    def planned_skew(self) -> float:
        """Records of the largest partition of the planned batch over those of a mean one that has any."""
        planned = self.planned or {}
        steps = [end - self.done.get(name, 0.0) for name, end in planned.items() if end > self.done.get(name, 0.0)]
        return max(steps) * len(steps) / sum(steps) if steps else 1.0

    @property
    def unreported(self) -> float:
        """Records that are done and were not reported yet."""
        return 0.0 if self.planned is None else self.share_done * self.backlog(self.planned)

    @property
    def through(self) -> Offsets:
        """Up to here everything is done."""
        if self.planned is None or self.least_done <= 0:
            return self.done
        return self.done | {
            name: start + self.least_done * (end - start)
            for name, end in self.planned.items()
            for start in (self.done.get(name, 0.0),)
        }

    def came_before(self, at_s: Instant, first: Offsets, end: Offsets) -> float:
        """Of the records from one offset to another, those that had come by a time."""
        come = self.curve.reached_by(at_s)
        steps = (
            max(0.0, min(reached, come.get(name, 0.0)) - first.get(name, reached)) for name, reached in end.items()
        )
        return self.worth.value * sum(steps)
