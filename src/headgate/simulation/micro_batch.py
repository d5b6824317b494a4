"""The micro-batch model: a Structured Streaming job with a processing-time trigger.

- A batch starts at a multiple of the trigger interval, or as soon as the one before it is done if that took longer. It
  takes what has arrived by then, up to a limit. When nothing has arrived no batch runs, and the idle trigger is a
  reading too: nothing waits, nothing is late.
- It takes a fixed overhead, then its records are served by ``min(ready · cores, partitions)`` slots. When the size
  changes during a batch, the rest of its records is divided anew, as Spark gives pending tasks to new executors.
- The first batches after an instance joined are slower (cold), and every change of size may cost a pause.
- Where ``work`` is given, records need not all be the same: it says how many records' worth of service arrives.
- As in Spark Streaming (DStreams), every trigger interval may make a batch of its own, however many wait already.
- Noise multiplies a batch's service time by a lognormal factor of mean 1, drawn from a seed as the batch starts.

Records are a fluid, as in the queue model: a batch may have a fraction of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample
from headgate.simulation.contract import READING_DIGITS, require_service_rate
from headgate.simulation.search import arrival_time_s
from headgate.workloads.contract import Workload

OPERATOR = "job"
_LEAST_RECORDS = 1e-6
"""Fewer records than this are rounding, not arrivals."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """How the batches of a job behave, beside the service rate of an instance."""

    trigger_interval_s: float = 5.0
    overhead_s: float = 0.25
    """What a batch takes however few its records are."""
    max_records_per_batch: float | None = None
    """How many records are admitted to one batch; without it, all that wait."""
    cores: int = 1
    """Slots of an instance; together they serve at the instance's service rate."""
    partitions: int | None = None
    """Slots that a batch can use at once; without it, all there are."""
    cold_factor: float = 1.0
    """By how much the service time of a cold batch is longer."""
    cold_batches: int = 1
    """How many batches are cold after an instance joined."""
    rescale_pause_s: float = 0.0
    """How long the job stands still when instances join or leave."""
    noise: float = 0.0
    """The standard deviation of the logarithm of a batch's service time."""
    work_factor: tuple[tuple[float, float], ...] = ()
    """By how much records are heavier over time, as pairs of seconds and factor with straight lines between them; two
    pairs at one time are a jump. Without it, always by 1."""
    batch_per_interval: bool = False
    """Whether each trigger interval makes its own batch, which then waits for its turn (DStreams). Otherwise a batch
    takes all that waits when it starts (Structured Streaming)."""

    def __post_init__(self) -> None:
        allowed = (
            ("trigger_interval_s", 0 < self.trigger_interval_s < math.inf, "finite and above 0"),
            ("overhead_s", 0 <= self.overhead_s < math.inf, "finite and not negative"),
            ("max_records_per_batch", self.max_records_per_batch is None or self.max_records_per_batch > 0, "above 0"),
            ("cores", self.cores >= 1, "at least 1"),
            ("partitions", self.partitions is None or self.partitions >= 1, "at least 1"),
            ("cold_factor", 1 <= self.cold_factor < math.inf, "finite and at least 1"),
            ("cold_batches", self.cold_batches >= 0, "not negative"),
            ("rescale_pause_s", 0 <= self.rescale_pause_s < math.inf, "finite and not negative"),
            ("noise", 0 <= self.noise < math.inf, "finite and not negative"),
            ("work_factor", _is_course(self.work_factor), "pairs of times that do not fall and finite factors above 0"),
            (
                "batch_per_interval",
                not (self.batch_per_interval and self.max_records_per_batch),
                "false where max_records_per_batch is set",
            ),
        )
        for name, is_allowed, rule in allowed:
            if not is_allowed:
                raise InputError(f"{name} {getattr(self, name)} is not allowed; it must be {rule}.")


def _is_course(pairs: tuple[tuple[float, float], ...]) -> bool:
    times_s = [at_s for at_s, _ in pairs]
    return times_s == sorted(times_s) and all(0 < factor < math.inf for _, factor in pairs)


@dataclass(slots=True)
class _Batch:
    """A batch; from ``since_s`` on it needs ``fixed_s`` seconds and then ``work`` records' worth of service."""

    start_s: Instant
    records: float
    oldest_s: Instant
    """When the oldest of its records arrived."""
    since_s: Instant
    fixed_s: float
    work: float
    warming: bool
    end_s: Instant = math.inf


class MicroBatchJob:
    """A kernel with one operator called ``job``.

    A reading is made at the end of each batch. A batch that overruns its trigger interval and is already later than
    the last one was is reported before it ends: its latency so far, which can only get longer, and no processed rate.

    >>> from headgate.workloads import parse_workload
    >>> job = MicroBatchJob(parse_workload("constant:10"), 50.0, MicroBatch(trigger_interval_s=10.0, overhead_s=1.0))
    >>> job.advance(20.0)
    >>> sample = job.samples()["job"]
    >>> sample.at_s, sample.latency_s, sample.backlog
    (13.0, 3.0, 30.0)
    """

    def __init__(
        self,
        workload: Workload,
        service_rate_per_s: float,
        model: MicroBatch | None = None,
        *,
        ready: int = 1,
        seed: int = 0,
        work: Workload | None = None,
    ) -> None:
        """``work`` is what arrives in records' worth of service; without it, every record is worth one."""
        require_service_rate(OPERATOR, service_rate_per_s)
        self._workload = workload
        self._work = work
        self._model = model or MicroBatch()
        self._core_rate_per_s = service_rate_per_s / self._model.cores
        self._topology = Topology.single(OPERATOR)
        self._random = np.random.default_rng(seed)
        self._now_s = 0.0
        self._ready = ready
        self._admitted = 0.0
        self._processed = 0.0
        self._oldest_s = 0.0
        self._taken_s = 0.0
        self._next_start_s = 0.0
        self._cold_batches = 0
        self._batch: _Batch | None = None
        self._last: _Batch | None = None
        self._sample: Sample | None = None

    @property
    def now_s(self) -> Instant:
        return self._now_s

    @property
    def topology(self) -> Topology:
        return self._topology

    def ready(self, operator: str) -> int:
        return self._ready

    def arrived(self) -> float:
        """Records that have come since the start."""
        return self._workload.arrivals(0.0, self._now_s)

    def processed(self) -> float:
        """Records of the batches that are done."""
        return self._processed

    def advance(self, to_s: Instant) -> None:
        # What starts at to_s is left for later: instances that join or leave at that moment count for it.
        while True:
            if self._batch is not None and self._batch.end_s <= to_s:
                self._finish(self._batch)
            elif self._batch is None and self._next_start_s < to_s:
                self._start(self._next_start_s)
            else:
                break
        self._now_s = to_s

    def _start(self, at_s: Instant) -> None:
        self._next_start_s = self._next_boundary_s(at_s)
        until_s = at_s
        if self._model.batch_per_interval:
            until_s = self._taken_s + self._model.trigger_interval_s
            if until_s > at_s:
                return
            self._taken_s = until_s
            # The next batch may be waiting already.
            self._next_start_s = max(at_s, until_s + self._model.trigger_interval_s)
        waiting = self._workload.arrivals(0.0, until_s) - self._admitted
        if waiting < _LEAST_RECORDS:
            self._last = _Batch(at_s, 0.0, at_s, at_s, 0.0, 0.0, warming=False, end_s=at_s)
            return
        limit = self._model.max_records_per_batch
        records = waiting if limit is None else min(waiting, limit)
        oldest_s = arrival_time_s(self._workload, self._oldest_s, 0.0, until_s)
        self._oldest_s = until_s if records == waiting else arrival_time_s(self._workload, oldest_s, records, until_s)
        self._admitted += records
        is_cold = self._cold_batches > 0
        self._cold_batches = max(0, self._cold_batches - 1)
        service = records if self._work is None else self._work.arrivals(oldest_s, self._oldest_s)
        work = service * (self._model.cold_factor if is_cold else 1.0) * self._noise() * self._work_factor(at_s)
        self._batch = _Batch(at_s, records, oldest_s, at_s, self._model.overhead_s, work, is_cold)
        self._plan_end(self._batch)

    def _next_boundary_s(self, at_s: Instant) -> Instant:
        interval_s = self._model.trigger_interval_s
        boundary_s = (math.floor(at_s / interval_s) + 1) * interval_s
        # Rounding may take a start at a boundary for one just before it.
        return boundary_s if boundary_s > at_s else boundary_s + interval_s

    def _noise(self) -> float:
        sigma = self._model.noise
        return float(self._random.lognormal(-sigma * sigma / 2, sigma)) if sigma else 1.0

    def _work_factor(self, at_s: Instant) -> float:
        if not self._model.work_factor:
            return 1.0
        times_s, factors = zip(*self._model.work_factor, strict=True)
        return float(np.interp(at_s, times_s, factors))

    def _plan_end(self, batch: _Batch) -> None:
        slots = self._ready * self._model.cores
        if self._model.partitions is not None:
            slots = min(slots, self._model.partitions)
        service_s = batch.work / (slots * self._core_rate_per_s) if slots else math.inf
        batch.end_s = batch.since_s + batch.fixed_s + service_s

    def _finish(self, batch: _Batch) -> None:
        self._processed += batch.records
        self._last, self._batch = batch, None
        self._next_start_s = max(self._next_start_s, batch.end_s)

    def resize(self, operator: str, ready: int) -> None:
        if ready == self._ready:
            return
        if ready > self._ready:
            self._cold_batches = self._model.cold_batches
        if self._batch is None:
            self._next_start_s = max(self._next_start_s, self._now_s + self._model.rescale_pause_s)
            self._ready = ready
            return
        batch = self._batch
        elapsed_s = self._now_s - batch.since_s
        served_s = max(0.0, elapsed_s - batch.fixed_s)
        left_s = batch.end_s - batch.since_s - batch.fixed_s
        if left_s > 0 and math.isfinite(left_s):
            batch.work *= 1 - served_s / left_s
        batch.fixed_s = max(0.0, batch.fixed_s - elapsed_s) + self._model.rescale_pause_s
        batch.since_s = self._now_s
        batch.warming = True
        self._ready = ready
        self._plan_end(batch)

    def samples(self) -> Mapping[str, Sample]:
        known_s = self._sample.at_s if self._sample is not None else -math.inf
        batch, running = self._last, self._batch
        if running is not None and self._is_overdue(running):
            self._sample = self._reading(running, self._now_s, known_s)
        elif batch is not None and batch.end_s > known_s:
            self._sample = self._reading(batch, batch.end_s, known_s)
        else:
            return {}
        return {OPERATOR: self._sample}

    def _is_overdue(self, running: _Batch) -> bool:
        age_s = self._now_s - running.start_s
        if age_s <= self._model.trigger_interval_s:
            return False
        last = self._last
        told_s = 0.0 if last is None else self._delay_s(last) + last.end_s - last.start_s
        return self._delay_s(running) + age_s > told_s

    def _delay_s(self, batch: _Batch) -> float:
        return max(0.0, batch.start_s - batch.oldest_s - self._model.trigger_interval_s)

    def _reading(self, batch: _Batch, at_s: Instant, known_s: Instant) -> Sample:
        """The reading of a batch that has ended by now, or has run until now."""
        is_done = batch.end_s <= at_s
        time_s = at_s - batch.start_s
        delay_s = self._delay_s(batch)
        backlog = self._workload.arrivals(0.0, at_s) - self._processed
        since_s = max(0.0, known_s)
        elapsed_s = at_s - since_s
        arrived = self._workload.arrivals(since_s, at_s)
        cycle_s = max(time_s, self._next_boundary_s(batch.start_s) - batch.start_s)
        return Sample(
            operator=OPERATOR,
            at_s=at_s,
            input_rate_per_s=round(arrived / elapsed_s, READING_DIGITS)
            if elapsed_s > 0
            else self._workload.rate_per_s(at_s),
            processed_rate_per_s=round(batch.records / time_s, READING_DIGITS) if is_done and time_s > 0 else None,
            backlog=max(0.0, round(backlog, READING_DIGITS)),
            latency_s=delay_s + time_s,
            processing_time_s=time_s,
            scheduling_delay_s=delay_s,
            trigger_interval_s=self._model.trigger_interval_s,
            utilization=time_s / cycle_s,
            warming=batch.warming,
        )
