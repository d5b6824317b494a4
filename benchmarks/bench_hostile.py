"""What policies make of wrong readings: every stream of ``headgate.testing.hostile`` on every load, by policy.

    python -m benchmarks.bench_hostile [--others] [POLICY …]

``--others`` are streams and loads that were set up after the gate was finished.
Policies that are named are measured again; the rows of others stay as they were.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.common import Row, report

from headgate.core.types import Observation, Sample
from headgate.testing.hostile import (
    HOSTILE_LOADS,
    HOSTILE_STREAMS,
    HostileLoad,
    HostileOutcome,
    HostileStream,
    hostile_outcome,
)
from headgate.testing.policies import factory_of

POLICIES = ("autopilot", "reactive", "hpa", "ds2", "flink-autoscaler", "rules", "threshold", "q-learning")
PUBLISHED = Path(__file__).parents[1] / "docs" / "benchmarks"
TIMES = {"x3": 3.0, "x100": 100.0, "x0.5": 0.5}
FIELDS = (
    *("arrived", "done", "busy_s", "available_s", "late", "backlog", "latency_s"),
    *("processed_rate_per_s", "input_rate_per_s", "utilization"),
)
OTHER_LOADS = (
    HostileLoad("steady", "constant:47", hostile_s=1235.0),
    HostileLoad("falling", "ramp:from=110,to=40,over=40m", hostile_s=700.0, end_s=2000.0),
    HostileLoad("batches", "constant:65", "micro-batch", hostile_s=815.0, end_s=2000.0),
)


def _once(name: str, change: Callable[[Sample], Sample]) -> HostileStream:
    """Return the stream in which one reading is changed."""

    def spoil(reading: int, seen: Sequence[Observation]) -> Observation:
        newest = seen[-1]
        if reading > 0:
            return newest
        return replace(newest, samples={key: change(sample) for key, sample in newest.samples.items()})

    return HostileStream(f"once: {name}", spoil, is_single=True)


def _scaled(factor: float, *fields: str) -> Callable[[Sample], Sample]:
    def change(sample: Sample) -> Sample:
        changes: dict[str, Any] = {field: factor * (getattr(sample, field) or 0.0) for field in fields}
        return replace(sample, **changes)

    return change


def _moved(ahead_s: float) -> Callable[[Sample], Sample]:
    return lambda sample: replace(sample, at_s=sample.at_s + ahead_s)


def _other_streams() -> Iterator[HostileStream]:
    for field in FIELDS:
        for name, factor in TIMES.items():
            yield _once(f"{field} {name}", _scaled(factor, field))
    yield _once("arrived and done x10", _scaled(10.0, "arrived", "done"))
    yield _once("busy_s and available_s x10", _scaled(10.0, "busy_s", "available_s"))
    yield _once("backlog and latency_s 0", _scaled(0.0, "backlog", "latency_s"))
    yield _once("all gauges 0", _scaled(0.0, *FIELDS[5:]))
    for ahead_s in (30.0, -60.0):
        yield _once(f"at_s {ahead_s:+g}", _moved(ahead_s))


def measured(policy: str, streams: Sequence[HostileStream], loads: Sequence[HostileLoad]) -> Row:
    """Return the figures of one policy."""
    factory = factory_of(policy)
    singles: list[HostileOutcome] = []
    lasting: list[HostileOutcome] = []
    for load in loads:
        for stream in streams:
            (singles if stream.is_single else lasting).append(hostile_outcome(factory, stream, load))
    row: dict[str, str | float | int] = {
        "policy": policy,
        "runs with a single wrong sample": len(singles),
        "wrong scale-ins": sum(outcome.wrong_scale_ins for outcome in singles),
        "of these worse than holding": sum(outcome.worse_than_holding for outcome in singles),
        "runs stuck low": sum(outcome.is_stuck_low for outcome in singles),
    }
    if lasting:
        row |= {
            "runs with a lasting fault": len(lasting),
            "wrong scale-ins in these": sum(outcome.wrong_scale_ins for outcome in lasting),
            "of them worse than holding": sum(outcome.worse_than_holding for outcome in lasting),
            "of these stuck low": sum(outcome.is_stuck_low for outcome in lasting),
        }
    failed_ticks = max(outcome.failed_ticks for outcome in (*singles, *lasting))
    return {**row, "most ticks failed in a row": failed_ticks}


def main(arguments: list[str]) -> None:
    """Measure policies one after the other, and publish after each."""
    name, streams, loads = "hostile", HOSTILE_STREAMS, HOSTILE_LOADS
    if "--others" in arguments:
        name, streams, loads = "hostile-others", tuple(_other_streams()), OTHER_LOADS
    to = PUBLISHED / f"{name}.json"
    for policy in [argument for argument in arguments if argument != "--others"] or POLICIES:
        row = measured(policy, streams, loads)
        rows = json.loads(to.read_text(encoding="utf-8"))["rows"] if to.exists() else []
        others = {known["policy"]: known for known in rows if known.keys() == row.keys()} | {policy: row}
        report(name, [others[known] for known in POLICIES if known in others], to=to)


if __name__ == "__main__":
    main(sys.argv[1:])
