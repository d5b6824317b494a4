"""What agents send is finite and possible, or it is refused in one sentence; one wrong report harms none after it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.core.reading_gate import ReadingGate
from headgate.core.topology import Topology
from headgate.core.types import Batch, Event, Instances, Sample
from headgate.engines.agents import AgentsEngine, Report
from headgate.engines.agents.wire import report_from_text, report_to_text

NOW = 1_000_000.0
SIZES = {"planned": 2, "requested": 2, "ready": 2}


def message(**changes: Any) -> str:
    """A report as text, in which numbers may be what JSON has no name for."""
    return json.dumps({"version": 1, "agent": "a", "instances": SIZES} | changes)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sample": {"operator": "job", "at_age_s": math.nan}}, "sample.at_age_s is nan"),
        ({"sample": {"operator": "job", "at_age_s": math.inf}}, "sample.at_age_s is inf"),
        ({"sample": {"operator": "job", "at_age_s": 0, "done": -math.inf}}, "sample.done is -inf"),
        ({"sample": {"operator": "job", "at_age_s": 0, "done": {"$float": "nan"}}}, "sample.done is nan"),
        ({"sample": {"operator": "job", "at_age_s": 0, "done": 10**400}}, "sample.done is 1000"),
        ({"sample": {"operator": "job", "at_age_s": 0, "metrics": {"heap": math.nan}}}, "sample.metrics.heap is nan"),
        (
            {"events": [{"at_age_s": 1, "kind": "k", "detail": "", "numbers": {"n": math.inf}}]},
            "events.0.numbers.n is inf",
        ),
        ({"sample": {"operator": "job", "at_age_s": 0, "done": {"$float": [1]}}}, "not JSON"),
        ({"instances": SIZES | {"ready": 1_000_000}}, "1000000 instances are not possible"),
        ({"instances": SIZES | {"planned": -1}}, "-1 instances are not possible"),
    ],
)
def test_a_number_that_cannot_be_is_refused_with_its_place(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        report_from_text(message(**changes), NOW)


def test_a_body_that_is_nested_deeply_is_refused() -> None:
    with pytest.raises(InputError, match="nested too deeply"):
        report_from_text('{"version": 1, "agent": ' + "[" * 100_000 + "]" * 100_000 + "}", NOW)


def test_a_sender_leaves_out_what_is_not_finite() -> None:
    sample = Sample("job", NOW, done=5.0, skew=math.nan, metrics={"heap": math.inf})
    events = (Event(NOW, "check", "", {"pressure": math.inf}),)
    sent = Report("a", Instances(2, 2, 2), sample, events=events)
    found = report_from_text(report_to_text(sent, NOW), NOW)
    assert found.sample == Sample("job", NOW, done=5.0, metrics={"heap": None})
    assert found.events == (replace(events[0], numbers={"pressure": None}),)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["$float", "at_age_s", "done"]), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["agent", "instances", "sample", "first_batch", "events", "startups", "told", "own", "leaving"]
)
SAMPLES = st.fixed_dictionaries(
    {"operator": st.just("job"), "at_age_s": st.floats()},
    optional={name: st.floats() for name in ("done", "arrived", "backlog", "latency_s", "age_s", "running_s")},
)


@given(st.dictionaries(FIELDS, JSON_VALUES, max_size=4), st.none() | SAMPLES)
def test_whatever_is_sent_is_a_report_or_an_input_error(changes: dict[str, Any], sample: dict[str, Any] | None) -> None:
    engine = AgentsEngine(Topology.single(), now=lambda: NOW)
    body = message(**(changes if sample is None else changes | {"sample": sample}))
    try:
        engine.report("job", report_from_text(body, NOW))
    except InputError:
        return
    ReadingGate().check(engine.observe())


class Bench:
    """A mailbox with a gate behind it, and one agent whose messages a test writes."""

    def __init__(self) -> None:
        self.now = NOW
        self.mailbox = AgentsEngine(Topology.single(), now=lambda: self.now)
        self.gate = ReadingGate()
        self.sent = 0

    def send(self, *, first_batch: int | None = None, **changes: Any) -> Sample | None:
        """Report 500 records more, with changes, and return what passes the gate."""
        self.sent += 1
        self.now += 5.0
        done = 500.0 * self.sent
        sample = Sample("job", self.now, arrived=done + 10, done=done, backlog=10.0, busy_s=3.0 * self.sent)
        batches = (Batch(self.now - 4, self.now - 1, 500.0),)
        sample = replace(sample, batches=batches, **changes)
        first = self.sent if first_batch is None else first_batch
        self.mailbox.report("job", Report("a", Instances(2, 2, 2), sample, first_batch=first))
        return self.gate.check(self.mailbox.observe()).observation.samples.get("job")


@pytest.mark.parametrize(
    "wrong",
    [
        {"done": 1000 * 500.0 * 21},
        {"arrived": 1e12},
        {"busy_s": 63.0 - 1e-6 - 3.0},
        {"at_s": NOW + 105.0 + 300.0},
        {"at_s": 1e300},
        {"at_s": -1e300},
        {"first_batch": 10**15},
        {"first_batch": -(10**15)},
    ],
    ids=str,
)
def test_one_wrong_report_has_no_effect_on_those_after_it(wrong: dict[str, Any]) -> None:
    """A counter was once raised for good, and a date in the future stopped readings until it had come."""
    right, bench = Bench(), Bench()
    for _ in range(20):
        right.send()
        bench.send()
    right.send()
    bench.send(**wrong)
    for _ in range(3):
        sample = bench.send()
        assert sample is not None
        # The first rate after a gap spans it; the window can make those after it.
        assert sample.input_rate_per_s in (None, 100.0)
        assert replace(sample, input_rate_per_s=None) == right.send()
