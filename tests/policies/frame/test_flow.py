"""What readings over a span tell: from counters, from rates, from batches, from utilization."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.topology import Topology
from headgate.core.types import Batch, Sample
from headgate.core.window import History
from headgate.policies.frame.readings import Flow, carried_on, flow_over
from tests.core.building import JOB, observation, sizes


def measured(*readings: Sample, since_s: float = 0.0, ready: int = 2) -> Flow:
    window = History(JOB)
    for reading in readings:
        window.observe(observation(reading.at_s, ready, sample=reading))
    return flow_over(window, "job", sizes(ready), since_s)


def reading(at_s: float, **fields: Any) -> Sample:
    return Sample("job", at_s, **fields)


def test_counters_give_rates_whatever_readings_were_lost() -> None:
    flow = measured(
        reading(0, arrived=1000, done=900, emitted=450, backlog=100),
        reading(10, arrived=1500, done=1300, emitted=650, backlog=200),
        reading(40, arrived=3000, done=2500, emitted=1250, backlog=500),
    )
    assert flow.arrived_per_s == pytest.approx(50)
    assert flow.done_per_s == pytest.approx(40)
    assert flow.emitted_per_s == pytest.approx(20)
    assert flow.backlog == 500
    assert flow.growth_per_s == pytest.approx(10)


def test_a_counter_that_was_started_again_costs_one_stretch_and_no_more() -> None:
    flow = measured(reading(0, done=900), reading(10, done=1000), reading(20, done=5), reading(30, done=105))
    assert flow.done_per_s == pytest.approx(10)


def test_without_a_counter_what_was_done_is_what_arrived_less_what_still_waits() -> None:
    flow = measured(*(reading(at_s, input_rate_per_s=50, backlog=20 * at_s) for at_s in (0, 10, 20)))
    assert flow.done_per_s == pytest.approx(30)


@pytest.mark.parametrize(
    ("fields", "true_per_s"),
    [
        # 100 records in 4 s on two instances, though they stood idle for the rest of the time.
        ({"batches": (Batch(1, 5, 100, instances=2),)}, 12.5),
        # Two queries that share the slots: both were busy from 1 to 6.
        ({"batches": (Batch(1, 5, 100, instances=2), Batch(2, 6, 50, instances=2, query="b"))}, 15),
        # Each batch counts with the instances that it had.
        ({"batches": (Batch(0, 4, 40, instances=1), Batch(5, 7, 40, instances=2))}, 10),
        ({"batches": (Batch(1, 5, 0),), "processed_rate_per_s": 30}, 15),
        ({"processed_rate_per_s": 30, "utilization": 0.1}, 15),
        ({"utilization": 0.5, "input_rate_per_s": 20, "backlog": 0}, 20),
        ({"utilization": 0.5}, None),
        ({"processed_rate_per_s": 30, "warming": True}, None),
        ({}, None),
    ],
)
def test_the_true_rate_counts_only_the_time_that_instances_were_busy(
    fields: dict[str, Any], true_per_s: float | None
) -> None:
    assert measured(reading(0, backlog=0), reading(10, **fields)).true_per_s == true_per_s


def test_batches_made_while_warming_do_not_tell_how_fast_instances_are() -> None:
    cold, warm = Batch(1, 5, 10, instances=2, warming=True), Batch(6, 10, 80, instances=2)
    assert measured(reading(0), reading(10, batches=(cold, warm))).true_per_s == 10


def test_nothing_is_known_of_a_span_without_readings() -> None:
    assert measured(reading(0, input_rate_per_s=5), since_s=0.0) == Flow()


CHAIN = Topology.of(("source", "first"), ("first", "second"))
DIAMOND = Topology.of(("source", "left"), ("source", "right"), ("left", "join"), ("right", "join"))


def done(per_s: float, emitted: float | None = None, arrived: float | None = None) -> Flow:
    return Flow(arrived_per_s=arrived, done_per_s=per_s, emitted_per_s=emitted)


@pytest.mark.parametrize(
    ("offered", "rates"),
    # 50 done make 400: offered 100, the second gets 800, which at 100 each is 8 instances.
    [(100.0, {"source": 100, "first": 100, "second": 800}), (0.0, {"source": 0, "first": 0, "second": 0})],
)
def test_what_an_operator_gets_is_what_those_before_it_would_give(offered: float, rates: dict[str, float]) -> None:
    flows = {"source": done(90, 90), "first": done(50, 400, arrived=90), "second": done(100, arrived=400)}
    assert carried_on(CHAIN, flows, {"source": offered}) == rates


def test_every_operator_downstream_gets_a_copy_and_a_join_gets_the_sum() -> None:
    flows = {
        "source": done(100, 100),
        "left": done(50, 25, arrived=100),
        "right": done(20, 40, arrived=100),
        "join": done(60, arrived=65),
    }
    assert carried_on(DIAMOND, flows, {"source": 200.0}) == {"source": 200, "left": 200, "right": 200, "join": 500}


def test_an_operator_with_one_input_is_requested_itself() -> None:
    """Engines differ in what they count as emitted where there are several downstream."""
    flows = {"source": done(100, emitted=300), "first": done(10, arrived=50), "second": Flow()}
    assert carried_on(CHAIN, flows, {"source": 10.0})["first"] == 5


@pytest.mark.parametrize(
    "flows",
    [
        {},
        {"source": done(0, 0), "first": done(10, arrived=10)},
        {"source": Flow(), "first": done(10, arrived=10)},
        {"source": done(10), "first": Flow()},
    ],
)
def test_what_cannot_be_known_is_not_guessed(flows: dict[str, Flow]) -> None:
    rates = carried_on(CHAIN, flows, {"source": 10.0})
    assert (rates["first"], rates["second"]) == (None, None)
