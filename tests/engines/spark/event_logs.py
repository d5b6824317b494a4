"""Event logs as Spark writes them, of a job with a known load, capacity and number of executors."""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"
BEGAN_S = 1_800_000_000.0
RATES_PER_S = (20.0, 35.0, 60.0, 35.0, 20.0)
"""The load, each for a fifth of the time."""


@dataclass(frozen=True)
class LoggedRun:
    """A Kafka job with a trigger interval; its log is the same for the same arguments."""

    seconds: float = 600.0
    rate_per_s: float = 40.0
    """Records that an executor gets through in a second."""
    fixed_s: float = 0.5
    trigger_s: float = 5.0
    executors: Sequence[tuple[str, float, float, float | None]] = (("0", 0.0, 4.0, None), ("1", 0.0, 4.0, None))
    """Each with when it was requested, registered and removed, in seconds from the start of the application."""
    load_at_s: float = 10.0
    """When the load begins, after the start of the application."""
    query: str = "orders"
    noise: float = 0.0
    """By which share batches take longer or shorter, in turn."""
    tasks: int = 8
    spark: str = "4.3.0"
    ends: bool = True
    padding: int = 0
    """Bytes more in each end of a task, which in a real log are its metrics."""

    def load_until(self, at_s: float) -> int:
        """Records that have arrived by a time after the start of the load."""
        part_s = self.seconds / len(RATES_PER_S)
        return int(sum(rate * min(part_s, max(0.0, at_s - place * part_s)) for place, rate in enumerate(RATES_PER_S)))

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the events."""
        yield {"Event": "SparkListenerLogStart", "Spark Version": self.spark}
        properties = {"spark.master": "spark://master:7077", "spark.task.cpus": "1"}
        yield {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": properties}
        yield {
            "Event": "SparkListenerApplicationStart", "App Name": "shop", "App ID": f"app-{self.query}",
            "Timestamp": _ms(0.0), "User": "shop",
        }  # fmt: skip
        yield {"Event": f"{LISTENER}QueryStartedEvent", "id": self._id, "runId": self._run, "name": self.query}
        waiting = sorted(self._executor_events(), key=lambda item: item[0])
        at_s, done, batch, task = self.load_at_s, 0, 0, 0
        while at_s < self.load_at_s + self.seconds:
            while waiting and waiting[0][0] <= at_s:
                yield waiting.pop(0)[1]
            ready = [name for name, _, joined_s, left_s in self.executors if joined_s <= at_s < (left_s or 1e18)]
            latest = self.load_until(at_s - self.load_at_s)
            took_s = self.fixed_s + (latest - done) / (self.rate_per_s * len(ready))
            took_s *= 1 + self.noise * math.sin(12.9898 * batch * batch)
            if latest > done:
                yield self._job(batch)
                for name in ready:
                    task += 1
                    yield self._task(task, name, at_s, took_s)
            yield self._progress(batch, at_s, took_s, done, latest)
            done, batch, ended_s = latest, batch + 1, at_s + took_s
            # Spark begins triggers at multiples of the interval, or at once where the batch took longer.
            at_s = max(ended_s, at_s - at_s % self.trigger_s + self.trigger_s)
        if self.ends:
            yield {"Event": "SparkListenerApplicationEnd", "Timestamp": _ms(at_s)}

    def _executor_events(self) -> Iterator[tuple[float, dict[str, Any]]]:
        for name, requested_s, joined_s, left_s in self.executors:
            info: dict[str, Any] = {"Host": "node", "Total Cores": 1}
            if self.spark >= "3.4":
                info |= {"Registration Time": _ms(joined_s), "Request Time": _ms(requested_s)}
            yield joined_s, {
                "Event": "SparkListenerExecutorAdded", "Timestamp": _ms(joined_s), "Executor ID": name,
                "Executor Info": info,
            }  # fmt: skip
            if left_s is not None:
                yield left_s, {
                    "Event": "SparkListenerExecutorRemoved", "Timestamp": _ms(left_s), "Executor ID": name,
                    "Removed Reason": "Command exited with code 137",
                }  # fmt: skip

    @property
    def _id(self) -> str:
        return f"id-{self.query}"

    @property
    def _run(self) -> str:
        return f"run-{self.query}"

    def _job(self, batch: int) -> dict[str, Any]:
        return {
            "Event": "SparkListenerJobStart", "Job ID": batch,
            "Stage Infos": [{"Stage ID": batch, "Number of Tasks": self.tasks}],
            "Properties": {"sql.streaming.queryId": self._id},
        }  # fmt: skip

    def _task(self, number: int, executor: str, at_s: float, took_s: float) -> dict[str, Any]:
        info = {"Task ID": number, "Launch Time": _ms(at_s), "Executor ID": executor, "Finish Time": _ms(at_s + took_s)}
        return {"Event": "SparkListenerTaskEnd", "Task Info": info, "Task Metrics": "x" * self.padding}

    def _progress(self, batch: int, at_s: float, took_s: float, start: int, end: int) -> dict[str, Any]:
        took_ms = {"triggerExecution": round(1000 * took_s), "latestOffset": 2}
        if end > start:
            took_ms["addBatch"] = round(1000 * took_s) - 10
        source = {
            "description": "KafkaV2[Subscribe[orders]]",
            "startOffset": _offset(start), "endOffset": _offset(end), "latestOffset": _offset(end),
            "numInputRows": end - start,
        }  # fmt: skip
        progress = {
            "id": self._id, "runId": self._run, "name": self.query, "timestamp": _timestamp(at_s), "batchId": batch,
            "durationMs": took_ms, "sources": [source],
        }  # fmt: skip
        return {"Event": f"{LISTENER}QueryProgressEvent", "progress": progress}


def _ms(at_s: float) -> int:
    return round(1000 * (BEGAN_S + at_s))


def _timestamp(at_s: float) -> str:
    return datetime.fromtimestamp(BEGAN_S + at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _offset(records: int) -> str:
    return json.dumps({"orders": {"0": records // 2, "1": records - records // 2}})


def text_of(events: Iterator[dict[str, Any]] | Sequence[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


def write_log(path: Path, run: LoggedRun | None = None) -> Path:
    """Write a log and return its path."""
    path.write_bytes(text_of((run or LoggedRun()).lines()))
    return path


# -------------------------------------------------------------------------------------------- packed as by Spark's JVM


def _lz4_java(text: bytes) -> bytes:
    codec, packed = pa.Codec("lz4_raw"), b""
    for start in range(0, len(text), 1 << 15):
        block = text[start : start + (1 << 15)]
        small = codec.compress(block, asbytes=True)
        packed += b"LZ4Block" + struct.pack("<BiiI", 0x25, len(small), len(block), 0) + small
    # A stored block, and the empty one that ends the stream.
    packed += b"LZ4Block" + struct.pack("<BiiI", 0x15, 1, 1, 0) + b"\n"
    return packed + b"LZ4Block" + struct.pack("<BiiI", 0x15, 0, 0, 0)


def _snappy_java(text: bytes) -> bytes:
    codec, packed = pa.Codec("snappy"), b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for start in range(0, len(text), 1 << 15):
        small = codec.compress(text[start : start + (1 << 15)], asbytes=True)
        packed += struct.pack(">i", len(small)) + small
    return packed


def _stream(name: str) -> Callable[[bytes], bytes]:
    def packed(text: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, name) as stream:
            # Spark flushes after important events, so that a log that is cut off can be read up to there.
            for start in range(0, len(text), 1 << 12):
                stream.write(text[start : start + (1 << 12)])
                stream.flush()
        return bytes(sink.getvalue())

    return packed


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda text: text,
    "zstd": _stream("zstd"),
    "gzip": _stream("gzip"),
    "lz4": _lz4_java,
    "lz4-frame": _stream("lz4"),
    "snappy": _snappy_java,
}


EXAMPLE = LoggedRun(
    seconds=7200.0,
    rate_per_s=15.0,
    fixed_s=0.8,
    trigger_s=10.0,
    load_at_s=60.0,
    noise=0.25,
    executors=(
        *((str(number), 1.0, 20.0 + number, None) for number in range(7)),
        ("7", 1.0, 27.0, 3000.0),
        ("8", 3001.0, 3032.0, None),
    ),
    tasks=16,
)
"""The log in ``examples``: a job of eight executors for two hours, of which one was lost and replaced."""


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(PACKED["zstd"](text_of(EXAMPLE.lines())))
