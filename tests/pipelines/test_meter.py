"""What is measured from end to end, by the times in the records."""

from __future__ import annotations

import json

import pytest

from headgate.core.topology import Topology
from headgate.core.types import Instances, Sample
from headgate.engines.agents import AgentsEngine, Report
from headgate.pipelines.meter import Meter, MeteredEngine
from headgate.testing.clock import FakeClock


def result(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_a_result_is_as_old_as_its_record_was_due_ago() -> None:
    meter = Meter(late_after_s=10.0)
    for number, latency_s in enumerate((2.0, 4.0, 12.0, 30.0)):
        meter.take("out", result(number=number, at_ms=1_000_000), 1000.0 + latency_s)
    summary = meter.summary(1030.0)
    assert (summary.records, summary.late, summary.late_share) == (4, 2, 0.5)
    assert summary.p50_s == pytest.approx(4.0)
    assert summary.p99_s == pytest.approx(30.0)


def test_a_result_that_stands_for_several_records_counts_for_them() -> None:
    meter = Meter(late_after_s=10.0)
    meter.take("out", result(records=9, at_ms=0), 20.0)
    meter.take("out", result(records=1, at_ms=0), 5.0)
    summary = meter.summary(20.0)
    assert (summary.records, summary.late_share) == (10, 0.9)


def test_duplicates_and_results_without_a_due_time_are_counted() -> None:
    meter = Meter(late_after_s=10.0)
    for number in (1, 2, 2, 3):
        meter.take("out", result(number=number, at_ms=0), 1.0)
    for value in (b"no JSON", b"[]", result(number=4), result(at_ms="soon"), result(number=5, at_ms=60_000)):
        meter.take("out", value, 1.0)
    summary = meter.summary(1.0)
    assert (summary.distinct, summary.doubled, summary.unmeasured) == (3, 1, 5)


def test_records_that_warm_up_are_not_counted() -> None:
    meter = Meter(late_after_s=10.0, counts_from_ms=5000)
    meter.take("out", result(number=1, at_ms=4999), 100.0)
    meter.take("out", result(number=1, at_ms=5000), 6.0)
    summary = meter.summary(6.0)
    assert (summary.records, summary.late, summary.not_counted, summary.doubled) == (1, 0, 1, 0)


def test_what_is_late_from_end_to_end_is_in_the_readings_of_the_last_operators() -> None:
    clock = FakeClock(100.0)
    agents = AgentsEngine(Topology.of(("parse", "sum")), now=clock.now)
    meter = Meter(late_after_s=10.0)
    engine = MeteredEngine(agents, meter, {"sum": "sums"})
    for name in ("parse", "sum"):
        agents.report(name, Report(name, Instances(1, 1, 1), Sample("job", 100.0, arrived=5, late=3)))
    meter.take("sums", result(at_ms=0), 50.0)
    meter.take("elsewhere", result(at_ms=0), 50.0)
    samples = engine.observe().samples
    assert samples["sum"].late == 1
    assert samples["parse"].late == 3
