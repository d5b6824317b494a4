"""The work inside one batch: a fixed overhead, then slot-seconds, as a fluid or as tasks.

Both forms know when they end with the present slots, what share is done at a time, and what a change of the number of
slots does. ``knots`` record how the share grew, as pairs of time and share with straight lines between them; two pairs
at one time are a jump.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from headgate.core.types import Instant
from headgate.simulation.micro_batch import MicroBatch

_Group: TypeAlias = tuple[Instant, int, int, bool]
"""Tasks that end together: when, on how many staying and leaving slots, and whether it is the largest task."""


class BatchWork(Protocol):
    end_s: Instant
    """When it will be done with the present slots."""
    knots: list[tuple[Instant, float]]
    still_cold: int
    """Slots that joined and have had no task of it."""

    def first_done_s(self, joined_s: Instant) -> Instant | None:
        """Return when a slot that joined at a time finishes its first task; ``None`` when no task is left for it."""
        ...

    def share(self, at_s: Instant) -> float:
        """Return the visible share done at a time; time must not go back."""
        ...

    def resize(self, at_s: Instant, slots: int, pause_s: float, *, lost: bool = False) -> Sequence[Instant]:
        """Continue with another number of slots after a pause, and return when each leaving slot is free.

        The running task of a lost slot has to be done again.
        """
        ...

    def finish(self) -> None:
        """Complete the knots once all work is done."""
        ...


def make_work(
    model: MicroBatch,
    start_s: Instant,
    work_s: float,
    slots: int,
    *,
    cold: int = 0,
    held_up_s: float = 0.0,
    largest_s: float = 0.0,
) -> BatchWork:
    """Return the work of a batch in the form of a model; ``cold`` slots have had no task yet."""
    fixed_s = model.overhead_s + held_up_s
    if model.partitions is None:
        return Fluid(start_s, fixed_s, work_s, slots, largest_s)
    return Tasks(
        start_s,
        fixed_s,
        work_s,
        slots,
        model.partitions,
        cold_task_s=model.cold_task_s,
        cold=min(cold, slots),
        largest_s=largest_s,
    )


class Fluid:
    """Work that is divided evenly among any number of slots.

    ``largest_s`` seconds of it cannot be divided: one slot does them first.
    """

    def __init__(self, start_s: Instant, fixed_s: float, work_s: float, slots: int, largest_s: float = 0.0) -> None:
        self.still_cold = 0
        self._total_s = work_s
        self._left_s = work_s
        self._largest_s = largest_s
        """What is left of the part for one slot."""
        self._slots = slots
        self._begin_s = start_s + fixed_s
        self.knots = [(self._begin_s, 0.0)]
        self._plan()

    def _plan(self) -> None:
        self.end_s = self._begin_s + max(self._left_s / self._slots, self._largest_s) if self._slots else math.inf

    def first_done_s(self, joined_s: Instant) -> Instant | None:
        return self.end_s

    def share(self, at_s: Instant) -> float:
        served_s = max(0.0, at_s - self._begin_s) * self._slots
        if self._largest_s and self._slots:
            # Once the rest is done, one slot works and the others wait.
            served_s = min(served_s, self._left_s - self._largest_s + max(0.0, at_s - self._begin_s))
        return min(1.0, (self._total_s - self._left_s + served_s) / self._total_s)

    def resize(self, at_s: Instant, slots: int, pause_s: float, *, lost: bool = False) -> Sequence[Instant]:
        left, share = self._slots - slots, self.share(at_s)
        if at_s > self._begin_s:
            self._add_knots(at_s, share)
            self._left_s = self._total_s * (1 - share)
            if self._slots:
                # Rounding must not make it more than what is left.
                self._largest_s = min(self._left_s, max(0.0, self._largest_s - (at_s - self._begin_s)))
            self._begin_s = at_s
        if pause_s:
            self._begin_s += pause_s
            self.knots.append((self._begin_s, share))
        self._slots = slots
        self._plan()
        return [at_s] * left

    def finish(self) -> None:
        self._add_knots(self.end_s, 1.0)

    def _add_knots(self, at_s: Instant, share: float) -> None:
        """Add the share done at a time, and at the moment from which one slot worked alone."""
        if self._slots > 1 and self._largest_s > self._left_s / self._slots:
            alone_s = self._begin_s + (self._left_s - self._largest_s) / (self._slots - 1)
            if alone_s < at_s:
                self.knots.append((alone_s, self.share(alone_s)))
        self.knots.append((at_s, share))


class Tasks:
    """Work that is split into equal tasks, one per partition. A slot does one task at a time.

    With ``largest_s``, one task takes that long and starts first; the others share the rest.

    P tasks on S slots take ``ceil(P / S)`` waves. Slots that join take tasks that have not started, and the first task
    of each takes ``cold_task_s`` longer; so do the first tasks of the ``cold`` slots present at the start. Slots that
    leave finish their task. Progress shows in whole tasks.
    """

    def __init__(
        self,
        start_s: Instant,
        fixed_s: float,
        work_s: float,
        slots: int,
        tasks: int,
        *,
        cold_task_s: float = 0.0,
        cold: int = 0,
        largest_s: float = 0.0,
    ) -> None:
        self._tasks = tasks
        is_skewed = largest_s > 0
        self._task_s = (work_s - largest_s) / max(1, tasks - 1) if is_skewed else work_s / tasks
        self._largest_s = largest_s
        self._largest_share = largest_s / work_s if is_skewed else 0.0
        self._largest_waits = is_skewed
        self._cold_task_s = cold_task_s
        self._cold = cold if cold_task_s else 0
        """Slots that have had no task when it begins."""
        self.still_cold = 0
        self._slots = slots
        self._waiting = tasks
        self._done = 0
        """Tasks done, not counting the largest."""
        self._largest_done = False
        self._begin_s = start_s + fixed_s
        self._begun = False
        self._running: list[_Group] = []
        """Soonest first."""
        self.knots = [(self._begin_s, 0.0)]
        self._plan()

    def _plan(self) -> None:
        if not self._begun and not self._cold and not self._largest_waits:
            waves = math.ceil(self._tasks / self._slots) if self._slots else math.inf
            self.end_s = self._begin_s + waves * self._task_s
            return
        running, waiting, largest_waits = list(self._running), self._waiting, self._largest_waits
        if not self._begun:
            for slots, extra_s in self._first_slots():
                started = self._started(self._begin_s, slots, waiting, extra_s, with_largest=largest_waits)
                running += started
                waiting -= _size(started)
                largest_waits = largest_waits and not started
            running.sort(key=_ends_s)
        for index, (ends_s, staying, _, _) in enumerate(
            running
        ):  # The list grows while it is read, after the current index.
            self.end_s = ends_s
            if staying and waiting:
                started = self._started(ends_s, staying, waiting, with_largest=largest_waits)
                largest_waits = False
                waiting -= _size(started)
                for group in started:
                    insort(running, group, lo=index + 1, key=_ends_s)
        if waiting:
            self.end_s = math.inf

    def _first_slots(self) -> tuple[tuple[int, float], tuple[int, float]]:
        """Return warm and cold slots for the first tasks, each with the extra time of those tasks."""
        cold = min(self._cold, self._slots)
        return (self._slots - cold, 0.0), (cold, self._cold_task_s)

    def first_done_s(self, joined_s: Instant) -> Instant | None:
        if not self._begun:
            return self._begin_s + self._task_s + (self._cold_task_s if self._cold else 0.0)
        # The running tasks that started last belong to the slots that joined last.
        ends_s = next((group[0] for group in reversed(self._running) if not group[3]), -math.inf)
        return ends_s if ends_s >= joined_s + self._task_s else None

    def share(self, at_s: Instant) -> float:
        self._roll(at_s)
        return self._share_done()

    def _share_done(self) -> float:
        if not self._largest_share:
            return self._done / self._tasks
        others = max(1, self._tasks - 1)
        left = (1 - self._largest_share) * (others - self._done) / others
        return 1 - left - (0.0 if self._largest_done else self._largest_share)

    def _roll(self, to_s: Instant) -> None:
        """Advance time: finish tasks and start waiting ones in their place."""
        if not self._begun and self._begin_s <= to_s and self._slots:
            self._begun = True
            warm, cold = self._first_slots()
            self._put(self._begin_s, *warm)
            self._put_cold(self._begin_s, *cold)
        while self._running and self._running[0][0] <= to_s:
            ends_s, staying, leaving, is_largest = self._running.pop(0)
            before = self._share_done()
            if is_largest:
                self._largest_done = True
            else:
                self._done += staying + leaving
            self.knots += [(ends_s, before), (ends_s, self._share_done())]
            self._put(ends_s, staying)

    def _put(self, at_s: Instant, slots: int, extra_s: float = 0.0) -> None:
        """Start waiting tasks on free slots, each taking ``extra_s`` longer."""
        started = self._started(at_s, slots, self._waiting, extra_s, with_largest=self._largest_waits)
        self._largest_waits = self._largest_waits and not started
        self._waiting -= _size(started)
        for group in started:
            insort(self._running, group, key=_ends_s)

    def _started(
        self, at_s: Instant, slots: int, waiting: int, extra_s: float = 0.0, *, with_largest: bool
    ) -> list[_Group]:
        """Return the tasks that free slots start, the largest first if it waits."""
        count = min(slots, waiting)
        found: list[_Group] = []
        if with_largest and count:
            found.append((at_s + self._largest_s + extra_s, 1, 0, True))
            count -= 1
        if count:
            found.append((at_s + self._task_s + extra_s, count, 0, False))
        return found

    def _put_cold(self, at_s: Instant, slots: int, extra_s: float) -> None:
        waiting = self._waiting
        self._put(at_s, slots, extra_s)
        self.still_cold += slots - (waiting - self._waiting)

    def resize(self, at_s: Instant, slots: int, pause_s: float, *, lost: bool = False) -> Sequence[Instant]:
        self._roll(at_s)
        leaving, self._slots = self._slots - slots, slots
        if not self._begun:
            self._cold += max(0, -leaving) if self._cold_task_s else 0
            self._begin_s = max(at_s, self._begin_s) + pause_s
            self.knots.append((self._begin_s, 0.0))
            self._plan()
            return [at_s] * leaving
        free = slots + leaving - sum(group[1] for group in self._running)
        if pause_s:
            self._running = [(group[0] + pause_s, *group[1:]) for group in self._running]
        drained_s = [at_s] * min(free, leaving)
        drained_s += self._leave(leaving - len(drained_s), lost=lost)
        if leaving < 0:
            # Older slots are free only when no task is waiting.
            self._put_cold(at_s + pause_s, -leaving, self._cold_task_s)
        else:
            self._put(at_s + pause_s, max(0, free - leaving))
        self._plan()
        return drained_s

    def _leave(self, slots: int, *, lost: bool) -> list[Instant]:
        """Take away the slots whose tasks end first, and return when each is free."""
        drained_s: list[Instant] = []
        running: list[_Group] = []
        for ends_s, staying, leaving, is_largest in self._running:
            going = min(staying, slots - len(drained_s))
            if going > 0:
                drained_s += [ends_s] * going
                if lost:
                    self._waiting += going
                    self._largest_waits = self._largest_waits or is_largest
                running.append((ends_s, staying - going, leaving + (0 if lost else going), is_largest))
            else:
                running.append((ends_s, staying, leaving, is_largest))
        self._running = [group for group in running if group[1] or group[2]]
        return drained_s

    def finish(self) -> None:
        self._roll(math.inf)


def _ends_s(group: _Group) -> Instant:
    return group[0]


def _size(groups: Sequence[_Group]) -> int:
    return sum(group[1] for group in groups)
