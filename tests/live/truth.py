"""A stranger's Kafka job, and an outside observer that knows the truth about it.

Both topics are stamped by the broker when a record is appended. So after a run it is known for any moment what had
arrived by then, what was in the sink, and since when the oldest record that was not in the sink had been waiting,
whatever Spark or Headgate said meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # its stubs do not name it
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.core.types import Observation, Sample
from headgate.engines.spark.sources import RATE_OVER_S

TIMEOUT_S = 30.0
PARTITIONS = 8
TOLERANCE = 0.1
REPORT_DELAY_S = 0.4
"""A task is known to have ended some tenths of a second after its last record is in the sink: it tells the driver, and
that its status store. So the truth of any moment of this span before a reading will do."""
FEW_RECORDS, SHORT_S, LOW_PER_S = 10.0, 0.3, 5.0
"""What is allowed besides the tolerance: records that are on their way while it is looked, the trigger's delay, and a
few records in or out at the ends of the span over which a rate is taken."""


def create_topics(bootstrap: str, *names: str) -> None:
    """Topics whose records carry the time at which the broker has got them."""
    config = {"message.timestamp.type": "LogAppendTime"}
    topics = [NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, config=config) for name in names]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(topics).values():
        made.result(TIMEOUT_S)


def start_job(
    spark: SparkSession, bootstrap: str, topic: str, sink: str, checkpoint: Path, cost_s: float
) -> StreamingQuery:
    """Reads a topic, waits for something else with each record, and writes another topic."""

    def work(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            time.sleep(cost_s * len(frame))
            yield frame

    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
        .mapInPandas(work, "value string")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="2 seconds")
        .start()
    )


class Load:
    """Produces numbered records at a rate that is a function of the time since its start, on a thread."""

    def __init__(self, bootstrap: str, topic: str, rate_per_s: Callable[[float], float], seconds: float) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic = topic
        self._rate_per_s = rate_per_s
        self._seconds = seconds
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Load:
        self._thread.start()
        return self

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        began_s = seen_s = time.monotonic()
        due, number = 0.0, 0
        while seen_s - began_s < self._seconds:
            time.sleep(0.02)
            now = time.monotonic()
            due += (now - seen_s) * self._rate_per_s(seen_s - began_s)
            seen_s = now
            while number < due:
                self._producer.produce(self._topic, str(number).encode(), partition=number % PARTITIONS)
                number += 1
            self._producer.poll(0)
        assert self._producer.flush(TIMEOUT_S) == 0


@dataclass(frozen=True)
class Truth:
    """When each record arrived and when it was in the sink (infinity: never), ordered by number."""

    arrived_s: NDArray[np.float64]
    done_s: NDArray[np.float64]
    doubled: int
    """Records that are in the sink more than once."""

    @classmethod
    def of(cls, bootstrap: str, topic: str, sink: str) -> Truth:
        arrived, done = _contents(bootstrap, topic), _contents(bootstrap, sink)
        arrived_s = np.full(len(arrived), np.nan)
        for number, at_s in arrived:
            arrived_s[number] = at_s
        done_s = np.full(len(arrived), np.inf)
        for number, at_s in done:
            done_s[number] = min(done_s[number], at_s)
        return cls(arrived_s, done_s, len(done) - len({number for number, _ in done}))

    @property
    def missing(self) -> int:
        return int(np.isinf(self.done_s).sum())

    def backlog(self, at_s: float) -> int:
        return int(((self.arrived_s <= at_s) & (self.done_s > at_s)).sum())

    def latency_s(self, at_s: float) -> float:
        waiting = self.arrived_s[(self.arrived_s <= at_s) & (self.done_s > at_s)]
        return at_s - float(waiting.min()) if len(waiting) else 0.0

    def rate_per_s(self, at_s: float, over_s: float) -> float:
        return float(((self.arrived_s <= at_s) & (self.arrived_s > at_s - over_s)).sum()) / over_s


def _contents(bootstrap: str, topic: str) -> list[tuple[int, float]]:
    """All records of a topic: their number, and when the broker got them."""
    partitions = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": "truth"})) as consumer:
        ends = [consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S) for partition in partitions]
        total = sum(end - start for start, end in ends)
        consumer.assign(partitions)
        messages = consumer.consume(total, timeout=TIMEOUT_S) if total else []
    assert [message.error() for message in messages] == [None] * total
    return [(int(message.value() or b""), message.timestamp()[1] / 1000) for message in messages]


@dataclass(frozen=True)
class Comparison:
    """One reading of lag, rate and latency next to the truth."""

    sample: Sample
    ready: int
    backlog: int
    rate_per_s: float
    latency_s: float
    wrong: tuple[str, ...]
    """Which of the three lie further from the truth than is allowed."""

    def __str__(self) -> str:
        sample = self.sample
        return (
            f"batch {sample.running_s or 0.0:5.1f} s, {self.ready} executors, "
            f"backlog {sample.backlog:6.0f} ({self.backlog:6d}), "
            f"rate {sample.input_rate_per_s or 0.0:5.1f} ({self.rate_per_s:5.1f}) /s, "
            f"latency {sample.latency_s:5.2f} ({self.latency_s:5.2f}) s {' '.join(self.wrong)}"
        )


def compare(observation: Observation, truth: Truth) -> Comparison | None:
    """A reading against the truth of its moment; ``None`` without a reading."""
    sample = observation.samples.get("job")
    if sample is None:
        return None
    moments_s = [sample.at_s - back_s for back_s in np.linspace(0.0, REPORT_DELAY_S, 9)]
    rate_per_s = partial(truth.rate_per_s, over_s=RATE_OVER_S)
    reported: dict[str, tuple[float | None, Callable[[float], float], float]] = {
        "backlog": (sample.backlog, truth.backlog, FEW_RECORDS),
        "rate": (sample.input_rate_per_s, rate_per_s, LOW_PER_S),
        "latency": (sample.latency_s, truth.latency_s, SHORT_S),
    }
    wrong = tuple(
        name
        for name, (read, true_at, allowed) in reported.items()
        if not any(_is_near(read, true_at(at_s), allowed) for at_s in moments_s)
    )
    at_s = sample.at_s
    ready = observation.instances["job"].ready
    return Comparison(sample, ready, truth.backlog(at_s), rate_per_s(at_s), truth.latency_s(at_s), wrong)


def _is_near(read: float | None, true: float, allowed: float) -> bool:
    return read is not None and abs(read - true) <= TOLERANCE * true + allowed
