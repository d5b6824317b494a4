"""Spark's own load: what is read of ``rate`` and ``rate-micro-batch``, from progress as Spark 4.3 reported it.

``rate_progress.json`` holds what three queries with a trigger of 2 s on ``local[2]`` reported, on a machine so busy
that their first batches took most of a minute.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from headgate.core.types import Batch, Sample
from headgate.engines.spark.query_readings import QueryReadings
from headgate.engines.spark.snapshots import Query, QueryProgress, QuerySource

REPORTED: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("rate_progress.json").read_text(encoding="utf-8")
)
RATE = QuerySource("rate", {"rowsPerSecond": "10", "numPartitions": "2"})
RAMP = QuerySource("rate", {"rowspersecond": "10", "rampUpTime": "8s", "numPartitions": "1"})
BY_BATCH = QuerySource("rate-micro-batch", {"rowsPerBatch": "25", "numPartitions": "1"})


def read(name: str, source: QuerySource, reads: int = 1) -> tuple[list[Batch], Sample]:
    """All reported batches, and the reading when the last one had ended; ``reads``: rows read per record."""
    batches: list[Batch] = []
    readings: QueryReadings | None = None
    ended_s = 0.0
    for body in REPORTED[name]:
        reported = body["sources"][0]
        started_s = datetime.fromisoformat(body["timestamp"]).timestamp()
        ended_s = started_s + body["durationMs"]["triggerExecution"] / 1000
        start, end, latest = (
            None if reported[key] is None else json.dumps(reported[key])
            for key in ("startOffset", "endOffset", "latestOffset")
        )
        runs = Query(
            id="id",
            run_id="run",
            name=name,
            trigger_interval_s=2.0,
            sources=(source,),
            batch_id=body["batchId"],
            triggered_s=started_s,
            start=(start,),
            end=(end,),
            latest=(latest,),
            committed=(start,),
        )
        event = body | {"sources": [reported | {"numInputRows": reads * reported["numInputRows"]}]}
        readings = readings or QueryReadings(runs, started_s, 10.0)
        batches += readings.update(started_s + 0.5, runs)
        batches += readings.update(
            ended_s, replace(runs, committed=(end,), progresses=(QueryProgress(ended_s, event),))
        )
    assert readings is not None
    return batches, readings.sample(ended_s)


@pytest.mark.parametrize(
    ("name", "source", "reads", "rate_per_s"),
    [
        ("rate", RATE, 1, 10.0),
        ("rate", RATE, 2, 10.0),  # A foreachBatch that counts first and then writes reads them all twice.
        ("rate-ramp", RAMP, 1, 10.0),
        ("rate-micro-batch", BY_BATCH, 1, None),
    ],
)
def test_records_are_counted_though_offsets_may_be_seconds(
    name: str, source: QuerySource, reads: int, rate_per_s: float | None
) -> None:
    batches, sample = read(name, source, reads)
    assert [batch.records for batch in batches] == [body["numInputRows"] for body in REPORTED[name]]
    assert sample.done == sum(batch.records for batch in batches)
    if rate_per_s is not None:
        assert sample.input_rate_per_s == pytest.approx(rate_per_s, rel=0.15), "an offset is a whole second"


def test_what_a_rate_source_has_given_meanwhile_waits() -> None:
    _, sample = read("rate", RATE)
    took_s = REPORTED["rate"][-1]["durationMs"]["triggerExecution"] / 1000
    assert sample.backlog == pytest.approx(10.0 * took_s, rel=0.15)
    assert sample.latency_s == pytest.approx(took_s, abs=1.0)


def test_a_source_that_ramps_up_gives_as_many_records_by_a_second_as_spark_says() -> None:
    offsets = [body["sources"][0]["endOffset"] for body in REPORTED["rate-ramp"]]
    given = [sum(body["numInputRows"] for body in REPORTED["rate-ramp"][:count]) for count in range(1, 6)]
    found = [RAMP.offsets(second) for second in offsets]
    assert found == [{(): float(records)} for records in given]
    assert QuerySource("rate").offsets("7") == {(): 7.0}, "a record a second, unless it is said otherwise"
    assert QuerySource("rate", {"rampUpTime": "100us", "rowsPerSecond": "3"}).offsets("7") == {(): 21.0}


def test_other_offsets_are_left_as_they_are() -> None:
    assert BY_BATCH.offsets({"offset": 50, "timestamp": 2000}) == {("offset",): 50.0}
    assert QuerySource("kafka", {"rowsPerSecond": "10"}).offsets('{"t": {"0": 7}}') == {("t", "0"): 7.0}
    assert RATE.offsets(None) is None
