"""The batches to come, rolled forward for many courses of the load and many sizes at once.

Everything is as Spark does it: a batch takes what waits and as long as the service model says, the next one starts at
its trigger, or as soon as the one before is done. Instances that were asked for join when they have started, and the
first batch with them is slower. What is counted are records that come out later than the bound.

All sizes (rows) and scenarios (columns) go forward together, one batch at a time, each at its own time. Where there is
a compiler, the loop in ``rolling.py`` does the same several times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from headgate.forecast.compiled import has_compiler
from headgate.forecast.contract import FloatArray
from headgate.policies.pilot.grades import AHEAD_S
from headgate.policies.pilot.load import BIN_S
from headgate.policies.pilot.rolling import (
    BATCHES_TO_END,
    LEAST_CYCLE_S,
    LEAST_RECORDS,
    MOST_BATCHES,
    Inputs,
    rolled_batches,
)

LONGEST_WAIT_S = 3600.0
CATCH_UP_S = 120.0
"""How long what waits at the end goes on making others late: by then another size can be there."""
BEYOND = 0.01
"""What comes after that counts a little: of two hopeless sizes the larger one is still better."""
HARDLY_ANY = 1e-3
"""Instances where there are none, so that nothing is divided by 0."""
LEAST_SPARE = 0.05
"""A size that can hardly keep up is taken to have at least so much to spare when it works something off."""


@dataclass(frozen=True, slots=True)
class Now:
    """Where the job stands; times are in seconds from now, negative ones in the past."""

    arrived: FloatArray
    """Records per bin of the past that still matters, oldest first; the last bin ends now."""
    waiting: float
    """Records that have arrived and are not part of the running batch."""
    batch_records: float
    """Records of the running batch that are not done; 0 where none runs."""
    batch_started_s: float
    ready: int
    planned: int
    pending_s: float
    """When those that are planned and not ready are expected."""
    trigger_s: float
    next_trigger_s: float
    bound_s: float


@dataclass(frozen=True, slots=True)
class Service:
    """How long a batch takes (see ``service.py``)."""

    fixed_s: float
    each_s: float
    gamma: float
    warm_factor: float
    divided: float = 0.0


@dataclass(frozen=True, slots=True)
class Future:
    """What may happen, one row per scenario."""

    counts: FloatArray
    """Records that arrive in each bin to come."""
    ratios: FloatArray
    """How much longer each batch takes than foretold; used in turn."""
    startups_s: FloatArray
    """How long an instance takes to start."""


@dataclass(frozen=True, slots=True)
class Rolled:
    """What came out, one row per size, one column per scenario."""

    late: FloatArray
    """Records that were late within the horizon, and those that will be because of what still waits at its end."""
    ahead: FloatArray
    """Records that are not done ``AHEAD_S`` from now."""
    latency_s: FloatArray
    """What the oldest record without a result has waited by then."""


class Rollout:
    """Rolls ``sizes`` forward through the future."""

    def __init__(self, now: Now, service: Service, future: Future, sizes: FloatArray, until_s: float) -> None:
        self._now, self._service, self._future, self._until_s = now, service, future, until_s
        self._least_cycle_s = max(LEAST_CYCLE_S, until_s / BATCHES_TO_END)
        scenarios = len(future.counts)
        self._shape = (len(sizes), scenarios)
        self._past = len(now.arrived)
        courses = np.hstack([np.broadcast_to(now.arrived, (scenarios, self._past)), future.counts])
        self._cumulative = np.concatenate([np.zeros((scenarios, 1)), np.cumsum(courses, axis=1)], axis=1)
        self._column = np.arange(scenarios)[None, :]
        size = np.broadcast_to(sizes[:, None], self._shape)
        smaller = size <= now.ready
        self._start_size = np.where(smaller, size, max(HARDLY_ANY, float(now.ready)))
        expected_s = np.where(size <= now.planned, now.pending_s, future.startups_s[None, :])
        self._join_s = np.where(smaller, 0.0, expected_s)
        self._grows = self._start_size < size
        self._power, self._start_power = size**service.gamma, self._start_size**service.gamma
        self._begins_s = now.batch_started_s if now.batch_records > 0 else now.next_trigger_s
        self._at_s = np.full(self._shape, self._begins_s)
        self._taken = np.maximum(0.0, self._arrived_by(np.zeros(self._shape)) - now.waiting - now.batch_records)
        self._warm: NDArray[np.bool_] = np.zeros(self._shape, dtype=bool)
        self._open: NDArray[np.bool_] = np.ones(self._shape, dtype=bool)
        self._late = np.zeros(self._shape)
        self._ahead_s = np.full(self._shape, AHEAD_S)
        self._done_ahead, self._out_ahead = np.zeros(self._shape), np.zeros(self._shape)

    def rolled(self, *, in_loop: bool | None = None) -> Rolled:
        """Go on until the first batch that starts after the end: one long batch must not hide what it makes late."""
        if has_compiler() if in_loop is None else in_loop:
            late, waiting, ahead, pending = rolled_batches(self._inputs())
        else:
            late, waiting, ahead, pending = self._in_arrays()
        last = min(self._future.counts.shape[1], round(AHEAD_S / BIN_S))
        rate = np.maximum(1e-9, self._future.counts[:, last - 1] / BIN_S)[None, :]
        waited_s = np.where(pending < LEAST_RECORDS, 0.0, np.minimum(pending / rate, AHEAD_S + LONGEST_WAIT_S))
        return Rolled(late + self._late_afterwards(waiting), ahead, waited_s)

    def _in_arrays(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        for step in range(MOST_BATCHES):
            self._take_batch(step)
            self._open &= self._at_s < self._until_s
            if not self._open.any():
                break
        by_ahead = self._arrived_by(self._ahead_s)
        return (
            self._late,
            np.maximum(0.0, self._arrived_by(self._at_s) - self._taken),
            np.maximum(0.0, by_ahead - self._done_ahead),
            np.maximum(0.0, by_ahead - self._out_ahead),
        )

    def _inputs(self) -> Inputs:
        now, service = self._now, self._service
        return Inputs(
            cumulative=self._cumulative,
            last_counts=self._future.counts[:, -1].copy(),
            past=self._past,
            ratios=self._future.ratios,
            start_power=np.ascontiguousarray(self._start_power),
            power=np.ascontiguousarray(self._power),
            join_s=self._join_s,
            grows=self._grows.astype(np.float64),
            begins_s=float(self._begins_s),
            waiting=float(now.waiting),
            batch_records=float(now.batch_records),
            bound_s=float(now.bound_s),
            trigger_s=float(now.trigger_s),
            next_trigger_s=float(now.next_trigger_s),
            fixed_s=float(service.fixed_s),
            divided=float(service.divided),
            each_s=float(service.each_s),
            warm_factor=float(service.warm_factor),
            until_s=float(self._until_s),
            least_cycle_s=self._least_cycle_s,
        )

    def _take_batch(self, step: int) -> None:
        now = self._now
        is_running = step == 0 and now.batch_records > 0
        waiting = np.maximum(0.0, self._arrived_by(self._at_s) - self._taken)
        records = np.full(self._shape, now.batch_records) if is_running else waiting
        took_s = self._took_s(records, self._future.ratios[:, step % self._future.ratios.shape[1]][None, :])
        if is_running:
            # What runs already has taken its time so far; it ends after now.
            took_s = np.maximum(took_s, LEAST_CYCLE_S - now.batch_started_s)
        ended_s = self._at_s + took_s
        works = self._open & (records >= LEAST_RECORDS)
        overdue = self._arrived_by(np.minimum(self._at_s, ended_s - now.bound_s))
        late = np.clip(overdue - self._taken, 0.0, records)
        self._late += np.where(works, late, 0.0)
        share = np.clip((self._ahead_s - self._at_s) / np.maximum(took_s, 1e-9), 0.0, 1.0)
        seen = self._open & (self._at_s <= self._ahead_s)
        self._done_ahead = np.where(seen, self._taken + np.where(works, share * records, 0.0), self._done_ahead)
        out = np.where(works & (ended_s <= self._ahead_s), records, 0.0)
        self._out_ahead = np.where(seen, self._taken + out, self._out_ahead)
        self._taken = self._taken + np.where(works, records, 0.0)
        following = np.maximum(np.where(records >= LEAST_RECORDS, ended_s, self._at_s), self._next_trigger_s())
        self._at_s = np.where(self._open, following, self._at_s)

    def _took_s(self, records: FloatArray, ratio: FloatArray) -> FloatArray:
        """How long a batch takes; what is left of it when instances join is divided anew."""
        service = self._service
        joined = self._at_s >= self._join_s
        work = service.each_s * records * ratio
        fixed_s = self._fixed_s(np.where(joined, self._power, self._start_power)) * ratio
        cold = joined & ~self._warm & self._grows
        self._warm |= joined
        alone_s = np.maximum(0.0, self._join_s - self._at_s - fixed_s)
        before_s = work / self._start_power
        left = np.maximum(0.0, work - alone_s * self._start_power)
        joining_s = np.where(before_s <= alone_s, before_s, alone_s + left / self._power)
        together_s = np.where(cold, service.warm_factor, 1.0) * work / self._power
        return np.asarray(fixed_s + np.where(joined, together_s, joining_s))

    def _fixed_s(self, power: FloatArray) -> FloatArray:
        service = self._service
        return np.asarray(service.fixed_s * (1 - service.divided + service.divided / power))

    def _next_trigger_s(self) -> FloatArray:
        now = self._now
        if now.trigger_s <= self._least_cycle_s:
            return np.asarray(self._at_s + self._least_cycle_s)
        passed = np.floor((self._at_s - now.next_trigger_s) / now.trigger_s + 1e-9)
        return np.asarray(now.next_trigger_s + (passed + 1) * now.trigger_s)

    def _arrived_by(self, at_s: FloatArray) -> FloatArray:
        """Records that have arrived by a time, in each scenario; beyond the horizon at its last rate."""
        edges = self._cumulative.shape[1] - 1
        place = at_s / BIN_S + self._past
        index = np.clip(place.astype(np.int64), 0, edges - 1)
        low, high = self._cumulative[self._column, index], self._cumulative[self._column, index + 1]
        beyond = np.maximum(0.0, place - edges) * self._future.counts[:, -1]
        return np.asarray(low + np.clip(place - index, 0.0, 1.0) * (high - low) + beyond)

    def _late_afterwards(self, waiting: FloatArray) -> FloatArray:
        """Records that will be late because of what waits at the end, while it is worked off."""
        counts, service = self._future.counts, self._service
        index = min(counts.shape[1] - 1, max(0, int(self._until_s / BIN_S)))
        rate = np.maximum(1e-9, counts[:, index] / BIN_S)[None, :]
        # At the rate at which records arrive: at the rate of the service, a backlog would seem not worth the trouble.
        waited_s = waiting / rate + self._fixed_s(self._power) + service.each_s * waiting / self._power
        over_s = np.maximum(0.0, waited_s - self._now.bound_s)
        spare = np.maximum(LEAST_SPARE, 1 - service.each_s * rate / self._power)
        lasts_s = over_s / spare
        return np.asarray(rate * (np.minimum(lasts_s, CATCH_UP_S) + BEYOND * np.maximum(0.0, lasts_s - CATCH_UP_S)))


@cache
def compile_loops() -> None:
    """Have the loop compiled now, once per process: the first decision is not the time for it."""
    if not has_compiler():
        return
    now = Now(np.ones(2), 1.0, 0.0, 0.0, 1, 1, 1.0, 1.0, 1.0, 1.0)
    future = Future(np.ones((1, 2)), np.ones((1, 1)), np.ones(1))
    Rollout(now, Service(1.0, 1.0, 1.0, 1.0), future, np.ones(1), 1.0).rolled()
