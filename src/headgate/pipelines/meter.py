"""Latency from end to end, by the times that travel with records: read where results come out.

A result carries when its record was due (``at_ms``); the topic it comes out at says when it was written. One that
stands for several records says for how many (``records``). Numbered records are counted singly, to find missing and
duplicate ones. Topics are read from their beginning, so a restarted controller arrives at the same counts.
"""

from __future__ import annotations

import json
import math
import threading
from array import array
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from headgate.core.topology import Topology
from headgate.core.types import JSON, Decision, Instant, Observation, Receipt
from headgate.engines.agents import AgentsEngine

if TYPE_CHECKING:
    from confluent_kafka import Consumer

AT_ONCE = 1000
MOMENT_S = 0.2
LATELY_S = 30.0
CLOCKS_DIFFER_S = 5.0
"""A result whose record was due later than this after it was written tells nothing: that is not the time of a clock."""


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """What came out so far."""

    records: float = 0.0
    """Records whose result came out; results of several count for so many."""
    late: float = 0.0
    unmeasured: int = 0
    """Results that do not say when their record was due."""
    distinct: int = 0
    """Different numbers that records had."""
    doubled: int = 0
    """Results that came again."""
    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    lately_p95_s: float | None = None
    """Of the last half minute."""
    not_counted: int = 0
    """Results of records that were due before it counts."""

    @property
    def late_share(self) -> float | None:
        return self.late / self.records if self.records else None

    def to_json(self) -> dict[str, JSON]:
        return asdict(self) | {"late_share": self.late_share}


class Meter:
    """Measures results; ``late_after_s`` is the objective from end to end.

    Records that were due before ``counts_from_ms`` were sent to warm the jobs up, and are not counted.
    """

    def __init__(self, late_after_s: float | None, counts_from_ms: int = 0) -> None:
        self._counts_from_ms = counts_from_ms
        self._not_counted = 0
        self._late_after_s = math.inf if late_after_s is None else late_after_s
        self._lock = threading.Lock()
        self._latencies_s = array("f")
        self._weights = array("f")
        self._records = 0.0
        self._late: dict[str, float] = {}
        self._unmeasured = 0
        self._numbers: set[int] = set()
        self._doubled = 0
        self._lately: deque[tuple[Instant, float]] = deque()

    def take(self, topic: str, value: bytes, written_s: Instant) -> None:
        """Take in a result that was written to a topic at a time of the wall clock."""
        try:
            result = json.loads(value)
            due_ms = float(result["at_ms"])
            weight = float(result.get("records", 1.0))
            if due_ms / 1000 > written_s + CLOCKS_DIFFER_S:
                raise ValueError("due in the future")
        except (ValueError, TypeError, KeyError):
            with self._lock:
                self._unmeasured += 1
            return
        if due_ms < self._counts_from_ms:
            with self._lock:
                self._not_counted += 1
            return
        latency_s = max(0.0, written_s - due_ms / 1000)
        number = result.get("number")
        with self._lock:
            if isinstance(number, int):
                if number in self._numbers:
                    self._doubled += 1
                self._numbers.add(number)
            self._records += weight
            self._latencies_s.append(latency_s)
            self._weights.append(weight)
            if latency_s > self._late_after_s:
                self._late[topic] = self._late.get(topic, 0.0) + weight
            self._lately.append((written_s, latency_s))

    def late(self, topic: str) -> float:
        """Records that came out late at a topic."""
        with self._lock:
            return self._late.get(topic, 0.0)

    def summary(self, now: Instant) -> EndToEnd:
        """What came out so far."""
        with self._lock:
            while self._lately and self._lately[0][0] < now - LATELY_S:
                self._lately.popleft()
            lately = [latency_s for _, latency_s in self._lately]
            p50_s, p95_s, p99_s = _quantiles(self._latencies_s, self._weights, (0.5, 0.95, 0.99))
            return EndToEnd(
                self._records,
                sum(self._late.values()),
                self._unmeasured,
                len(self._numbers),
                self._doubled,
                p50_s,
                p95_s,
                p99_s,
                float(np.quantile(lately, 0.95)) if lately else None,
                self._not_counted,
            )


def _quantiles(values: array[float], weights: array[float], shares: Sequence[float]) -> list[float | None]:
    if not values:
        return [None] * len(shares)
    found, heavy = np.array(values), np.array(weights)
    order = np.argsort(found)
    reached = np.cumsum(heavy[order])
    places = np.searchsorted(reached, np.array(shares) * reached[-1])
    return [float(found[order[min(place, len(order) - 1)]]) for place in places]


class TopicMeter:
    """Reads topics on a thread of its own inside its block, and gives a meter what it finds."""

    def __init__(self, bootstrap: str, topics: Sequence[str], meter: Meter) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._meter = meter
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def _open(self) -> Consumer:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self._bootstrap,
            # Required, though no offsets are stored.
            "group.id": "headgate-meter",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        known = consumer.list_topics(timeout=10.0).topics
        consumer.assign(
            [
                TopicPartition(topic, partition, OFFSET_BEGINNING)
                for topic in self._topics
                for partition in known[topic].partitions
            ]
        )
        return consumer

    def _run(self, consumer: Consumer) -> None:
        while not self._stop.is_set():
            for message in consumer.consume(AT_ONCE, timeout=MOMENT_S):
                value = message.value()
                if message.error() is None and value is not None:
                    _, written_ms = message.timestamp()
                    self._meter.take(str(message.topic()), value, written_ms / 1000)
        consumer.close()

    def __enter__(self) -> TopicMeter:
        consumer = self._open()
        self._thread = threading.Thread(target=self._run, args=[consumer], name="headgate-meter", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()


class MeteredEngine:
    """``ends`` are the operators at which results come out, with the topics that they write.

    Their ``late`` counts records that came out later than the objective from end to end allows. Of other operators
    nobody can say what is late, as long as they have no objective of their own.
    """

    def __init__(self, engine: AgentsEngine, meter: Meter, ends: Mapping[str, str]) -> None:
        self._engine = engine
        self._meter = meter
        self._ends = ends

    def topology(self) -> Topology:
        return self._engine.topology()

    @property
    def extra_metrics(self) -> Collection[str]:
        return self._engine.extra_metrics

    def subscribe(self, keys: Collection[str]) -> None:
        self._engine.subscribe(keys)

    def observe(self) -> Observation:
        seen = self._engine.observe()
        measured = {
            name: replace(seen.samples[name], late=self._meter.late(topic))
            for name, topic in self._ends.items()
            if name in seen.samples
        }
        return replace(seen, samples={**seen.samples, **measured})

    def apply(self, decision: Decision) -> Receipt:
        return self._engine.apply(decision)

    def close(self) -> None:
        self._engine.close()
