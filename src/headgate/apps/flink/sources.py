"""Sources and sinks of Flink jobs, as options of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headgate.local.jars import fetch, pinned
from headgate.workloads.load import Load
from headgate.workloads.schedule import event_times_ms

CHUNK = 10_000
FETCHED_BYTES, FETCHED_RECORDS = 8192, 50
"""Per partition, and per poll. A client learns the backlog when it fetches: a slow source that has fetched the work of
half a minute would seem to keep up for as long."""
DISCOVERED_WITHIN_S = 10
"""Added partitions are discovered within this time; the connector's default is five minutes."""
Options = Mapping[str, str]


class FlinkSource(Protocol):
    """The records of a job, as JSON."""

    def options(self) -> Options:
        """Return the options of the table."""

    def settings(self) -> Options:
        """Return the settings of the job."""

    def jars(self) -> list[Path]:
        """Return the jars that Flink lacks and that are sent with the job."""


def connector_jars() -> list[Path]:
    """Return the jars for reading and writing topics."""
    known = pinned("flink-kafka")
    return fetch(f"Flink's Kafka connector {known.version}", known.jars)


@dataclass(frozen=True)
class TopicRecords:
    """A topic from its beginning."""

    bootstrap: str
    topic: str
    is_bounded: bool = False
    """Whether the job ends after the records that are in the topic when it starts."""

    def options(self) -> Options:
        until = {"scan.bounded.mode": "latest-offset"} if self.is_bounded else {}
        return {
            "connector": "kafka",
            "properties.bootstrap.servers": self.bootstrap,
            "properties.group.id": f"headgate-{self.topic}",
            "properties.max.partition.fetch.bytes": str(FETCHED_BYTES),
            "properties.max.poll.records": str(FETCHED_RECORDS),
            "topic": self.topic,
            "scan.startup.mode": "earliest-offset",
            "scan.topic-partition-discovery.interval": f"{DISCOVERED_WITHIN_S} s",
            "format": "json",
            **until,
        }

    def settings(self) -> Options:
        return {}

    def jars(self) -> list[Path]:
        return connector_jars()


@dataclass(frozen=True)
class FileRecords:
    """A file with a record per line, which Flink reads as fast as it can.

    A single instance of the source reads its lines in order, so event time passes as in the file.
    """

    path: Path
    is_bounded: bool = False
    """Whether the job ends with the file. Such a job cannot be rescaled: instances that have nothing to read finish at
    once, and Flink does not rescale a step with finished instances."""

    def options(self) -> Options:
        monitoring = {} if self.is_bounded else {"source.monitor-interval": "1s"}
        return {"connector": "filesystem", "path": self.path.absolute().as_uri(), "format": "json", **monitoring}

    def settings(self) -> Options:
        # Instances without a file must not delay event time for the instance that has it.
        return {"table.exec.source.idle-timeout": "1s"}

    def jars(self) -> list[Path]:
        return []


def write_records(load: Load, path: Path, start_ms: int) -> int:
    """Write the records of a load to a file, one per line, and return their number."""
    payloads, total = load.make_payloads(), load.schedule.total
    with path.open("wb") as file:
        for first in range(0, total, CHUNK):
            due_s = load.schedule.due_s(first, min(CHUNK, total - first))
            records = payloads.records(first, event_times_ms(due_s, start_ms))
            file.writelines(b"%b\n" % record.value for record in records)
    return total


@dataclass(frozen=True)
class TopicResults:
    """A topic to which results are written at once; those since the last checkpoint are repeated after a restart."""

    bootstrap: str
    topic: str

    def options(self) -> Options:
        return {
            "connector": "kafka",
            "properties.bootstrap.servers": self.bootstrap,
            "topic": self.topic,
            "format": "json",
        }


Results = Path | TopicResults | None
"""The sink: a folder, a topic, or none."""


def sink_options(results: Results) -> Options:
    """Return the options of a topic, of files that are completed with a checkpoint, or of no sink."""
    if results is None:
        return {"connector": "blackhole"}
    if isinstance(results, TopicResults):
        return results.options()
    return {
        "connector": "filesystem",
        "path": results.absolute().as_uri(),
        "format": "json",
        "sink.rolling-policy.rollover-interval": "1s",
        "sink.rolling-policy.check-interval": "1s",
    }


def written(options: Options) -> str:
    """Return options in SQL.

    >>> written({"connector": "kafka", "topic": "it's"})
    "'connector' = 'kafka', 'topic' = 'it''s'"
    """
    return ", ".join(f"{_quoted(key)} = {_quoted(value)}" for key, value in options.items())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
