"""Sizes belong to operators: bounds, prices and objectives of each."""

from __future__ import annotations

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import LatencySlo, Objective, parse_objective
from headgate.core.topology import Sizing, Topology

END_TO_END = LatencySlo(10)
JOIN = LatencySlo(3)
PIPELINE = Topology(
    ("parse", "join"),
    (("parse", "join"),),
    {"join": Sizing(min_instances=2, max_instances=4, price_per_instance_hour=3.0)},
)
OBJECTIVE = Objective(END_TO_END, 1, 8, 1.0, {"join": JOIN})


def test_an_operator_has_its_own_bounds_price_and_objective_or_those_of_all() -> None:
    assert (OBJECTIVE.bounds_of("parse", PIPELINE), OBJECTIVE.bounds_of("join", PIPELINE)) == ((1, 8), (2, 4))
    assert OBJECTIVE.prices(PIPELINE) == {"parse": 1.0, "join": 3.0}
    assert (OBJECTIVE.slo_of("parse"), OBJECTIVE.slo_of("join")) == (END_TO_END, JOIN)


def test_operators_of_a_group_are_rescaled_with_each_other() -> None:
    grouped = {"a": Sizing(group="one"), "c": Sizing(group="one")}
    topology = Topology(("a", "b", "c"), sizing=grouped)
    assert [topology.rescaled_with(name) for name in "abc"] == [("a", "c"), ("b",), ("a", "c")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sizing(min_instances=-1), "min_instances -1"),
        (lambda: Sizing(max_instances=0), "max_instances 0"),
        (lambda: Sizing(min_instances=4, max_instances=3), "at least 4"),
        (lambda: Sizing(allowed=()), "allowed sizes"),
        (lambda: Sizing(allowed=(4, 2)), "rising"),
        (lambda: Topology(("a",), sizing={"b": Sizing()}), "'b', which is not an operator; allowed: a"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(("running", "highest"), [(3, 10), (20, 20), (10, 10)])
def test_assumed_bounds_do_not_shrink_a_running_job(running: int, highest: int) -> None:
    assert parse_objective("latency < 10s").fitting(running).max_instances == highest


def test_bounds_that_the_user_set_do() -> None:
    assert parse_objective("latency < 10s").within(1, 8).fitting(20).max_instances == 8
