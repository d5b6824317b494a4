"""The batches to come, rolled forward for many courses of the load and many sizes at once.

A job works in batches: one takes what waits and as long as the service model says, the next one starts at its
trigger, or as soon as the one before is done. Instances that were asked for join when they have started, and the
first batch with them is slower; a job that stands still for a change of its size does nothing meanwhile. What is
counted are records that come out later than the bound.

Where there is a compiler, the loop in ``rolling.py`` takes one size and scenario after the other; elsewhere
``stepping.py`` takes all of them forward together, with the same results.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.forecast.base import FloatArray
from headgate.forecast.compiled import has_compiler
from headgate.policies.pilot.calibration import AHEAD_S
from headgate.policies.pilot.load import BIN_S
from headgate.policies.pilot.rollout_loops import BATCHES_TO_END, LEAST_CYCLE_S, Inputs, rolled_batches, stepped_batches

HARDLY_ANY = 1e-3
"""Instances where there are none, so that nothing is divided by 0."""
STANDS_EVERY_S = 1800.0
"""A job that stands still for changes is taken to do so as often at least: a size must catch up afterwards."""


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
    standstill_s: float = 0.0
    """For how long nothing is done when the size changes."""
    left_s: float = 0.0
    """For how long nothing is done from now on, because it has just changed."""


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
    lasting: FloatArray
    """As ``late``, of a size that is there already, and stands still now and then."""
    stood: FloatArray
    """Records that are late because of one standstill."""


class Rollout:
    """Rolls sizes forward through one future; what is the same for all of them is made once."""

    def __init__(self, now: Now, service: Service, future: Future, until_s: float) -> None:
        self._now, self._service, self._until_s = now, service, until_s
        self._future, self._startups_s, self._ratios = future, future.startups_s, future.ratios
        scenarios, bins = future.counts.shape
        past = len(now.arrived)
        self._past = past
        arrived = np.empty((scenarios, 1 + past + bins))
        arrived[:, 0], arrived[:, 1 : past + 1], arrived[:, past + 1 :] = 0.0, now.arrived, future.counts
        self._cumulative = arrived.cumsum(axis=1)
        self._last_counts = future.counts[:, -1].copy()
        ahead, end = min(bins, round(AHEAD_S / BIN_S)) - 1, min(bins - 1, max(0, int(until_s / BIN_S)))
        self._ahead_per_s = np.maximum(1e-9, future.counts[:, ahead] / BIN_S)
        self._end_per_s = np.maximum(1e-9, future.counts[:, end] / BIN_S)
        self._known: dict[float, tuple[Rolled, int]] = {}
        """In what each size that was rolled is which row."""

    def rolled(self, sizes: FloatArray, *, in_loop: bool | None = None) -> Rolled:
        """Go on until the first batch that starts after the end: one long batch must not hide what it makes late."""
        in_loop = has_compiler() if in_loop is None else in_loop
        late, ahead, waited_s = _courses(self._inputs(sizes), in_loop=in_loop)
        found = Rolled(late, ahead, waited_s, late, np.zeros_like(late))
        if self._now.standstill_s > 0:
            found = self._with_standstills(sizes, found, in_loop=in_loop)
        for place, size in enumerate(sizes.tolist()):
            self._known[size] = found, place
        return found

    def _with_standstills(self, sizes: FloatArray, calm: Rolled, *, in_loop: bool) -> Rolled:
        """The same for a job that stands still when its size changes; ``calm`` is without that."""
        given = self._inputs(sizes)._replace(standstill_s=float(self._now.standstill_s))
        late, ahead, waited_s = _courses(given, in_loop=in_loop)
        stood = np.maximum(0.0, late - calm.late)
        stays = (sizes == self._now.ready)[:, None]
        return Rolled(
            late=np.where(stays, calm.late, calm.late + stood),
            ahead=np.where(stays, calm.ahead, ahead),
            latency_s=np.where(stays, calm.latency_s, waited_s),
            lasting=calm.late + min(1.0, self._until_s / STANDS_EVERY_S) * stood,
            stood=stood,
        )

    def of(self, size: float) -> Rolled:
        """One size, as a single row; one that was rolled before is not rolled again."""
        if size not in self._known:
            return self.rolled(np.array([float(size)]))
        found, place = self._known[size]
        row = slice(place, place + 1)
        return Rolled(found.late[row], found.ahead[row], found.latency_s[row], found.lasting[row], found.stood[row])

    def foretold(self, size: float) -> Rolled:
        """One size, rolled for as long as it takes to tell what is ``AHEAD_S`` from now: sizes may be compared by less.

        Where instances start within seconds, the comparison ends before that.
        """
        if self._until_s >= AHEAD_S:
            return self.of(size)
        return Rollout(self._now, self._service, self._future, AHEAD_S).of(size)

    def _inputs(self, sizes: FloatArray) -> Inputs:
        now, service = self._now, self._service
        smaller = sizes <= now.ready
        start_size = np.where(smaller, sizes, max(HARDLY_ANY, float(now.ready)))
        expected_s = np.where((sizes <= now.planned)[:, None], now.pending_s, self._startups_s)
        begins_s = now.batch_started_s if now.batch_records > 0 else max(now.next_trigger_s, now.left_s)
        return Inputs(
            cumulative=self._cumulative,
            last_counts=self._last_counts,
            past=self._past,
            ratios=self._ratios,
            start_power=start_size**service.gamma,
            power=sizes**service.gamma,
            join_s=np.where(smaller[:, None], 0.0, expected_s),
            grows=start_size < sizes,
            standstill_s=0.0,
            left_s=float(now.left_s),
            begins_s=float(begins_s),
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
            least_cycle_s=max(LEAST_CYCLE_S, self._until_s / BATCHES_TO_END),
            ahead_per_s=self._ahead_per_s,
            end_per_s=self._end_per_s,
        )


def _courses(given: Inputs, *, in_loop: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    return (rolled_batches if in_loop else stepped_batches)(given)
