"""The instances of one simulated operator: planned, requested and ready, kept apart, and what is paid for them."""

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
"""From, to, ready instances and instances paid for."""
_Lasted: TypeAlias = defaultdict[tuple[int, int], float]
"""For how many seconds so many were ready, and paid for."""
MOST_CHANGES = 100_000
"""Of more changes than this, all are settled as soon as they are in the past."""
_MOST_SPANS = 64
"""Into so many spans of time at most."""
_WATCHED_S = 180.0
"""An instance that has got no work for so long is told of without, as on Spark."""


@dataclass(order=True, slots=True)
class _Starting:
    ready_s: Instant
    number: int
    requested_s: Instant = field(compare=False)
    is_told: bool = field(default=False, compare=False)
    """Whether it was told that it has started."""


class Fleet:
    """Instances take a time to become ready; those that are asked to leave do so when they are through.

    ``draw_startup_s`` gives the start-up time of the next instance. An instance is paid for from the request for it
    until it has left; ``drain_s`` is how long one takes to leave that has nothing more to do.

    Of more than ``most_changes`` it is only kept how long the size was which, in spans that are the longer the more
    there are.
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
        self._starting: list[_Starting] = []
        """Soonest first."""
        self._numbers = count(ready + 1)
        self._joined: list[_Starting] = []
        """Those that are ready and of which it is not known yet how long they took to be of use."""
        self._changes: list[tuple[Instant, int, int]] = [(0.0, ready, ready)]
        """When how many became ready and were paid for, more or fewer."""
        self._most_changes = most_changes
        self._settled: list[tuple[Instant, _Lasted]] = []
        """From when on, and for how long which size."""
        self._told = Instances(ready, ready, ready)

    @property
    def kept(self) -> int:
        """How many changes and settled sizes are kept."""
        return len(self._changes) + sum(len(lasted) for _, lasted in self._settled)

    @property
    def instances(self) -> Instances:
        told = self._told
        if told.planned != self.planned or told.ready != self.ready:
            told = self._told = Instances(planned=self.planned, requested=self.planned, ready=self.ready)
        return told

    @property
    def next_ready_s(self) -> Instant:
        """When the next instance becomes ready; infinity when none is starting."""
        return self._starting[0].ready_s if self._starting else math.inf

    def bring_to(self, planned: int, now: Instant) -> bool:
        """Ask for a size, replacing instances that were lost; whether there was anything to do.

        Those that are still starting leave first, the one that would be ready last before the others.
        """
        before = self.planned
        self.planned = planned
        missing = planned - self.ready - len(self._starting)
        if missing == 0:
            return planned != before
        for _ in range(missing):
            insort(self._starting, _Starting(now + self._draw_startup_s(), next(self._numbers), now))
        cancelled = min(len(self._starting), max(0, -missing))
        del self._starting[len(self._starting) - cancelled :]
        self._changes.append((now, 0, max(missing, -cancelled)))
        self.join(now)
        self.ready -= max(0, -missing) - cancelled
        return True

    def join(self, now: Instant) -> None:
        """Instances that have started by now become ready."""
        while self._starting and self._starting[0].ready_s <= now:
            self._joined.append(self._starting.pop(0))
            self.ready += 1
            self._changes.append((now, 1, 0))
        if len(self._changes) > self._most_changes:
            self._settle(now)

    def left(self, now: Instant, through_s: Sequence[Instant]) -> None:
        """Instances take no more work from now on, and are through with what they have at these times."""
        for at_s in through_s:
            self._changes += [(now, -1, 0), (at_s + self._drain_s, 0, -1)]
        del self._joined[self.ready :]

    def lose(self, now: Instant) -> None:
        """A ready instance dies."""
        if self.ready:
            self.ready -= 1
            self._changes.append((now, -1, -1))

    def startups(self, now: Instant, warmed: Sequence[Warmed]) -> tuple[Startup, ...]:
        """The instances that have started since this was last asked, and those whose start-up is known to the end or
        was watched for long enough, as on Spark.

        ``warmed`` is what the kernel has told anew of when instances became of use.
        """
        if not self._joined:
            return ()
        found = []
        for one in warmed:
            joined = next((each for each in self._joined if each.ready_s == one.joined_s), None)
            if joined is not None:
                self._joined.remove(joined)
                found.append(_startup(joined, one))
        while self._joined and now - self._joined[0].ready_s >= _WATCHED_S:
            found.append(_startup(self._joined.pop(0), Warmed(now)))
        for joined in self._joined:
            if not joined.is_told:
                joined.is_told = True
                found.append(_startup(joined, Warmed(joined.ready_s)))
        return tuple(found)

    def sizes(self, until_s: Instant) -> Rows:
        """From, to, ready instances and instances paid for, until a time."""
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
        """Of what lies before now, keep how long the size was which."""
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
    """How long the size was which, as if each had lasted once."""
    for (ready, paid), lasted_s in sorted(lasted.items()):
        yield from_s, from_s + lasted_s, ready, paid
        from_s += lasted_s


def _startup(joined: _Starting, one: Warmed) -> Startup:
    asked_s = joined.requested_s
    return Startup(
        instance=str(joined.number),
        requested_s=asked_s,
        registered_after_s=joined.ready_s - asked_s,
        first_task_after_s=None if one.first_task_s is None else one.first_task_s - asked_s,
        warm_after_s=None if one.warm_s is None else one.warm_s - asked_s,
    )
