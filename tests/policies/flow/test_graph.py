"""Rates follow the graph from its sources, and what is not known stays so."""

from __future__ import annotations

import pytest

from headgate.core.topology import Topology
from headgate.policies.flow.graph import carried_on
from headgate.policies.flow.measured import Flow

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


def test_an_operator_with_one_input_is_asked_itself() -> None:
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
