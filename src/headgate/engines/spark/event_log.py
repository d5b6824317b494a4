"""What an application's event log says of one of its streaming queries, as the readings of a live run.

The log is read twice, and never held: first to learn which queries there are, how often they are triggered and what
their offsets count, which progress events do not say; then event by event through the same readings that a live job
has, so that a figure means the same whether it comes from a log or from a journal. What a log cannot say is how far the
sources had come between two triggers: in between, arrivals are extrapolated.

A file with one ``StreamingQueryProgress`` as JSON to a line is read likewise; it says nothing of executors.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

import numpy as np

from headgate.core.errors import InputError
from headgate.core.types import Instances, Instant, Observation, Startup
from headgate.core.units import format_duration
from headgate.engines.spark.engine import ApplicationReadings
from headgate.engines.spark.event_log_files import EventLog, event_lines
from headgate.engines.spark.executors import ExecutorHistory
from headgate.engines.spark.snapshots import (
    Executor,
    Query,
    QueryProgress,
    QuerySource,
    distance,
    partitions_of,
    register_counted,
)

OPERATOR = "job"
COUNTED = "counted by its log"
"""The kind of a source of which the log shows that its offsets count records."""
MOST_OBSERVATIONS = 40_000
"""Of more, every other one is merged into the next, as often as necessary."""
_JUMP_S = 1.0
"""A trigger that began before the one before it by more than this shows that the clock was set back."""
_WAITED_S = 0.05
_LEAST_TRIGGERS = 5
_MOST_OFF = 0.1
_ON_TIME_S = 0.2
_USUAL_TRIGGERS_S = (
    *(3600.0 * hours for hours in (24, 12, 6, 4, 3, 2, 1)),
    *(60.0 * minutes for minutes in (30, 20, 15, 10, 5, 4, 3, 2)),
    *(90.0, 60.0, 45.0, 40.0, 30.0, 20.0, 15.0, 12.0, 10.0, 8.0, 6.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.0),
    *(0.5, 0.4, 0.25, 0.2, 0.1),
)
_EVENT = b'{"Event":"'
_STARTED, _PROGRESS, _ENDED = "QueryStartedEvent", "QueryProgressEvent", "QueryTerminatedEvent"
_SURVEYED = frozenset({_STARTED, _PROGRESS, "SparkListenerLogStart", "SparkListenerApplicationStart"})
_READ = _SURVEYED | {
    _ENDED,
    "SparkListenerApplicationEnd",
    "SparkListenerEnvironmentUpdate",
    "SparkListenerExecutorAdded",
    "SparkListenerExecutorRemoved",
    "SparkListenerJobStart",
}
_TASK_ENDED = b"SparkListenerTaskEnd"
_TASK = re.compile(rb'"Launch Time":(\d+),"Executor ID":"([^"]*)".{0,400}?"Finish Time":(\d+)')
_LOST = re.compile(r"exited|lost|heartbeat|oom|killed by|preempt|failed|137|143", re.IGNORECASE)
_SENT_AWAY = re.compile(r"decommission|idle|shutdown|stopped", re.IGNORECASE)
_RATE = re.compile(r"(rowsPerSecond|rampUpTime)\w*=(\d+)")
_SETTINGS = ("spark.master", "spark.dynamicAllocation.enabled", "spark.task.cpus", "spark.executor.instances")


class NoStreamingQueryError(InputError):
    """A log has nothing that could be assessed."""


@dataclass(frozen=True)
class LoggedJob:
    """One streaming query of an application, from its log."""

    name: str
    """Of the application."""
    application: str
    spark: str
    """The version of Spark; empty where the log does not say."""
    query: str
    others: Mapping[str, int]
    """Other queries of the application, which are left out, with their batches."""
    settings: Mapping[str, str]
    observations: Sequence[Observation]
    batches: int
    counts: bool
    """Whether offsets say how many records have arrived; otherwise a record arrives when it is let into a batch."""
    startups_from: str
    """Where the start-up times come from: ``requests``, ``application``, or empty where they are not known."""
    left_out: Sequence[str]
    """What could not be used, a sentence each."""


@dataclass(slots=True)
class _Source:
    """What the first pass learns of a source."""

    description: str
    agree: int = 0
    differ: int = 0
    """Batches in which the rows were as many as the steps of the offset, and those in which they were not."""

    def take_in(self, report: Mapping[str, Any]) -> None:
        start, end = (partitions_of(_text(report.get(key))) for key in ("startOffset", "endOffset"))
        rows = float(report.get("numInputRows") or 0.0)
        if start is None or end is None or not rows:
            return
        steps = sum(value - start.get(name, 0.0) for name, value in end.items())
        if steps == rows:
            self.agree += 1
        else:
            self.differ += 1

    def set_up(self) -> QuerySource:
        description = self.description.lower()
        if description.startswith("kafka"):
            return QuerySource("kafka")
        if description.startswith("ratestream"):
            return QuerySource("rate", dict(_RATE.findall(self.description)))
        if self.agree >= _LEAST_TRIGGERS and self.agree > 9 * self.differ:
            return QuerySource(COUNTED)
        return QuerySource(self.description.partition("[")[0] or "unknown")


@dataclass(slots=True)
class _Survey:
    """What the first pass learns of a query, by its id."""

    name: str
    starts_s: array[float] = field(default_factory=lambda: array("d"))
    ends_s: array[float] = field(default_factory=lambda: array("d"))
    records: float = 0.0
    batches: int = 0
    sources: list[_Source] = field(default_factory=list)

    def take_in(self, progress: Mapping[str, Any]) -> None:
        took, reports = progress["durationMs"], progress["sources"]
        start_s = _wall_s(progress["timestamp"])
        self.starts_s.append(start_s)
        self.ends_s.append(start_s + float(took.get("triggerExecution", 0)) / 1000)
        if not self.sources:
            self.sources = [_Source(str(report.get("description", ""))) for report in reports]
        if "addBatch" in took:
            self.batches += 1
            self.records += sum(float(report.get("numInputRows") or 0.0) for report in reports)
        for source, report in zip(self.sources, reports, strict=False):
            source.take_in(report)


def read_event_log(
    log: EventLog,
    *,
    late_after_s: float | None = None,
    query: str | None = None,
    instances: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> LoggedJob:
    """Read the log of an application; one without a streaming query raises a ``NoStreamingQueryError``.

    Args:
        log: Its files.
        late_after_s: A record whose result comes later than this counts as late.
        query: The name of the query, where there are several; otherwise the one with the most records.
        instances: How many executors there were, where the log does not say.
        progress: Called with the share of the lines that were read.
    """
    surveys = _survey(log)
    progress(0.3)
    if not any(survey.batches for survey in surveys.values()):
        raise NoStreamingQueryError(
            f"{log.path} has no progress of a streaming query with a batch; applications with DStreams, or with "
            "batch jobs only, do not log any."
        )
    by_name: Counter[str] = Counter()
    for survey in surveys.values():
        by_name[survey.name] += max(1, round(survey.records))
    if query is not None and query not in by_name:
        raise InputError(f"{log.path} has no query {query!r}; it has {', '.join(sorted(by_name))}.")
    chosen = by_name.most_common(1)[0][0] if query is None else query
    reader = _LogReader({id_: survey for id_, survey in surveys.items() if survey.name == chosen}, late_after_s)
    if instances is not None:
        reader.assume_instances(instances)
    for name, event in _events(log, reader.faults, _READ, reader.on_task):
        reader.take_in(name, event)
    progress(1.0)
    others = Counter[str]()
    for survey in surveys.values():
        if survey.name != chosen:
            others[survey.name] += survey.batches
    return reader.job(log, chosen, others)


# --------------------------------------------------------------------------------------------------------- the events


class _Faults:
    """What could not be used, a sentence for each kind with how often it occurred."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, text: str) -> None:
        self._counts[text] += 1

    def sentences(self) -> list[str]:
        return [text if count == 1 else f"{text} ({count} times)" for text, count in self._counts.items()]


def _events(
    log: EventLog,
    faults: _Faults,
    wanted: frozenset[str],
    on_task: Callable[[bytes], None] | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the wanted events with their short names; the many ends of tasks are not parsed."""
    for line in event_lines(log, faults.add):
        if line.startswith(_EVENT):
            name = line[len(_EVENT) : line.find(b'"', len(_EVENT))]
            if name == _TASK_ENDED and on_task is not None:
                on_task(line)
                continue
            short = name.rpartition(b"$")[2].rpartition(b".")[2].decode("utf-8", "replace")
            if short not in wanted:
                continue
        elif b'"durationMs"' in line:
            short = _PROGRESS
        elif not line.strip():
            continue
        else:
            faults.add("a line is no event")
            continue
        try:
            event = json.loads(line)
        except ValueError:
            faults.add("an event is cut off or damaged")
            continue
        yield short, event if "Event" in event else {"progress": event}


def _survey(log: EventLog) -> dict[str, _Survey]:
    found: dict[str, _Survey] = {}
    for name, event in _events(log, _Faults(), _SURVEYED):
        try:
            if name == _PROGRESS:
                progress = event["progress"]
                known = found.setdefault(progress["id"], _Survey(_name_of(progress)))
                known.take_in(progress)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            continue  # The second pass counts them.
    return found


def _name_of(query: Mapping[str, Any]) -> str:
    return str(query.get("name") or str(query["id"])[:8])


def _wall_s(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).astimezone(UTC).timestamp()


def _text(offset: object) -> str | None:
    """Return an offset as text; the log has it so, ``lastProgress`` has it parsed."""
    return offset if offset is None or isinstance(offset, str) else json.dumps(offset)


def infer_trigger_interval_s(starts_s: Sequence[float], ends_s: Sequence[float]) -> float:
    """Return the longest interval whose multiples triggers began at; 0 where batches follow each other at once.

    Spark begins the triggers of an interval at its multiples since 1970.

    >>> starts_s = [30.003, 60.001, 95.0, 120.004, 150.002, 180.001, 240.003]
    >>> infer_trigger_interval_s(starts_s, [start_s + 5 for start_s in starts_s])
    30.0
    >>> infer_trigger_interval_s(starts_s, [*starts_s[1:], 250.0])
    0.0
    """
    waited = [
        (after_s, after_s - before_s)
        for before_s, ended_s, after_s in zip(starts_s, ends_s, starts_s[1:], strict=False)
        if after_s - ended_s > _WAITED_S
    ]
    if len(waited) < _LEAST_TRIGGERS:
        return 0.0
    gaps_s = sorted(gap_s for _, gap_s in waited)
    own_s = round(median(gaps_s[: max(1, len(gaps_s) // 3)]), 1)
    for interval_s in sorted({own_s, *_USUAL_TRIGGERS_S}, reverse=True):
        if not 0 < interval_s <= gaps_s[-1] + _ON_TIME_S:
            continue
        late_s = min(_ON_TIME_S, _MOST_OFF * interval_s)
        off = sum((start_s + 0.005) % interval_s > late_s for start_s, _ in waited)
        if off <= _MOST_OFF * len(waited):
            return interval_s
    return 0.0


# ---------------------------------------------------------------------------------------------------- the second pass


@dataclass(slots=True)
class _LoggedExecutor:
    id: str
    cores: int
    added_ms: float
    requested_ms: float | None
    removed_ms: float | None = None
    first_task_ms: float | None = None
    tasks: int = 0
    busy_ms: int = 0


class _LogReader:
    """Takes the events of one application into the readings of one of its queries."""

    def __init__(self, surveys: Mapping[str, _Survey], late_after_s: float | None) -> None:
        self.faults = _Faults()
        self._surveys = surveys
        self._set_up = {
            id_: (infer_trigger_interval_s(survey.starts_s, survey.ends_s), tuple(s.set_up() for s in survey.sources))
            for id_, survey in surveys.items()
        }
        self._readings = ApplicationReadings(late_after_s)
        self._history = ExecutorHistory()
        self._executors: dict[str, _LoggedExecutor] = {}
        self._past: list[_LoggedExecutor] = []
        self._queries: dict[str, Query] = {}
        self._last_start_s: dict[str, float] = {}
        self._observations: list[Observation] = []
        self._now: Instant = 0.0
        self._shift_s = 0.0
        self._about = {"name": "", "application": "", "spark": ""}
        self._began_ms: float | None = None
        self._is_over = False
        self._settings: dict[str, str] = {}
        self._batches = 0
        self._is_assumed = False
        self._done = 0.0
        self._arrivals: list[tuple[Instant, float]] = []
        """How many records had arrived at each trigger."""

    def assume_instances(self, count: int) -> None:
        """Take so many executors to have been there all the time, unless the log says which there were."""
        for number in range(1, count + 1):
            self._executors[str(number)] = _LoggedExecutor(str(number), 1, 0.0, None)
        self._is_assumed = True

    def on_task(self, line: bytes) -> None:
        """Take in the end of a task, which most of a log consists of: by three of its numbers."""
        if (found := _TASK.search(line)) is None:
            return
        executor = self._executors.get(found[2].decode("utf-8", "replace"))
        if executor is None:
            return
        executor.busy_ms += max(0, int(found[3]) - int(found[1]))
        executor.tasks += 1
        if executor.first_task_ms is None:
            executor.first_task_ms = float(found[3])

    def take_in(self, name: str, event: Mapping[str, Any]) -> None:
        try:
            self._take_in(name, event)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self.faults.add(f"a {name} lacks what it should have")

    def _take_in(self, name: str, event: Mapping[str, Any]) -> None:
        match name:
            case "QueryProgressEvent":
                self._on_progress(event["progress"])
            case "QueryTerminatedEvent":
                self._queries.pop(event["runId"], None)
            case "SparkListenerExecutorAdded":
                self._on_added(event)
            case "SparkListenerExecutorRemoved":
                self._on_removed(event)
            case "SparkListenerJobStart":
                self._on_job(event)
            case "SparkListenerApplicationStart":
                self._began_ms = float(event["Timestamp"])
                self._about |= {"name": str(event["App Name"]), "application": str(event.get("App ID") or "")}
            case "SparkListenerLogStart":
                self._about["spark"] = str(event["Spark Version"])
            case "SparkListenerEnvironmentUpdate":
                properties = event["Spark Properties"]
                self._settings = {key: str(properties[key]) for key in _SETTINGS if key in properties}
            case "SparkListenerApplicationEnd":
                self._is_over = True
            case _:
                pass  # The name of a query's start is also in its progress.

    # ---------------------------------------------------------------------------------------------------- executors

    def _on_added(self, event: Mapping[str, Any]) -> None:
        info, added_ms = event["Executor Info"], float(event["Timestamp"])
        requested_ms = info.get("Request Time")
        executor = _LoggedExecutor(
            str(event["Executor ID"]),
            int(info["Total Cores"]),
            added_ms,
            None if requested_ms is None else min(added_ms, float(requested_ms)),
        )
        if executor.id == "driver" and not self._settings.get("spark.master", "local").startswith("local"):
            return
        if self._is_assumed:
            self._executors.clear()
            self._is_assumed = False
        self._executors[executor.id] = executor
        self._see(self._at(added_ms / 1000))

    def _on_removed(self, event: Mapping[str, Any]) -> None:
        executor = self._executors.pop(str(event["Executor ID"]), None)
        if executor is None:
            return
        reason = str(event.get("Removed Reason", ""))
        if _LOST.search(reason) and not _SENT_AWAY.search(reason):
            self.faults.add("an executor was lost; the batches that ran then are taken as delayed, not as usual")
        executor.removed_ms = float(event["Timestamp"])
        self._past.append(executor)
        self._see(self._at(executor.removed_ms / 1000), executor)

    def _at(self, wall_s: float) -> Instant:
        """Return the time of an event: times never go back."""
        self._now = max(self._now, wall_s + self._shift_s)
        return self._now

    def _see(self, now: Instant, *gone: _LoggedExecutor) -> None:
        known = [
            Executor(
                executor.id, executor.removed_ms is None, executor.cores, 0, executor.tasks, 0, executor.busy_ms,
                int(executor.added_ms), None if executor.removed_ms is None else int(executor.removed_ms),
            )
            for executor in (*self._executors.values(), *gone)
        ]  # fmt: skip
        self._history.see(now, self._shift_s, known)
        if not self._observations:
            return
        if self._observations[-1].at_s == now:
            last = self._observations.pop()
            self._observations.append(replace(last, instances={OPERATOR: self._instances()}))
        else:
            self._observations.append(Observation(now, {}, {OPERATOR: self._instances()}))

    def _instances(self) -> Instances:
        ready = len(self._executors)
        return Instances(ready, ready, ready)

    # ------------------------------------------------------------------------------------------------------ queries

    def _on_job(self, event: Mapping[str, Any]) -> None:
        properties = event.get("Properties") or {}
        if properties.get("sql.streaming.queryId") in self._surveys:
            tasks = max((int(stage["Number of Tasks"]) for stage in event["Stage Infos"]), default=0)
            self._readings.widen(self._now, tasks)

    def _on_progress(self, body: Mapping[str, Any]) -> None:
        if body["id"] not in self._set_up:
            return
        run_id, took_ms = str(body["runId"]), body["durationMs"]
        interval_s, sources = self._set_up[body["id"]]
        reports = body["sources"]
        if len(reports) != len(sources):
            self.faults.add("a batch has other sources than the first one")
            return
        start_s, took_s = _wall_s(body["timestamp"]), float(took_ms.get("triggerExecution", 0)) / 1000
        before_s = self._last_start_s.get(run_id)
        if before_s is not None and start_s + self._shift_s < before_s - _JUMP_S:
            back_s = self._now - (start_s + self._shift_s)
            self.faults.add(f"the clock went back by {format_duration(round(back_s, 1))}; later times are moved")
            self._shift_s += back_s
        start_s += self._shift_s
        self._last_start_s[run_id] = start_s
        offsets = [_with_start(report) for report in reports]
        begins, ends, latest = (tuple(row[place] for row in offsets) for place in range(3))
        is_batch = "addBatch" in took_ms
        progress = QueryProgress(start_s + took_s, _plain(body, offsets))
        known = Query(
            id=str(body["id"]),
            run_id=run_id,
            name=_name_of(body),
            trigger_interval_s=interval_s,
            sources=sources,
            batch_id=int(body["batchId"]),
            triggered_s=start_s,
            start=begins,
            end=ends,
            latest=latest,
            committed=begins if run_id not in self._queries else ends,
        )
        if run_id not in self._queries:
            # Its arrivals are followed from the beginning of its first trigger on.
            self._update(max(self._now, start_s), replace(known, end=begins, latest=begins))
        known = replace(known, committed=ends)
        self._queries[run_id] = replace(known, progresses=())
        self._note_arrivals(start_s + float(took_ms.get("latestOffset", 0)) / 1000, sources, progress.body["sources"])
        self._now = max(self._now, progress.ended_s)
        self._see(self._now)
        self._update(self._now, replace(known, progresses=(progress,)))
        self._batches += is_batch
        self._observe()

    def _note_arrivals(
        self, planned_s: Instant, sources: Sequence[QuerySource], reports: Sequence[Mapping[str, Any]]
    ) -> None:
        """Note how many had arrived at a trigger: what was done, and what waited then."""
        waited = 0.0
        for source, report in zip(sources, reports, strict=True):
            start, end, latest = (source.offsets(report[key]) for key in ("startOffset", "endOffset", "latestOffset"))
            rows = report["numInputRows"]
            if start is None or end is None:
                waited += rows
                continue
            steps = distance(start, end)
            waited += distance(start, latest or end) * (min(1.0, rows / steps) if rows and steps else 1.0)
        self._arrivals.append((planned_s, self._done + waited))

    def _update(self, now: Instant, query: Query) -> None:
        others = [other for run_id, other in self._queries.items() if run_id != query.run_id]
        self._readings.update(now, [*others, query], [], {}, self._history, max(1, len(self._executors)))

    def _observe(self) -> None:
        cores = max((executor.cores for executor in self._executors.values()), default=1)
        slots = max(1, cores // max(1, int(float(self._settings.get("spark.task.cpus", "1")))))
        sample = self._readings.sample(OPERATOR, self._now, slots)
        samples = {} if sample is None else {OPERATOR: sample}
        self._done = self._done if sample is None or sample.done is None else sample.done
        if self._observations and self._observations[-1].at_s == self._now:
            last = self._observations.pop()
            before = last.samples.get(OPERATOR)
            if sample is not None and before is not None:
                samples = {OPERATOR: replace(sample, batches=(*before.batches, *sample.batches))}
        self._observations.append(Observation(self._now, samples, {OPERATOR: self._instances()}))
        if len(self._observations) > MOST_OBSERVATIONS:
            self._observations = _thinned(self._observations)

    # ------------------------------------------------------------------------------------------------------- the end

    def job(self, log: EventLog, query: str, others: Mapping[str, int]) -> LoggedJob:
        """Return what was read."""
        if not self._is_over:
            self.faults.add("the log has no end of the application")
        if not self._executors and not self._past:
            raise InputError(f"{log.path} says nothing of executors; say --instances with how many there were.")
        executors = sorted((*self._past, *self._executors.values()), key=lambda executor: executor.added_ms)
        arrived = _with_arrivals(self._observations, self._arrivals)
        observations, source = _with_startups(arrived, executors, self._began_ms)
        return LoggedJob(
            **self._about,
            query=query,
            others=others,
            settings=self._settings,
            observations=observations,
            batches=self._batches,
            counts=all(
                source.offsets({"0": 1}) is not None for _, sources in self._set_up.values() for source in sources
            ),
            startups_from=source,
            left_out=self.faults.sentences(),
        )


def _with_start(report: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Return the start, the end and the latest offset of a source in a batch.

    Of a query's very first batch Spark logs no start: its rows came from all partitions, in proportion.
    """
    start, end, latest = (_text(report.get(key)) for key in ("startOffset", "endOffset", "latestOffset"))
    rows = float(report.get("numInputRows") or 0.0)
    if start is None and rows > 0 and (reached := partitions_of(end)) is not None and sum(reached.values()) > 0:
        share = max(0.0, 1 - rows / sum(reached.values()))
        start = json.dumps(_nested({path: share * value for path, value in reached.items()}))
    return start, end, latest


def _nested(offsets: Mapping[tuple[str, ...], float]) -> object:
    """Return offsets by path as JSON of the shape that they came in.

    >>> _nested({("events", "0"): 5.0, ("events", "1"): 7.0}), _nested({(): 3.0})
    ({'events': {'0': 5, '1': 7}}, 3)
    """
    if () in offsets:
        return int(offsets[()])
    found: dict[str, Any] = {}
    for (*path, last), value in offsets.items():
        inner = found
        for key in path:
            inner = inner.setdefault(key, {})
        inner[last] = int(value)
    return found


def _plain(body: Mapping[str, Any], offsets: Sequence[tuple[str | None, str | None, str | None]]) -> dict[str, Any]:
    """Return what the readings need of a progress event."""
    return {
        "timestamp": body["timestamp"],
        "durationMs": {key: float(value) for key, value in body["durationMs"].items()},
        "sources": [
            {
                "startOffset": start,
                "endOffset": end,
                "latestOffset": latest,
                "numInputRows": max(0.0, float(report.get("numInputRows") or 0.0)),
            }
            for report, (start, end, latest) in zip(body["sources"], offsets, strict=True)
        ],
    }


def _thinned(observations: Sequence[Observation]) -> list[Observation]:
    """Return every other observation, with the batches of those that are left out."""
    found: list[Observation] = []
    for before, after in zip(observations[::2], observations[1::2], strict=False):
        first, second = before.samples.get(OPERATOR), after.samples.get(OPERATOR)
        if first is not None and second is not None:
            merged = {OPERATOR: replace(second, batches=(*first.batches, *second.batches))}
        else:
            merged = dict(after.samples or before.samples)
        found.append(replace(after, samples=merged))
    return [*found, observations[-1]] if len(observations) % 2 else found


def _with_arrivals(observations: Sequence[Observation], points: Sequence[tuple[Instant, float]]) -> list[Observation]:
    """Return observations with the arrivals that later triggers showed, in place of extrapolated ones."""
    times_s, arrived = np.array(points, dtype=np.float64).reshape(-1, 2).T
    arrived = np.maximum.accumulate(arrived)
    found = []
    for seen in observations:
        sample = seen.samples.get(OPERATOR)
        if sample is not None and sample.done is not None:
            total = max(sample.done, float(np.interp(seen.at_s, times_s, arrived)))
            waiting = None if sample.backlog is None else total - sample.done
            found.append(replace(seen, samples={OPERATOR: replace(sample, arrived=total, backlog=waiting)}))
        else:
            found.append(seen)
    return found


def _with_startups(
    observations: Sequence[Observation], executors: Sequence[_LoggedExecutor], began_ms: float | None
) -> tuple[list[Observation], str]:
    """Return observations with requested sizes and start-ups, and where the start-up times come from.

    Since 3.4 a log says when an executor was requested. Of older ones the first executor is known to have come so long
    after the application began.
    """
    first_s = next((seen.at_s for seen in observations if seen.samples), 0.0)
    took_ms = [executor.added_ms - executor.requested_ms for executor in executors if executor.requested_ms is not None]
    source = "requests" if took_ms else ""
    if not took_ms and began_ms is not None and executors and executors[0].id != "driver":
        took_ms, source = [max(0.0, executors[0].added_ms - began_ms)], "application"
    usual_ms = median(took_ms) if took_ms else 0.0
    requested: list[tuple[float, float, _LoggedExecutor]] = []
    for executor in executors:
        is_first = executor.added_ms / 1000 <= first_s
        requested_ms = executor.added_ms - usual_ms if executor.requested_ms is None else executor.requested_ms
        requested.append((float("-inf") if is_first else requested_ms / 1000, requested_ms / 1000, executor))
    later = [(requested_s, executor) for since_s, requested_s, executor in requested if since_s > float("-inf")]
    known = later or [(requested_s, executor) for _, requested_s, executor in requested if source]
    turns = sorted(
        [(since_s, 1) for since_s, _, _ in requested]
        + [(executor.removed_ms / 1000, -1) for executor in executors if executor.removed_ms is not None]
    )
    found = _with_planned(observations, turns) if executors else list(observations)
    if found and source:
        _attach(found, known)
    return found, source


def _with_planned(observations: Sequence[Observation], turns: Sequence[tuple[float, int]]) -> list[Observation]:
    """Return observations with planned sizes, and with one more wherever executors were requested."""
    found: list[Observation] = []
    planned, place = 0, 0
    for seen in observations:
        while place < len(turns) and turns[place][0] <= seen.at_s:
            at_s, by = turns[place]
            place += 1
            planned += by
            if by > 0 and found and at_s > found[-1].at_s and (place == len(turns) or turns[place][0] > at_s):
                ready = found[-1].instances[OPERATOR].ready
                found.append(
                    Observation(at_s, {}, {OPERATOR: Instances(max(ready, planned), max(ready, planned), ready)})
                )
        ready = seen.instances[OPERATOR].ready
        size = max(ready, planned)
        found.append(replace(seen, instances={OPERATOR: Instances(size, size, ready)}))
    return found


def _attach(observations: list[Observation], known: Sequence[tuple[float, _LoggedExecutor]]) -> None:
    """Report start-ups in the observations at which they were complete."""
    times_s = [seen.at_s for seen in observations]
    by_place: dict[int, list[Startup]] = {}
    for requested_s, executor in known:
        done_ms = executor.added_ms if executor.first_task_ms is None else executor.first_task_ms
        place = min(len(times_s) - 1, bisect_left(times_s, done_ms / 1000))
        task_s = None if executor.first_task_ms is None else executor.first_task_ms / 1000 - requested_s
        startup = Startup(executor.id, requested_s, max(0.0, executor.added_ms / 1000 - requested_s), task_s)
        by_place.setdefault(place, []).append(startup)
    for place, startups in by_place.items():
        observations[place] = replace(observations[place], startups={OPERATOR: tuple(startups)})


register_counted(COUNTED)
