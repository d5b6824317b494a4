"""A micro-batch job in virtual time; ``micro_batch.py`` describes the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.core.course import Course
from headgate.core.objective import excused_wait_s
from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample
from headgate.simulation.batch_course import MOST_BATCHES, BatchLog, LoggedBatch
from headgate.simulation.batch_readings import LEAST_RECORDS, BatchProgress, BatchReadings, ReadingMode
from headgate.simulation.batch_work import BatchWork, make_work
from headgate.simulation.contract import Warmed, require_service_rate
from headgate.simulation.micro_batch import MicroBatch
from headgate.simulation.stream import arrival_time_s
from headgate.workloads.contract import Workload

OPERATOR = "job"
_LEAST_WORK = 0.1
"""A correction by ``off_s`` never reduces the work of a batch below this share of it."""


@dataclass(slots=True)
class _Running:
    """The batch that is running."""

    start_s: Instant
    records: float
    oldest_s: Instant
    """When the oldest of its records arrived."""
    newest_s: Instant
    """The last of its records arrived before this."""
    reported_oldest_s: Instant
    """When the oldest arrived, as far as readings can show it."""
    arrived: float
    """Records that had arrived between the start of the run and the start of the batch."""
    work_s: float
    """Its work, in slot-seconds."""
    work: BatchWork
    warming: bool

    def logged(self, until_s: Instant) -> LoggedBatch:
        knots = self.work.knots
        if self.work.end_s > until_s:
            share = self.work.share(until_s)
            knots = [*(knot for knot in knots if knot[0] <= until_s), (until_s, share)]
        return LoggedBatch(
            self.start_s, self.work.end_s, self.records, self.oldest_s, self.newest_s, self.arrived, knots
        )


class MicroBatchJob:
    """A kernel with one operator called ``job``.

    >>> from headgate.workloads import parse_workload
    >>> model = MicroBatch(trigger_interval_s=10.0, overhead_s=1.0)
    >>> job = MicroBatchJob(parse_workload("constant:10"), 50.0, model, readings="perfect")
    >>> job.advance(20.0)
    >>> sample = job.samples()["job"]
    >>> sample.backlog, sample.latency_s, sample.batch_ended_s, sample.batches[-1].latency_s
    (100.0, 10.0, 13.0, 13.0)
    """

    def __init__(  # noqa: PLR0913 - one keyword per property of a job
        self,
        workload: Workload,
        service_rate_per_s: float,
        model: MicroBatch | None = None,
        *,
        ready: int = 1,
        seed: int = 0,
        work: Workload | None = None,
        readings: str = ReadingMode.SPARK,
        late_after_s: float | None = None,
        most_batches: int = MOST_BATCHES,
    ) -> None:
        """Create the job.

        - ``work``: the workload in units of average records; without it, every record takes the same work
        - ``late_after_s``: records whose results come later than this count as late
        - ``most_batches``: beyond this many, older batches are settled (``settled.py``)
        """
        require_service_rate(OPERATOR, service_rate_per_s)
        self._workload = workload
        self._work = work
        self._model = model or MicroBatch()
        self._core_rate_per_s = service_rate_per_s / self._model.cores
        self._topology = Topology.single(OPERATOR)
        self._random = np.random.default_rng(seed)
        kind, interval_s = ReadingMode.of(readings), self._model.trigger_interval_s
        self._readings = BatchReadings(OPERATOR, kind, workload, interval_s, late_after_s)
        excused_s = excused_wait_s(interval_s, late_after_s)
        self._log = BatchLog(workload, excused_s, late_after_s, most=most_batches)
        self._now_s = 0.0
        self._ready = ready
        self._admitted = 0.0
        self._processed = 0.0
        self._oldest_s = 0.0
        self._taken_s = 0.0
        self._next_start_s = 0.0
        self._cold_batches = 0
        self._cold_slots = 0
        """Slots that have had no task yet."""
        self._off_taken = 0
        """How many entries of ``MicroBatch.off_s`` have been applied."""
        self._off_left_s = 0.0
        self._held_up_s = 0.0
        self._batch: _Running | None = None
        self._busy_s = 0.0
        self._available_s = 0.0
        self._started_available_s = 0.0
        """Slot-seconds available up to the start of the newest batch."""
        self._resized_s = 0.0
        self._still_until_s = 0.0
        self._joining: list[Warmed] = []
        self._warmed: list[Warmed] = []
        self._read: Sample | None = None
        self.on_batch: Callable[[Instant, float], None] = lambda ended_s, records: None
        """Called for each batch that ends, with the time and its number of records."""

    @property
    def now_s(self) -> Instant:
        return self._now_s

    @property
    def topology(self) -> Topology:
        return self._topology

    def ready(self, operator: str) -> int:
        return self._ready

    def arrived(self) -> float:
        """Return the records that have arrived since the start."""
        return self._workload.arrivals(0.0, self._now_s)

    def processed(self) -> float:
        """Return the records of finished batches."""
        return self._processed

    def done(self) -> float:
        """Return the records of finished batches plus the finished share of the running batch."""
        batch = self._batch
        return self._processed + (0.0 if batch is None else batch.records * batch.work.share(self._now_s))

    def advance(self, to_s: Instant) -> None:
        # A batch that starts at to_s is left to the next call: instances that join or leave at to_s count for it.
        while True:
            if self._batch is not None and self._batch.work.end_s <= to_s:
                self._finish(self._batch)
            elif self._batch is None and self._next_start_s < to_s:
                self._start(self._next_start_s)
            else:
                break
        self._now_s = to_s

    def advance_through(self, times_s: Sequence[Instant]) -> None:
        """Advance to each of some rising times in turn; batches do not depend on the steps."""
        if times_s:
            self.advance(times_s[-1])

    def _start(self, at_s: Instant) -> None:
        """Start a batch with the waiting records, if there are any."""
        model, workload = self._model, self._workload
        self._next_start_s = self._next_boundary_s(at_s)
        until_s = at_s
        if model.batch_per_interval:
            until_s = self._taken_s + model.trigger_interval_s
            if until_s > at_s:
                return
            self._taken_s = until_s
            # The next batch may be waiting already.
            self._next_start_s = max(at_s, until_s + model.trigger_interval_s)
        arrived = workload.arrivals(0.0, until_s)
        self._readings.planned(until_s, arrived)
        waiting = arrived - self._admitted
        if waiting < LEAST_RECORDS:
            return
        limit = model.max_records_per_batch
        records = waiting if limit is None else min(waiting, limit)
        oldest_s = arrival_time_s(workload, self._oldest_s, 0.0, until_s)
        self._oldest_s = until_s if records == waiting else arrival_time_s(workload, oldest_s, records, until_s)
        reported_oldest_s = self._readings.excused_until_s(self._readings.oldest_s(self._admitted, oldest_s), at_s)
        self._admitted += records
        is_cold = self._cold_batches > 0
        self._cold_batches = max(0, self._cold_batches - 1)
        self._started_available_s = self._available_by(at_s)
        work_s = self._service(at_s, records, oldest_s, is_cold=is_cold)
        work_s /= self._core_rate_per_s * model.efficiency(self._ready)
        largest_s = work_s * model.largest_share
        if largest_s and model.partitions is not None:
            largest_s += model.task_overhead_s
        work_s += (model.partitions or 0) * model.task_overhead_s
        self._batch = _Running(
            at_s,
            records,
            oldest_s,
            self._oldest_s,
            reported_oldest_s,
            arrived if until_s == at_s else workload.arrivals(0.0, at_s),
            work_s,
            self._work_of(at_s, work_s, largest_s),
            warming=is_cold,
        )
        # A delay of the batch keeps its slots busy.
        self._batch.work_s += self._held_up_s * self._ready * model.cores
        if self._joining:
            work = self._batch.work
            self._joining = [
                _with_first_task(instance, work.first_done_s(instance.joined_s)) for instance in self._joining
            ]

    def _work_of(self, at_s: Instant, work_s: float, largest_s: float) -> BatchWork:
        cold, self._cold_slots = self._cold_slots, 0
        slots = self._ready * self._model.cores
        if not self._model.off_s:
            return make_work(self._model, at_s, work_s, slots, cold=cold, largest_s=largest_s)
        off_s, self._off_left_s = self._off_left_s + self._off_by_s(at_s), 0.0
        self._held_up_s = max(0.0, off_s)
        work = make_work(self._model, at_s, work_s, slots, cold=cold, held_up_s=self._held_up_s, largest_s=largest_s)
        if off_s >= 0 or not math.isfinite(work.end_s):
            return work
        # No batch can take less than no time: the rest of the correction is left to later batches.
        taken_s = work.end_s - at_s - self._model.overhead_s
        made_up_s = max(off_s, (_LEAST_WORK - 1) * taken_s)
        self._off_left_s = off_s - made_up_s
        share_left = 1 + made_up_s / taken_s
        return make_work(self._model, at_s, work_s * share_left, slots, cold=cold, largest_s=largest_s * share_left)

    def _off_by_s(self, at_s: Instant) -> float:
        """Return the corrections that fell due since the previous batch started."""
        off, first = self._model.off_s, self._off_taken
        while self._off_taken < len(off) and off[self._off_taken][0] <= at_s:
            self._off_taken += 1
        return sum(seconds for _, seconds in off[first : self._off_taken])

    def _service(self, at_s: Instant, records: float, oldest_s: Instant, *, is_cold: bool) -> float:
        """Return the work of a batch, in units of average records."""
        service = records if self._work is None else self._work.arrivals(oldest_s, self._oldest_s)
        return service * (self._model.cold_factor if is_cold else 1.0) * self._noise() * self._work_factor(at_s)

    def _next_boundary_s(self, at_s: Instant) -> Instant:
        interval_s = self._model.trigger_interval_s
        boundary_s = (math.floor(at_s / interval_s) + 1) * interval_s
        # Rounding may place a start at a boundary just before it.
        return boundary_s if boundary_s > at_s else boundary_s + interval_s

    def _noise(self) -> float:
        sigma = self._model.noise
        return float(self._random.lognormal(-sigma * sigma / 2, sigma)) if sigma else 1.0

    def _work_factor(self, at_s: Instant) -> float:
        if not self._model.work_factor:
            return 1.0
        times_s, factors = zip(*self._model.work_factor, strict=True)
        return float(np.interp(at_s, times_s, factors))

    def _finish(self, batch: _Running) -> None:
        end_s = batch.work.end_s
        batch.work.finish()
        self._log.add(batch.logged(end_s))
        self._readings.ended(
            batch.start_s,
            end_s,
            batch.records,
            batch.reported_oldest_s,
            self._processed,
            instances=self._ready,
            warming=batch.warming,
        )
        self._cold_slots += batch.work.still_cold
        self._processed += batch.records
        self.on_batch(end_s, batch.records)
        self._busy_s += batch.work_s
        self._batch = None
        self._next_start_s = max(self._next_start_s, end_s)
        if self._joining and not batch.warming:
            # From the start of this batch, joining instances no longer slowed anything down.
            self._warmed += [instance._replace(warm_s=batch.start_s) for instance in self._joining]
            self._joining = []

    def _available_by(self, at_s: Instant) -> float:
        return self._available_s + self._ready * self._model.cores * (at_s - self._resized_s)

    def resize(self, operator: str, ready: int, *, lost: bool = False) -> Sequence[Instant]:
        if ready == self._ready:
            return ()
        now, cores, pause_s, batch = self._now_s, self._model.cores, self._model.rescale_pause_s, self._batch
        joining = ready - self._ready
        self._available_s, self._resized_s = self._available_by(now), now
        self._ready = ready
        first_task_s = None
        if batch is None:
            self._next_start_s = max(self._next_start_s, now + pause_s)
            drained_s: Sequence[Instant] = [now] * (-joining * cores)
            self._cold_slots += max(0, joining) * cores
        else:
            drained_s = batch.work.resize(now, ready * cores, pause_s, lost=lost)
            batch.warming = True
            first_task_s = batch.work.first_done_s(now)
        if joining > 0:
            self._cold_batches = self._model.cold_batches
            self._joining += [Warmed(now, first_task_s)] * joining
        # An instance can leave once the last of its slots is free.
        return [max(drained_s[first : first + cores]) for first in range(0, len(drained_s), cores)]

    def stand_still(self, until_s: Instant) -> None:
        """Do no work until a time, as during a restart; a running batch continues afterwards."""
        more_s = until_s - max(self._now_s, self._still_until_s)
        if more_s <= 0:
            return
        self._still_until_s = until_s
        if self._batch is None:
            self._next_start_s = max(self._next_start_s, until_s)
        else:
            self._batch.work.resize(self._now_s, self._ready * self._model.cores, more_s)
            self._batch.warming = True

    def warmed(self, operator: str) -> Sequence[Warmed]:
        warmed, self._warmed = self._warmed, []
        return warmed

    def samples(self) -> Mapping[str, Sample]:
        if self._read is None or self._now_s > self._read.at_s:
            self._read = self._readings.read(self._now_s, self._progress(), self._useful_instances)
        return {OPERATOR: self._read}

    @property
    def _useful_instances(self) -> int | None:
        partitions = self._model.partitions
        return None if partitions is None else math.ceil(partitions / self._model.cores)

    def _progress(self) -> BatchProgress:
        model, batch = self._model, self._batch
        if model.batch_per_interval:
            # Every interval is reported when it ends, even while a batch of an earlier interval is running.
            reported_s = math.floor(self._now_s / model.trigger_interval_s) * model.trigger_interval_s
            self._readings.planned(reported_s, self._workload.arrivals(0.0, reported_s))
        return BatchProgress(
            processed=self._processed,
            admitted=self._admitted,
            done=self.done(),
            waiting_from_s=self._oldest_s,
            busy_s=self._busy_s,
            # No slot was busy between the end of one batch and the start of the next.
            available_s=self._available_by(self._now_s) if batch is None else self._started_available_s,
            started_s=None if batch is None else batch.start_s,
            oldest_s=self._oldest_s if batch is None else batch.reported_oldest_s,
        )

    @property
    def retained(self) -> int:
        """How many numbers are stored for what is not settled."""
        return self._log.retained

    def course(self, operator: str = OPERATOR) -> Course:
        """Return what truly happened until now."""
        now, batch = self._now_s, self._batch
        if batch is not None:
            return self._log.course(now, batch.oldest_s, batch.logged(now))
        waits = self.arrived() - self._admitted >= LEAST_RECORDS
        oldest_s = arrival_time_s(self._workload, self._oldest_s, 0.0, now) if waits else None
        return self._log.course(now, oldest_s, None)


def _with_first_task(instance: Warmed, first_task_s: Instant | None) -> Warmed:
    return instance if instance.first_task_s is not None else instance._replace(first_task_s=first_task_s)
