"""The instances of one simulated operator: planned, requested and ready, and the cost of them."""

from __future__ import annotations

import math
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, count, pairwise
from typing import TypeAlias

from headgate.core.course import Rows, rows
from headgate.core.types import Instances, Instant, Startup
from headgate.simulation.contract import Warmed

_Size: TypeAlias = tuple[Instant, Instant, int, int]
"""Start, end, ready instances and paid instances."""
_Lasted: TypeAlias = defaultdict[tuple[int, int], float]
"""Seconds by number of ready and of paid instances."""
MOST_CHANGES = 100_000
"""Beyond this many changes, past ones are settled at once."""
_MOST_SPANS = 64
"""Settled changes are stored in at most this many spans of time."""
_WATCHED_S = 180.0
"""An instance without work for this long is reported without a first task, as on Spark."""


@dataclass(order=True, slots=True)
class _StartingInstance:
    ready_s: Instant
    number: int
    requested_s: Instant = field(compare=False)
    is_reported: bool = field(default=False, compare=False)
    """Whether its start has been reported."""


class SimulatedFleet:
    """Instances that take time to become ready, and leave when they have finished their work.

    ``draw_startup_s`` returns the start-up time of the next instance. An instance is paid for from its request until it
    has left; an idle one takes ``drain_s`` to leave.

    Beyond ``most_changes``, only the time spent at each size is stored, in spans that grow with the length of the run.
    """

    def __init__(
        self,
        ready: int,
        draw_startup_s: Callable[[], float],
        drain_s: float = 0.0,
        *,
        most_changes: int = MOST_CHANGES,
    ) -> None:
        self.ready = ready
        self.planned = ready
        self._draw_startup_s = draw_startup_s
        self._drain_s = drain_s
        self._starting: list[_StartingInstance] = []
        """Soonest first."""
        self._numbers = count(ready + 1)
        self._joined: list[_StartingInstance] = []
        """Ready instances whose warm-up is not known yet."""
        self._changes: list[tuple[Instant, int, int]] = [(0.0, ready, ready)]
        """Time, change of ready instances, change of paid instances."""
        self._most_changes = most_changes
        self._settled: list[tuple[Instant, _Lasted]] = []
        """Start of each settled span, with the seconds spent at each size."""
        self._instances = Instances(ready, ready, ready)

    @property
    def retained(self) -> int:
        """How many changes and settled sizes are stored."""
        return len(self._changes) + sum(len(lasted) for _, lasted in self._settled)

    @property
    def instances(self) -> Instances:
        instances = self._instances
        if instances.planned != self.planned or instances.ready != self.ready:
            instances = self._instances = Instances(planned=self.planned, requested=self.planned, ready=self.ready)
        return instances

    @property
    def next_ready_s(self) -> Instant:
        """When the next instance becomes ready; infinity when none is starting."""
        return self._starting[0].ready_s if self._starting else math.inf

    def bring_to(self, planned: int, now: Instant) -> bool:
        """Request a size, replacing lost instances; return whether anything changed.

        When scaling in, starting instances are cancelled first, beginning with the last to become ready.
        """
        before = self.planned
        self.planned = planned
        missing = planned - self.ready - len(self._starting)
        if missing == 0:
            return planned != before
        for _ in range(missing):
            insort(self._starting, _StartingInstance(now + self._draw_startup_s(), next(self._numbers), now))
        cancelled = min(len(self._starting), max(0, -missing))
        del self._starting[len(self._starting) - cancelled :]
        self._changes.append((now, 0, max(missing, -cancelled)))
        self.join(now)
        self.ready -= max(0, -missing) - cancelled
        return True

    def join(self, now: Instant) -> None:
        """Make instances ready that have started by now."""
        while self._starting and self._starting[0].ready_s <= now:
            self._joined.append(self._starting.pop(0))
            self.ready += 1
            self._changes.append((now, 1, 0))
        if len(self._changes) > self._most_changes:
            self._settle(now)

    def left(self, now: Instant, through_s: Sequence[Instant]) -> None:
        """Remove instances that take no more work and finish at these times."""
        for at_s in through_s:
            self._changes += [(now, -1, 0), (at_s + self._drain_s, 0, -1)]
        del self._joined[self.ready :]

    def lose(self, now: Instant) -> None:
        """Remove a ready instance that died."""
        if self.ready:
            self.ready -= 1
            self._changes.append((now, -1, -1))

    def startups(self, now: Instant, warmed: Sequence[Warmed]) -> tuple[Startup, ...]:
        """Return start-ups that are new, complete, or were watched for long enough, as on Spark.

        ``warmed`` are the instances that the kernel newly reports as warm.
        """
        if not self._joined:
            return ()
        found = []
        for instance in warmed:
            joined = next((starting for starting in self._joined if starting.ready_s == instance.joined_s), None)
            if joined is not None:
                self._joined.remove(joined)
                found.append(_startup(joined, instance))
        while self._joined and now - self._joined[0].ready_s >= _WATCHED_S:
            found.append(_startup(self._joined.pop(0), Warmed(now)))
        for joined in self._joined:
            if not joined.is_reported:
                joined.is_reported = True
                found.append(_startup(joined, Warmed(joined.ready_s)))
        return tuple(found)

    def sizes(self, until_s: Instant) -> Rows:
        """Return rows of start, end, ready and paid instances until a time."""
        settled = chain.from_iterable(_one_by_one(from_s, lasted) for from_s, lasted in self._settled)
        return rows(chain(settled, self._since_settled(until_s)), 4)

    def _since_settled(self, until_s: Instant) -> Iterator[_Size]:
        changes = sorted(change for change in self._changes if change[0] < until_s)
        times_s = [*(at_s for at_s, _, _ in changes), until_s]
        ready = accumulate(change for _, change, _ in changes)
        paid = accumulate(change for _, _, change in changes)
        spans = zip(pairwise(times_s), ready, paid, strict=True)
        return ((from_s, to_s, now, due) for (from_s, to_s), now, due in spans if to_s > from_s)

    def _settle(self, now: Instant) -> None:
        """Replace past changes by the seconds spent at each size."""
        lasted: _Lasted = defaultdict(float)
        for from_s, to_s, ready, paid in self._since_settled(now):
            lasted[ready, paid] += to_s - from_s
        if not lasted:
            return
        past = [change for change in self._changes if change[0] < now]
        self._settled.append((min(past)[0], lasted))
        ready, paid = sum(change[1] for change in past), sum(change[2] for change in past)
        self._changes = [(now, ready, paid), *(change for change in self._changes if change[0] >= now)]
        if len(self._settled) > _MOST_SPANS:
            for (_, older), (_, newer) in zip(self._settled[::2], self._settled[1::2], strict=False):
                for sizes, lasted_s in newer.items():
                    older[sizes] += lasted_s
            del self._settled[1::2]


def _one_by_one(from_s: Instant, lasted: _Lasted) -> Iterator[_Size]:
    """Yield the seconds at each size as consecutive spans."""
    for (ready, paid), lasted_s in sorted(lasted.items()):
        yield from_s, from_s + lasted_s, ready, paid
        from_s += lasted_s


def _startup(joined: _StartingInstance, instance: Warmed) -> Startup:
    requested_s = joined.requested_s
    return Startup(
        instance=str(joined.number),
        requested_s=requested_s,
        registered_after_s=joined.ready_s - requested_s,
        first_task_after_s=None if instance.first_task_s is None else instance.first_task_s - requested_s,
        warm_after_s=None if instance.warm_s is None else instance.warm_s - requested_s,
    )
