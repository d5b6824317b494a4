"""The latest offsets of sources, where they offer a way to get them.

For Kafka these come from its brokers. Other sources can offer a function of their options::

    offers("my-source", lambda options: newest_offset_as_json_or_none)

For all others, only the offsets that Spark reports when it plans a batch are known.
"""

from __future__ import annotations

import logging
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from py4j.protocol import Py4JError

from headgate.core.types import Instant
from headgate.engines.spark.snapshots import (
    Offsets,
    Partition,
    Query,
    QuerySource,
    RecordsPerOffset,
    SourceReport,
    distance,
    register_counted,
)

ANSWER_WITHIN_S = 0.05
"""How long one look waits for an answer; brokers near by need a few milliseconds."""
FIRST_WITHIN_S = 1.0
"""How long the very first look waits: the client has to be made and connected."""
REQUEST_TIMEOUT_S = 10.0
PAST_WITHIN_S = 0.3
"""How long the first look at a source may take to find out since when its records have been waiting."""
YOUNGEST_S, OLDEST_S = 5.0, 14 * 86_400.0
"""How far back is looked at first, and at most; each step is three times as far."""
HALVINGS = 5
"""How often the span in which the oldest waiting record arrived is halved: its age is right to about two per cent."""
_ENTRY = re.compile(r"([^\s{]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+)")
_OWN_OPTIONS = ("key.deserializer", "value.deserializer", "group.id", "auto.offset.reset", "enable.auto.commit")
"""Options of consumers that an admin client does not know."""


@dataclass(slots=True)
class _Question:
    future: Any
    sent_s: Instant


class KafkaOffsets:
    """The offsets of the topics that one source reads."""

    def __init__(self, jvm: Any, source: QuerySource, now: Callable[[], Instant]) -> None:
        # Looking a class up in the JVM is as dear as calling it, and takes a call for each part of its name.
        kafka = jvm.org.apache.kafka
        self._spec = kafka.clients.admin.OffsetSpec
        self._make_partition = kafka.common.TopicPartition
        self._make_map = jvm.java.util.HashMap
        self._milliseconds = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        self._a_moment = jvm.java.time.Duration.ofMillis(100)
        isolation = source.options.get("kafka.isolation.level", "read_uncommitted").upper()
        self._options = kafka.clients.admin.ListOffsetsOptions(getattr(kafka.common.IsolationLevel, isolation))
        self._now = now
        self._admin = kafka.clients.admin.Admin.create(self._properties(source))
        self._partitions: dict[Partition, Any] = {}
        self._latest: Any = None
        self._question: _Question | None = None
        self._within_s = FIRST_WITHIN_S
        self._failing = False

    def _properties(self, source: QuerySource) -> Any:
        properties = self._make_map()
        for name, value in source.options.items():
            if name.startswith("kafka.") and name.removeprefix("kafka.") not in _OWN_OPTIONS:
                properties.put(name.removeprefix("kafka."), value)
        timeout_ms = str(int(1000 * REQUEST_TIMEOUT_S))
        properties.put("request.timeout.ms", timeout_ms)
        properties.put("default.api.timeout.ms", timeout_ms)
        properties.put("client.id", "headgate-offsets")
        return properties

    def newest(self, partitions: Sequence[Partition]) -> Offsets | None:
        """How far the partitions, named as ``(topic, number)``, have come; ``None`` when no answer is there yet."""
        try:
            if self._question is None:
                if self._partitions.keys() != set(partitions):
                    self._choose(partitions)
                self._question = _Question(self._list_offsets(self._latest), self._now())
            return self._answer(self._question)
        except Py4JError as error:
            self._question = None
            if not self._failing:
                logger.warning("Kafka does not say how far its topics have come: %s", error_line(error))
            self._failing = True
            return None

    def past(self, newest: Offsets, done: Offsets) -> list[tuple[Instant, Offsets]]:
        """How far the partitions had come at moments of the past, oldest first, by the times their records carry.

        It goes back until nothing had come that is not done by now, and finds out when the first of it came.
        """
        points: list[tuple[Instant, Offsets]] = []
        until_s = time.monotonic() + PAST_WITHIN_S

        def waited(age_s: float) -> bool:
            reached = self._reached_by(time.time() - age_s, newest, until_s - time.monotonic())
            points.append((self._now() - age_s, reached))
            return any(offset > done.get(name, 0.0) for name, offset in reached.items())

        try:
            younger_s, older_s = 0.0, YOUNGEST_S
            while waited(older_s) and older_s < OLDEST_S:
                younger_s, older_s = older_s, 3 * older_s
            for _ in range(HALVINGS):
                middle_s = (younger_s + older_s) / 2
                younger_s, older_s = (middle_s, older_s) if waited(middle_s) else (younger_s, middle_s)
        except Py4JError as error:
            logger.info("Kafka does not say when its records came: %s", error_line(error))
        return sorted(points, key=lambda point: point[0])

    def _choose(self, partitions: Sequence[Partition]) -> None:
        self._partitions = {
            (topic, number): self._make_partition(topic, int(number)) for topic, number in sorted(partitions)
        }
        self._latest = self._specified(self._spec.latest())

    def _specified(self, spec: Any) -> Any:
        found = self._make_map()
        for partition in self._partitions.values():
            found.put(partition, spec)
        return found

    def _list_offsets(self, question: Any) -> Any:
        return self._admin.listOffsets(question, self._options).all()

    def _answer(self, question: _Question) -> Offsets | None:
        within_s, self._within_s = self._within_s, ANSWER_WITHIN_S
        try:
            found = self._taken(question.future, within_s)
        except Py4JError as error:
            if "java.util.concurrent.TimeoutException" in error_line(error):
                return None  # It is looked for again at the next look.
            raise
        late = self._now() - question.sent_s > within_s + ANSWER_WITHIN_S
        self._question, self._failing = None, False
        if late:
            return self.newest(tuple(self._partitions))  # That one is old by now; the broker is there again.
        return {name: offset for name, offset in found.items() if offset >= 0}

    def _taken(self, future: Any, within_s: float) -> dict[Partition, float]:
        text = str(future.get(max(1, int(1000 * within_s)), self._milliseconds).toString())
        return {(topic, number): float(offset) for topic, number, offset in _ENTRY.findall(text)}

    def _reached_by(self, wall_s: float, newest: Offsets, within_s: float) -> Offsets:
        """How far the partitions had come by a time of the wall clock: where the first record from then on lies."""
        question = self._specified(self._spec.forTimestamp(int(1000 * wall_s)))
        found = self._taken(self._list_offsets(question), within_s)
        # Where there is no record from then on, all that there is came before.
        return {name: offset if found.get(name, -1.0) < 0 else found[name] for name, offset in newest.items()}

    def close(self) -> None:
        with suppress(Py4JError, OSError):  # A driver that is gone has taken it along.
            self._admin.close(self._a_moment)


def first_offsets(jvm: Any, session: Any, sources: str, index: int) -> str | None:
    """Where the first batch of a query begins, as the source has noted it in the query's checkpoint.

    Spark does not tell it, and asking the source itself is for the query's own thread only.
    """
    try:
        path = jvm.org.apache.hadoop.fs.Path(f"{sources}/{index}/0")
        stream = path.getFileSystem(session.sessionState().newHadoopConf()).open(path)
        try:
            text = str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
    except Py4JError as error:
        logger.info("where the first batch begins is not known: %s", error_line(error))
        return None
    _, _, offsets = text.partition("\n")
    return offsets or None


def error_line(error: Exception) -> str:
    """What Java says of an error, in one line."""
    return str(getattr(error, "java_exception", None) or error).splitlines()[0]


logger = logging.getLogger("headgate")

NewestOffset: TypeAlias = Callable[[Mapping[str, str]], str | None]
"""The newest offset of a source with these options, as the JSON that Spark would report; ``None`` if unknown."""
_OFFERED: dict[str, NewestOffset] = {}


def offers(kind: str, newest: NewestOffset) -> None:
    """Register a function for sources of a kind, as in ``readStream.format(kind)``, whose offsets count records.

    It is called from the thread of the loop and must answer at once.
    """
    _OFFERED[kind] = newest
    register_counted(kind)


class SourceOffsets:
    """Gets the reports of the sources of queries."""

    def __init__(self, jvm: Any, now: Callable[[], Instant]) -> None:
        self._jvm = jvm
        self._now = now
        self._kafka: dict[tuple[str, int], KafkaOffsets | None] = {}
        self._past_known: set[tuple[str, int]] = set()

    def ask(self, query: Query) -> list[SourceReport]:
        """Return a report of each source of a query."""
        return [self._ask(query, index, source) for index, source in enumerate(query.sources)]

    def _ask(self, query: Query, index: int, source: QuerySource) -> SourceReport:
        if source.kind in _OFFERED:
            return SourceReport(source.offsets(_OFFERED[source.kind](source.options)))
        known = source.offsets(query.latest[index] or query.end[index])
        if source.kind != "kafka" or not known:
            return SourceReport()
        key = (query.run_id, index)
        if key not in self._kafka:
            self._kafka[key] = self._opened(source)
        probe = self._kafka[key]
        newest = None if probe is None else probe.newest(tuple(known))
        if probe is None or newest is None or key in self._past_known:
            return SourceReport(newest)
        self._past_known.add(key)
        done = source.offsets(query.start[index] or query.committed[index]) or source.first_offsets(known)
        return SourceReport(newest, tuple(probe.past(newest, done)))

    def _opened(self, source: QuerySource) -> KafkaOffsets | None:
        try:
            return KafkaOffsets(self._jvm, source, self._now)
        except (Py4JError, TypeError) as error:
            logger.warning("the latest offsets of Kafka's topics cannot be read: %s", error_line(error))
            return None

    def forget_all_but(self, run_ids: set[str]) -> None:
        """Let go of the clients of queries that have ended."""
        for key in [key for key in self._kafka if key[0] not in run_ids]:
            probe = self._kafka.pop(key)
            self._past_known.discard(key)
            if probe is not None:
                probe.close()

    def close(self) -> None:
        self.forget_all_but(set())


MOST_NUMBERS = 20_000
"""Points times partitions. Beyond this, every other one of the older half is forgotten."""


class ArrivalCurve:
    """How far each partition had come, over time."""

    def __init__(self) -> None:
        self._times_s: list[Instant] = []
        self._reached: list[dict[Partition, float]] = []

    @property
    def newest_s(self) -> Instant | None:
        """The last moment that anything is known of."""
        return self._times_s[-1] if self._times_s else None

    @property
    def newest(self) -> Mapping[Partition, float]:
        """How far the source had come by then."""
        return self._reached[-1] if self._reached else {}

    def add(self, at_s: Instant, reached: Offsets) -> None:
        """Add the offsets of a moment; one before the newest point raises only that point."""
        known = self.newest
        # Offsets do not go back: what is smaller was read before, from another view of the source.
        merged = {name: max(value, known.get(name, value)) for name, value in reached.items()}
        merged = {**known, **merged}
        if self._times_s and at_s <= self._times_s[-1]:
            self._reached[-1] = merged
            return
        for name in merged.keys() - known.keys():
            # A partition that was not there before begins where it is first seen, as far as is known.
            for past in self._reached:
                past[name] = merged[name]
        self._times_s.append(at_s)
        self._reached.append(merged)
        if len(self._times_s) > max(100, MOST_NUMBERS // max(1, len(merged))):
            half = len(self._times_s) // 2
            self._times_s[:half] = self._times_s[:half:2]
            self._reached[:half] = self._reached[:half:2]

    def begin(self, at_s: Instant, reached: Offsets) -> None:
        """Start the curve: nothing is known of when what lies before this came."""
        if reached and not self._times_s:
            self.add(at_s, reached)

    def learn_past(self, points: Sequence[tuple[Instant, Offsets]]) -> None:
        """Take in what the source knows of its own past, oldest first, if it goes further back than what was seen."""
        if not points or (self._times_s and self._times_s[0] <= points[0][0]):
            return
        self._times_s, self._reached = [], []
        for at_s, reached in points:
            self.add(at_s, reached)

    def forget_before(self, at_s: Instant) -> None:
        """Let go of what is older than this, but for the point that was current then."""
        cut = bisect_right(self._times_s, at_s) - 1
        if cut > 0:
            del self._times_s[:cut], self._reached[:cut]

    def reached_by(self, at_s: Instant) -> Offsets:
        """Return the offsets at a time; none before the first point."""
        index = bisect_right(self._times_s, at_s)
        if index == 0:
            return {}
        if index == len(self._times_s):
            return self._reached[-1]
        before, after = self._reached[index - 1], self._reached[index]
        since_s, until_s = self._times_s[index - 1], self._times_s[index]
        share = (at_s - since_s) / (until_s - since_s)
        return {name: before[name] + share * (value - before[name]) for name, value in after.items()}

    def oldest_after(self, done: Offsets) -> Instant | None:
        """Return when the oldest record after these offsets arrived; ``None`` when there is none.

        Records from before the first point have waited at least since then.
        """
        if not self._waits(len(self._times_s) - 1, done):
            return None
        # Offsets only grow, so once something waits at a point, something does at all later ones.
        first = bisect_left(range(len(self._times_s)), True, key=lambda index: self._waits(index, done))
        if first == 0:
            return self._times_s[0]
        before, after = self._reached[first - 1], self._reached[first]
        since_s, until_s = self._times_s[first - 1], self._times_s[first]
        shares = (
            (done.get(name, before[name]) - before[name]) / (value - before[name])
            for name, value in after.items()
            if value > max(before[name], done.get(name, before[name]))
        )
        return since_s + max(0.0, min(shares)) * (until_s - since_s)

    def rate_per_s(self, over_s: float) -> dict[Partition, float]:
        """Steps per second in each partition, over about the last so many seconds of what is known."""
        if len(self._times_s) < 2:
            return {}
        newest_s = self._times_s[-1]
        # Looks are never quite as far apart as they should be.
        since_s = newest_s - 0.9 * over_s
        first = min(len(self._times_s) - 2, max(0, bisect_right(self._times_s, since_s) - 1))
        span_s = newest_s - self._times_s[first]
        return {name: (value - self._reached[first][name]) / span_s for name, value in self._reached[-1].items()}

    def _waits(self, index: int, done: Offsets) -> bool:
        if index < 0:
            return False
        return any(value > done.get(name, 0.0) for name, value in self._reached[index].items())


RATE_OVER_S = 5.0
"""The rate of arrivals is that of the last so many known seconds, or of the last span between two reports."""
EXTRAPOLATION_OVER_S = 30.0
"""Extrapolation uses a rate over a longer span, which is steadier."""
UNANSWERED_S = 2.0
"""Arrivals are not extrapolated until a source that usually reports has been silent for so long, which happens on a
busy machine: extrapolated arrivals that turn out wrong would stay in the count."""


@dataclass(slots=True)
class SourceState:
    """What is known of a source."""

    set_up: QuerySource
    worth: RecordsPerOffset
    curve: ArrivalCurve = field(default_factory=ArrivalCurve)
    done: dict[Partition, float] = field(default_factory=dict)
    """Where the newest batch that was reported ends."""
    planned: Offsets | None = None
    """Where the batch after it ends, that runs or was not reported yet."""
    share_done: float = 0.0
    """Of the records of that batch."""
    least_done: float = 0.0
    """Of the records of the partition that is furthest behind."""
    counted: Offsets = field(default_factory=dict)
    """Up to here arrivals were counted."""
    answers: bool = False
    """Whether it has ever reported its latest offsets."""
    rows: float = 0.0
    """Rows that were read, where offsets do not count."""
    rows_per_file: float | None = None
    """Of the newest batch that was as large as the limit of files allows."""
    unread: int = 0
    """Files that were found and not given to a batch."""
    unread_since_s: Instant | None = None
    """When the first of them was written."""
    running_since_s: Instant | None = None
    """The same before the running batch took its files."""

    @classmethod
    def of(cls, set_up: QuerySource) -> SourceState:
        return cls(set_up, RecordsPerOffset(set_up.kind))

    def begin(self, start: Offsets | None, end: Offsets | None) -> None:
        """Take in where the first batch begins that anybody looks at, and where it ends."""
        if not self.done:
            self.done = dict(start if start is not None else self.set_up.first_offsets(end))

    @property
    def counts(self) -> bool:
        """Whether its offsets count records, as far as was seen."""
        return bool(self.done or self.curve.newest)

    def learn_files(self, rows: float) -> None:
        """Take in the rows of a batch of files; one that left files behind took as many as it may."""
        self.rows += rows
        if rows > 0 and self.set_up.files_per_batch is not None and (self.unread or self.rows_per_file is None):
            self.rows_per_file = rows / self.set_up.files_per_batch

    # ------------------------------------------------------------------------------------------------- what arrived

    def reached(self, now: Instant, *, extrapolates: bool) -> tuple[Offsets, float]:
        """Return the offsets reached by now, and the age of the report that they rest on.

        ``extrapolates``: assume that records have continued to arrive since, at the observed rate.
        """
        newest_s, newest = self.curve.newest_s, self.curve.newest
        age_s = 0.0 if newest_s is None else max(0.0, now - newest_s)
        if age_s > (UNANSWERED_S if self.answers else 0.0) and extrapolates:
            rates = self.curve.rate_per_s(EXTRAPOLATION_OVER_S)
            newest = {name: value + rates.get(name, 0.0) * age_s for name, value in newest.items()}
        return newest, age_s

    def count(self, reached: Offsets) -> float:
        """Records that came since the last count. It never goes back, though an estimate of what has come may."""
        before = self.counted or self.done
        self.counted = {name: max(value, before.get(name, value)) for name, value in reached.items()}
        return self.worth.value * distance({name: before.get(name, 0.0) for name in reached}, reached)

    def rate_per_s(self) -> float | None:
        """Return the records per second that arrive; ``None`` before the second report."""
        rates = self.curve.rate_per_s(RATE_OVER_S)
        return self.worth.value * sum(rates.values()) if rates else None

    def forget_arrivals(self, before_s: Instant) -> None:
        """Let go of what is older, but for what rates, and the age of records that are not done, are found by."""
        needed_s = [before_s]
        if self.curve.newest_s is not None:
            needed_s.append(self.curve.newest_s - EXTRAPOLATION_OVER_S)
        if (oldest_s := self.curve.oldest_after(self.done)) is not None:
            needed_s.append(oldest_s)
        self.curve.forget_before(min(needed_s))

    # -------------------------------------------------------------------------------------------------- what is done

    def backlog(self, reached: Offsets) -> float:
        """Records from what was reported to be done up to an offset."""
        return self.worth.value * distance(self.done, reached)

    @property
    def planned_skew(self) -> float:
        """Records of the largest partition of the planned batch over those of a mean one that has any."""
        planned = self.planned or {}
        steps = [end - self.done.get(name, 0.0) for name, end in planned.items() if end > self.done.get(name, 0.0)]
        return max(steps) * len(steps) / sum(steps) if steps else 1.0

    @property
    def unreported(self) -> float:
        """Records that are done and were not reported yet."""
        return 0.0 if self.planned is None else self.share_done * self.backlog(self.planned)

    @property
    def through(self) -> Offsets:
        """Up to here everything is done."""
        if self.planned is None or self.least_done <= 0:
            return self.done
        return self.done | {
            name: start + self.least_done * (end - start)
            for name, end in self.planned.items()
            for start in (self.done.get(name, 0.0),)
        }

    def arrived_before(self, at_s: Instant, first: Offsets, end: Offsets) -> float:
        """Of the records from one offset to another, those that had come by a time."""
        arrived = self.curve.reached_by(at_s)
        steps = (
            max(0.0, min(reached, arrived.get(name, 0.0)) - first.get(name, reached)) for name, reached in end.items()
        )
        return self.worth.value * sum(steps)
