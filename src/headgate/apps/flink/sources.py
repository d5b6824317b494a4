"""Where the records of a Flink job come from, and where its results go: the options of tables."""

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
"""Of a partition, and at a time. A client learns how much waits when it fetches: a source that is slow itself and has
fetched the work of half a minute would seem to keep up for as long."""
DISCOVERED_WITHIN_S = 10
"""Partitions that are added to a topic are found within it, where Kafka's connector has five minutes."""
Options = Mapping[str, str]


class FlinkSource(Protocol):
    """Records as JSON, one job's."""

    def options(self) -> Options:
        """Those of the table."""

    def settings(self) -> Options:
        """Those of the job."""

    def jars(self) -> list[Path]:
        """What Flink does not bring, and is sent along with the job."""


def connector_jars() -> list[Path]:
    """What it takes to read and write topics."""
    known = pinned("flink-kafka")
    return fetch(f"Flink's Kafka connector {known.version}", known.jars)


@dataclass(frozen=True)
class TopicRecords:
    """A topic, from its beginning."""

    bootstrap: str
    topic: str
    is_bounded: bool = False
    """Whether the job ends when it has read what is there as it starts."""

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
    """A file with a record on each line, which Flink reads by itself and as fast as it can.

    Its lines are read one after the other by one instance of the source, so event time passes as in the file.
    """

    path: Path
    is_bounded: bool = False
    """Whether the job ends with the file. One that does cannot be given another size: instances that have nothing to
    read are done at once, and Flink does not rescale a step of which some are."""

    def options(self) -> Options:
        monitoring = {} if self.is_bounded else {"source.monitor-interval": "1s"}
        return {"connector": "filesystem", "path": self.path.absolute().as_uri(), "format": "json", **monitoring}

    def settings(self) -> Options:
        # Instances without a file must not hold up event time for the one that has it.
        return {"table.exec.source.idle-timeout": "1s"}

    def jars(self) -> list[Path]:
        return []


def write_records(load: Load, path: Path, start_ms: int) -> int:
    """Write the records of a load to a file, one on each line, whatever the time; gives how many there are."""
    payloads, total = load.make_payloads(), load.schedule.total
    with path.open("wb") as file:
        for first in range(0, total, CHUNK):
            due_s = load.schedule.due_s(first, min(CHUNK, total - first))
            records = payloads.records(first, event_times_ms(due_s, start_ms))
            file.writelines(b"%b\n" % record.value for record in records)
    return total


@dataclass(frozen=True)
class TopicResults:
    """A topic that results are written to at once; those since the last checkpoint come twice when a job restarts."""

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
"""Where results go: a folder, a topic, or nowhere."""


def sink_options(results: Results) -> Options:
    """A topic, or files in a folder, each there as a whole when a checkpoint has it; or nothing."""
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
    """Options as SQL has them.

    >>> written({"connector": "kafka", "topic": "it's"})
    "'connector' = 'kafka', 'topic' = 'it''s'"
    """
    return ", ".join(f"{_quoted(key)} = {_quoted(value)}" for key, value in options.items())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
