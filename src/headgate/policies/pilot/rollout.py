"""Simulates the next batches of a job for many scenarios of the load and many sizes at once.

A batch takes the waiting records and lasts as long as the batch-time model predicts; the next one starts at its trigger
or as soon as the previous one ends. New instances join when they have started, and the first batch with them is slower;
a job that stops for a change of size processes nothing meanwhile. The result counts records later than the bound.

The inner loop is in ``rollout_loops.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.forecast.base import FloatArray
from headgate.forecast.compiled import has_compiler
from headgate.policies.pilot.calibration import AHEAD_S
from headgate.policies.pilot.load import BIN_S
from headgate.policies.pilot.rollout_loops import (
    BATCHES_TO_END,
    LEAST_CYCLE_S,
    LoopInputs,
    roll_compiled,
    roll_vectorised,
)

HARDLY_ANY = 1e-3
"""Stands for 0 instances, to avoid divisions by 0."""
DOWNTIME_EVERY_S = 1800.0
"""Assumed interval of downtimes for jobs that stop for a change: a size must be able to catch up after them."""


@dataclass(frozen=True, slots=True)
class JobState:
    """The present state of the job; times are in seconds from now, negative ones in the past."""

    arrived: FloatArray
    """Arrivals per bin before now, as far back as they matter, oldest first; the last bin ends now."""
    waiting: float
    """Records that have arrived and are not part of the running batch."""
    batch_records: float
    """Records of the running batch that are not done; 0 if none is running."""
    batch_started_s: float
    ready: int
    planned: int
    pending_s: float
    """When planned instances that are not ready are expected."""
    trigger_s: float
    next_trigger_s: float
    bound_s: float
    downtime_s: float = 0.0
    """Expected downtime of a change of size."""
    remaining_s: float = 0.0
    """Remaining downtime of the previous change."""


@dataclass(frozen=True, slots=True)
class BatchTimeParameters:
    """The fitted model of batch times (``batch_time.py``)."""

    fixed_s: float
    each_s: float
    gamma: float
    warm_factor: float
    divided: float = 0.0


@dataclass(frozen=True, slots=True)
class PossibleFutures:
    """Random inputs of the rollout, one row per scenario."""

    counts: FloatArray
    """Arrivals in each future bin."""
    ratios: FloatArray
    """Actual over predicted time of batches, used in turn."""
    startups_s: FloatArray
    """Startup time of an instance."""


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """Results of a rollout, one row per size, one column per scenario."""

    late: FloatArray
    """Records late within the horizon, plus those late afterwards because of the backlog at its end."""
    backlog: FloatArray
    """Records not processed ``AHEAD_S`` from now."""
    latency_s: FloatArray
    """Age of the oldest record without a result by then."""
    steady_late: FloatArray
    """As ``late`` if the size was already in place, with downtimes at the usual interval."""
    downtime_late: FloatArray
    """Records that are late because of one downtime."""


class Rollout:
    """Simulates sizes from one present state; inputs common to all sizes are computed once."""

    def __init__(
        self, now: JobState, batch_times: BatchTimeParameters, future: PossibleFutures, until_s: float
    ) -> None:
        self._now, self._batch_times, self._until_s = now, batch_times, until_s
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
        self._known: dict[float, tuple[RolloutResult, int]] = {}
        """The result and row of each size simulated so far."""

    def roll(self, sizes: FloatArray, *, in_loop: bool | None = None) -> RolloutResult:
        """Simulate sizes until the first batch that starts after the end, so a long batch cannot hide late records."""
        in_loop = has_compiler() if in_loop is None else in_loop
        roll = roll_compiled if in_loop else roll_vectorised
        late, backlog, waited_s = roll(self._inputs(sizes))
        found = RolloutResult(late, backlog, waited_s, late, np.zeros_like(late))
        if self._now.downtime_s > 0:
            inputs = self._inputs(sizes)._replace(downtime_s=float(self._now.downtime_s))
            found = self._with_downtime(sizes, found, *roll(inputs))
        for place, size in enumerate(sizes.tolist()):
            self._known[size] = found, place
        return found

    def _with_downtime(
        self,
        sizes: FloatArray,
        without_downtime: RolloutResult,
        late: FloatArray,
        backlog: FloatArray,
        waited_s: FloatArray,
    ) -> RolloutResult:
        """Combine the results without and with downtime: only a change of size causes one."""
        downtime_late = np.maximum(0.0, late - without_downtime.late)
        stays = (sizes == self._now.ready)[:, None]
        return RolloutResult(
            late=np.where(stays, without_downtime.late, without_downtime.late + downtime_late),
            backlog=np.where(stays, without_downtime.backlog, backlog),
            latency_s=np.where(stays, without_downtime.latency_s, waited_s),
            steady_late=without_downtime.late + min(1.0, self._until_s / DOWNTIME_EVERY_S) * downtime_late,
            downtime_late=downtime_late,
        )

    def result_for(self, size: float) -> RolloutResult:
        """Return the result of one size as a single row; results are cached."""
        if size not in self._known:
            return self.roll(np.array([float(size)]))
        found, place = self._known[size]
        row = slice(place, place + 1)
        return RolloutResult(
            found.late[row], found.backlog[row], found.latency_s[row], found.steady_late[row], found.downtime_late[row]
        )

    def predicted(self, size: float) -> RolloutResult:
        """Return the result of one size over at least ``AHEAD_S``; sizes may be compared over a shorter horizon."""
        if self._until_s >= AHEAD_S:
            return self.result_for(size)
        return Rollout(self._now, self._batch_times, self._future, AHEAD_S).result_for(size)

    def _inputs(self, sizes: FloatArray) -> LoopInputs:
        now, batch_times = self._now, self._batch_times
        smaller = sizes <= now.ready
        start_size = np.where(smaller, sizes, max(HARDLY_ANY, float(now.ready)))
        expected_s = np.where((sizes <= now.planned)[:, None], now.pending_s, self._startups_s)
        begins_s = now.batch_started_s if now.batch_records > 0 else max(now.next_trigger_s, now.remaining_s)
        return LoopInputs(
            cumulative=self._cumulative,
            last_counts=self._last_counts,
            past=self._past,
            ratios=self._ratios,
            start_power=start_size**batch_times.gamma,
            power=sizes**batch_times.gamma,
            join_s=np.where(smaller[:, None], 0.0, expected_s),
            scales_out=start_size < sizes,
            downtime_s=0.0,
            remaining_s=float(now.remaining_s),
            begins_s=float(begins_s),
            waiting=float(now.waiting),
            batch_records=float(now.batch_records),
            bound_s=float(now.bound_s),
            trigger_s=float(now.trigger_s),
            next_trigger_s=float(now.next_trigger_s),
            fixed_s=float(batch_times.fixed_s),
            divided=float(batch_times.divided),
            each_s=float(batch_times.each_s),
            warm_factor=float(batch_times.warm_factor),
            until_s=float(self._until_s),
            least_cycle_s=max(LEAST_CYCLE_S, self._until_s / BATCHES_TO_END),
            ahead_per_s=self._ahead_per_s,
            end_per_s=self._end_per_s,
        )
