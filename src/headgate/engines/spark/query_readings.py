"""The state of one streaming query now, computed from the reports of Spark and of the sources. No JVM is needed here.

Everything rests on offsets: arrivals are the progress of the source, done records that of the batches. Some sources
report their progress at any moment, the others whenever a batch is planned; in between, arrivals are extrapolated at
the observed rate, and the reading carries the age of the newest report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from headgate.core.errors import EngineError
from headgate.core.objective import excused_wait_s
from headgate.core.types import Batch, Instant, Sample
from headgate.engines.spark.snapshots import (
    Inside,
    Offsets,
    Query,
    QueryProgress,
    SourceReport,
    SparkJob,
    WaitingFiles,
    distance,
)
from headgate.engines.spark.sources import SourceState

ALMOST = 0.98
"""A task that runs is not done, however long it has been running."""


class RunningBatch:
    """Follows the jobs of one query's batches."""

    def __init__(self) -> None:
        self._batch_id: int | None = None
        self._tasks: dict[int, int] = {}
        self._done: dict[int, float] = {}
        """The share of its rows that each job has put out."""
        self._least: dict[int, float] = {}
        """The same of the partition that is furthest behind."""
        self._expected_jobs: int | None = None
        """As many as the batch before had; ``None`` before there was one."""
        self._row_s: float | None = None
        """How long a row took a task, as seen last."""
        self.rows_per_task = 0.0

    def follow(
        self, batch_id: int, jobs: Iterable[SparkJob], records: float = 0.0, rows_at_once: float = math.inf
    ) -> None:
        """Take in the jobs that run now for a batch of so many records."""
        if batch_id != self._batch_id:
            self._expected_jobs = len(self._tasks) or self._expected_jobs
            self._batch_id, self._tasks, self._done, self._least = batch_id, {}, {}, {}
        running = {job.id: job for job in jobs}
        for job_id in self._tasks.keys() - running.keys():
            self._done[job_id] = self._least[job_id] = 1.0  # It ran at the last look and does no more: it is done.
        for job in running.values():
            self._tasks[job.id] = job.tasks
            self._follow_job(job, records, rows_at_once)

    def _follow_job(self, job: SparkJob, records: float, rows_at_once: float) -> None:
        ended, left = job.done_tasks / job.tasks, job.tasks - job.done_tasks
        if job.done_rows is not None and records > 0:
            ended = min(1.0, job.done_rows / records)
        self.rows_per_task = records / job.tasks
        shares: list[float] = []
        if left:
            if job.mean_task_s is not None and ended > 0:
                self._row_s = job.mean_task_s * job.done_tasks / (ended * records) if records else None
            shares = self._shares(job, (1 - ended) * records / left, rows_at_once)
        put_out = ended + sum(shares) * (1 - ended) / max(1, left)
        # A task whose executor died is run again; what it had put out is not taken back.
        self._done[job.id] = max(put_out, self._done.get(job.id, 0.0))
        all_started = job.done_tasks + len(job.running_s) >= job.tasks
        self._least[job.id] = min(shares, default=0.0) if all_started else 0.0

    def _shares(self, job: SparkJob, rows: float, rows_at_once: float) -> list[float]:
        """How much of its rows each running task has put out."""
        if not self._row_s or rows <= rows_at_once:
            return []
        shares = [min(ALMOST, elapsed_s / (self._row_s * rows)) for elapsed_s in job.running_s]
        seen = [math.floor(share * rows / rows_at_once + 1e-9) * rows_at_once / rows for share in shares]
        # Where there are more than were looked at, the others are taken to be like them.
        more = max(0, job.active_tasks - len(seen)) if seen else 0
        return seen + [sum(seen) / len(seen)] * more if more else seen

    @property
    def share_done(self) -> float:
        """The share of the batch's records that is done, from 0 to 1."""
        if not self._tasks:
            return 0.0
        tasks = sum(self._tasks.values())
        done = sum(self._tasks[job_id] * share for job_id, share in self._done.items())
        still_to_come = max(0, (self._expected_jobs or 1) - len(self._tasks)) * tasks / len(self._tasks)
        return min(1.0, done / (tasks + still_to_come))

    @property
    def least_done(self) -> float:
        """The share of its rows that is done of the partition that is furthest behind; 0 while any waits for a task."""
        if self._expected_jobs is None or len(self._tasks) < self._expected_jobs:
            return 0.0
        return min(self._least.values(), default=0.0)


UNEVEN = 1.2
"""Where the largest part of a batch is larger than a mean one by more than this, tasks are not counted as if alike."""


class QueryReadings:
    """Follows one run of one query.

    - ``late_after_s``: the objective's bound on latency; what records wait for a trigger that is at least as long does
      not count (``excused_wait_s``)
    - ``before``: the readings of the run before this one, if the query was started again: records that came while it
      was down have waited since then
    """

    def __init__(
        self,
        query: Query,
        since_s: Instant,
        late_after_s: float | None = None,
        before: QueryReadings | None = None,
    ) -> None:
        self._since_s = since_s
        self.id = query.id
        self.name = query.name
        self.run_id = query.run_id
        self._interval_s = query.trigger_interval_s
        self._late_after_s = late_after_s
        self._excused_s = excused_wait_s(self._interval_s, late_after_s)
        self._sources = [SourceState.of(source) for source in query.sources]
        if before is not None and len(before._sources) == len(self._sources):
            for source, known in zip(self._sources, before._sources, strict=True):
                source.curve, source.worth = known.curve, known.worth
        self._running = RunningBatch()
        self._query = query
        self._last_update_s: Instant | None = None
        self._is_running = False
        self._running_id: int | None = None
        self._started_s: Instant | None = None
        self._arrived = self._let_in = 0.0
        self._files_batch_id: int | None = None
        self._done = 0.0
        self._reported_done = 0.0
        self._late = 0.0
        self._batches: list[Batch] = []
        self._ended_s: Instant | None = None
        self._planned_s: Instant | None = None
        """When the newest batch that has ended was planned."""
        self._planning_s: float | None = None
        """How long it then took to find out how far the sources had come; ``None`` before one was reported."""

    @property
    def is_running(self) -> bool:
        return self._is_running

    @property
    def inside(self) -> Inside:
        """What is worth reading of its tasks, judged by the newest batch."""
        # Where tasks read other rows besides, or these twice, how many they have read tells nothing of a share.
        readers = sum(source.set_up.readers for source in self._sources)
        uneven = readers == 1 and self._sources[0].planned_skew > UNEVEN
        return Inside(self._running.rows_per_task > self._query.rows_at_once, uneven)

    def update(
        self, now: Instant, query: Query, jobs: Sequence[SparkJob] = (), reports: Sequence[SourceReport] = ()
    ) -> list[Batch]:
        """Bring everything up to date, given a report of each source; return the batches that ended meanwhile."""
        self._query = query
        starts = self._parsed(query.start, query.committed)
        for source, start, end in zip(self._sources, starts, self._parsed(query.end), strict=True):
            source.begin(start, end)
        for source, report in zip(self._sources, reports, strict=False):
            source.curve.learn_past(report.past)
        ended = [batch for progress in query.progresses if (batch := self._on_progress(progress, now)) is not None]
        self._is_running = bool(jobs) or self._is_planned(query)
        self._follow_files(query)
        self._follow_running(now, query, jobs)
        self._follow_planned(query, jobs)
        self._update_arrivals(now, query, reports)
        # Those from before anybody looked ran with executors that nobody counted.
        self._batches = [batch for batch in ended if batch.ended_s >= self._since_s]
        self._last_update_s = now
        return self._batches

    def sample(self, now: Instant) -> Sample:
        """The state now."""
        # As long as a query without a trigger interval is idle, it has been found so only moments ago.
        extrapolates = self._is_running or self._interval_s > 0
        positions = [source.reached(now, extrapolates=extrapolates) for source in self._sources]
        reached, age_by_source_s = [offsets for offsets, _ in positions], [age_s for _, age_s in positions]
        self._arrived += sum(source.count(offsets) for source, offsets in zip(self._sources, reached, strict=True))
        waiting = sum(source.backlog(offsets) for source, offsets in zip(self._sources, reached, strict=True))
        uncounted = self._uncounted_waiting()
        unreported = sum(source.unreported for source in self._sources)
        waiting = max(0.0, waiting - unreported) + (uncounted or 0.0)
        # A batch with more jobs than the one before it turns out to be less far than it looked; a counter stays.
        self._reported_done = max(self._reported_done, self._done + unreported)
        late_waiting = sum(
            self._late_records(offsets, offsets.done, offsets.curve.newest, now) for offsets in self._sources
        )
        oldest_s = self._oldest_s(now, waiting)
        return Sample(
            operator=self.name,
            at_s=now,
            age_s=max(age_by_source_s, default=0.0),
            arrived=self._all_arrived(uncounted),
            done=self._reported_done,
            late=None if self._late_after_s is None else self._late + late_waiting,
            batches=tuple(self._batches),
            backlog=None if uncounted is None else waiting,
            latency_s=0.0 if oldest_s is None else max(0.0, now - oldest_s - self._excused_s),
            running_s=None if self._started_s is None else now - self._started_s,
            batch_ended_s=self._ended_s,
            skew=self._skew(reached),
            input_rate_per_s=self._rate_per_s(),
            trigger_interval_s=self._interval_s or None,
        )

    # --------------------------------------------------------------------------- sources whose offsets do not count

    def _uncounted_waiting(self) -> float | None:
        """Records that wait at sources whose offsets do not count; ``None`` where that is not known."""
        total = 0.0
        for source, files in zip(self._sources, self._waiting_files(), strict=True):
            if source.counts or not source.set_up.leaves_behind:
                continue  # Without a limit, a batch that runs is all there is.
            if files is None or source.rows_per_file is None:
                return None
            running = (source.set_up.files_per_batch or 0) if self._is_running else 0
            total += source.rows_per_file * (files.count + running)
        return total

    def _all_arrived(self, uncounted: float | None) -> float:
        """Records that arrived; of sources whose offsets do not count, those let in and those known to wait."""
        self._let_in = max(self._let_in, self._arrived + (uncounted or 0.0))
        return self._let_in

    def _waiting_files(self) -> Sequence[WaitingFiles | None]:
        return self._query.files or [None] * len(self._sources)

    def _follow_files(self, query: Query) -> None:
        """Note since when the files of the running batch have been waiting: since before it was planned."""
        for source, files in zip(self._sources, self._waiting_files(), strict=True):
            if query.batch_id != self._files_batch_id:
                source.running_since_s = source.unread_since_s
            source.unread_since_s = None if files is None else files.oldest_s
            source.unread = 0 if files is None else files.count
        self._files_batch_id = query.batch_id

    def _uncounted_late(self, source: SourceState, rows: float, started_s: Instant, ended_s: Instant) -> float:
        """Of the rows of a batch, those that were too late; they arrived evenly before it was planned."""
        if self._late_after_s is None:
            return 0.0
        first_s = source.running_since_s if source.running_since_s is not None else self._planned_s
        span_s = started_s - (started_s if first_s is None else min(first_s, started_s))
        overdue_s = ended_s - self._late_after_s - self._excused_s - (started_s - span_s)
        if span_s <= 0:
            return rows if overdue_s > 0 else 0.0
        return rows * min(1.0, max(0.0, overdue_s / span_s))

    # -------------------------------------------------------------------------------------------- batches that ended

    def _on_progress(self, progress: QueryProgress, now: Instant) -> Batch | None:
        """Take in one progress event; ``None`` where Spark only says that there was nothing to do."""
        ended_s, took_ms = self._believed(progress.ended_s, now), progress.body["durationMs"]
        started_s = ended_s - took_ms.get("triggerExecution", 0) / 1000
        self._planning_s = took_ms.get("latestOffset", 0) / 1000
        planned_s = started_s + self._planning_s
        reports = progress.body["sources"]
        if len(reports) != len(self._sources):  # Records of an unreported source would wait for ever.
            text = f"query {self.name!r} has {len(self._sources)} sources, and Spark reports of {len(reports)}"
            raise EngineError(f"{text}; its readings cannot be trusted.")
        if "addBatch" not in took_ms:
            for source, report in zip(self._sources, reports, strict=True):
                if (latest := source.set_up.offsets(report.get("latestOffset"))) is not None:
                    source.curve.add(planned_s, latest)
            return None
        records, late, oldest_s = 0.0, 0.0, None
        for source, report in zip(self._sources, reports, strict=True):
            start, end, latest = (
                source.set_up.offsets(report.get(key)) for key in ("startOffset", "endOffset", "latestOffset")
            )
            rows = float(report["numInputRows"])
            if end is None:
                records += rows
                self._arrived += rows  # Without offsets, what arrives is what is let in.
                source.learn_files(rows)
                late += self._uncounted_late(source, rows, started_s, ended_s)
                continue
            first = start if start is not None else source.done or source.set_up.first_offsets(end)
            source.curve.begin(started_s, first)
            source.curve.add(planned_s, latest or end)
            steps = distance(first, end)
            source.worth.learn(rows, steps)
            records += source.worth.value * steps
            late += self._late_records(source, first, end, ended_s)
            if steps and (arrived_s := source.curve.oldest_after(first)) is not None:
                oldest_s = arrived_s if oldest_s is None else min(oldest_s, arrived_s)
            source.done = {**source.done, **end}
        self._done += records
        self._late += late
        self._ended_s = ended_s
        if oldest_s is None and records:
            oldest_s = self._planned_s  # Without offsets: its records came after the batch before it was planned.
        self._planned_s = started_s
        excused_s = None if oldest_s is None else min(oldest_s + self._excused_s, started_s)
        return Batch(
            started_s=started_s,
            ended_s=ended_s,
            records=records,
            oldest_s=excused_s,
            late=None if self._late_after_s is None else late,
            trigger_interval_s=self._interval_s,
            query=self.name,
        )

    def _late_records(self, source: SourceState, first: Offsets, end: Offsets, at_s: Instant) -> float:
        """Of the records from one offset to another, those that had waited too long by a time."""
        if self._late_after_s is None:
            return 0.0
        return source.arrived_before(at_s - self._late_after_s - self._excused_s, first, end)

    # ------------------------------------------------------------------------------------------ the batch that runs

    @staticmethod
    def _is_planned(query: Query) -> bool:
        """Whether a batch was planned that is not done. The batch id tells nothing: it moves on before that."""
        ends = list(query.end)
        return any(end is not None for end in ends) and ends != list(query.committed)

    def _follow_running(self, now: Instant, query: Query, jobs: Sequence[SparkJob]) -> None:
        """Find out since when the running batch has been running."""
        if not self._is_running:
            self._started_s = None
        elif self._started_s is None or query.batch_id != self._running_id:
            known = [job.submitted_s for job in jobs]
            if query.triggered_s is not None:
                known.append(query.triggered_s)
            self._started_s = self._believed(min(known, default=now), now)
            self._running_id = query.batch_id

    def _believed(self, at_s: Instant, now: Instant) -> Instant:
        """When something happened that is first seen now: since the last look. Spark tells wall times, which jump."""
        return min(now, at_s if self._last_update_s is None else max(at_s, self._last_update_s))

    def _follow_planned(self, query: Query, jobs: Sequence[SparkJob]) -> None:
        """Find out how much is done of what was planned and not reported yet."""
        planned = self._parsed(query.end)
        records = sum(
            source.backlog(end) for source, end in zip(self._sources, planned, strict=True) if end is not None
        )
        self._running.follow(query.batch_id, jobs, records, query.rows_at_once)
        # What is committed is done, though Spark reports it only some moments later.
        is_committed = not self._is_planned(query)
        for source, end in zip(self._sources, planned, strict=True):
            source.planned = end
            source.share_done = 1.0 if is_committed else self._running.share_done
            source.least_done = 1.0 if is_committed else self._running.least_done

    # -------------------------------------------------------------------------------------------------- what arrives

    def _update_arrivals(self, now: Instant, query: Query, reports: Sequence[SourceReport]) -> None:
        planned = self._parsed(query.latest, query.end, query.committed)
        for index, source in enumerate(self._sources):
            newest = reports[index].newest if index < len(reports) else None
            # A trigger that found nothing to do is a report too: nothing more had arrived by then. The first one of a
            # query takes long, and at which moment it has read the offsets is not known.
            is_dated = query.triggered_s is not None and (newest is None or self._planning_s is not None)
            if is_dated and (reached := planned[index]) is not None:
                source.curve.add(min(now, (query.triggered_s or now) + (self._planning_s or 0.0)), reached)
            source.curve.begin(now, planned[index] or source.done)
            if newest is not None:
                source.answers = True
                source.curve.add(now, newest)
            last_update_s = now if self._last_update_s is None else self._last_update_s
            source.forget_arrivals(last_update_s - (self._late_after_s or 0.0) - self._excused_s)

    def _rate_per_s(self) -> float | None:
        """Records per second that arrive; ``None`` before that is known of each source."""
        rates = [source.rate_per_s() for source in self._sources]
        return None if None in rates else sum(rate for rate in rates if rate is not None)

    def _oldest_s(self, now: Instant, waiting: float) -> Instant | None:
        """When the oldest record that is not done arrived; ``None`` when none waits."""
        known = [
            arrived_s
            for source in self._sources
            if (arrived_s := source.curve.oldest_after(source.through)) is not None
        ]
        for source in self._sources:
            since_s = source.running_since_s if self._is_running else None
            if (oldest_s := since_s if since_s is not None else source.unread_since_s) is not None:
                known.append(oldest_s)
        if known:
            return min(known)
        if self._is_running and not any(source.curve.newest for source in self._sources):
            return self._started_s if self._planned_s is None else self._planned_s  # As above.
        # Arrivals extrapolated since the newest report come after the observed ones.
        known_s = [source.curve.newest_s for source in self._sources if source.curve.newest_s is not None]
        return max(known_s, default=now) if waiting >= 1 else None

    def _skew(self, reached: Sequence[Offsets]) -> float | None:
        lags = [
            value - source.done.get(name, value)
            for source, position in zip(self._sources, reached, strict=True)
            for name, value in position.items()
        ]
        total = sum(lags)
        return max(lags) * len(lags) / total if len(lags) > 1 and total >= len(lags) else None

    def _parsed(self, *choices: Iterable[str | None]) -> list[Offsets | None]:
        """For each source, the first of several offsets that is there."""
        return [
            next((offsets for text in texts if (offsets := source.set_up.offsets(text)) is not None), None)
            for source, *texts in zip(self._sources, *choices, strict=True)
        ]
