"""Costs and response times, by numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.policies.planning.model import (
    ApplicationModel,
    Weights,
    application_cost,
    longest_path_s,
    md1_response_time_s,
    operator_cost,
)
from tests.policies.planning.pipelines import RUSSO, pipeline


@pytest.mark.parametrize(
    ("sizes", "reconfigured", "violated", "cost"),
    [
        # 0.2 · 3 / 15
        ((1, 1, 1), False, False, 0.04),
        # 0.2 · 15 / 15
        ((5, 5, 5), False, False, 0.2),
        # 0.2 · 9 / 15 + 0.4, however many operators changed
        ((2, 3, 4), True, False, 0.52),
        ((2, 3, 4), False, True, 0.52),
        ((2, 3, 4), True, True, 0.92),
    ],
)
def test_a_slot_of_the_application_costs_as_equation_1_says(
    sizes: tuple[int, ...], reconfigured: bool, violated: bool, cost: float
) -> None:
    assert application_cost(Weights(), sizes, 5, reconfigured=reconfigured, violated=violated) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("size", "reconfigured", "over_target", "cost"),
    [(1, False, False, 0.04), (3, True, False, 0.52), (3, False, True, 0.52), (5, True, True, 1.0)],
)
def test_a_slot_of_an_agent_costs_as_equation_2_says(
    size: int, reconfigured: bool, over_target: bool, cost: float
) -> None:
    assert operator_cost(Weights(), size, 5, reconfigured=reconfigured, over_target=over_target) == pytest.approx(cost)


@pytest.mark.parametrize("parts", [(0.5, 0.5, 0.5), (1.2, -0.1, -0.1), (0.0, 0.0, 0.0)])
def test_weights_that_are_not_parts_of_one_are_refused(parts: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="together they must be 1"):
        Weights(*parts)


@pytest.mark.parametrize(
    ("rate", "service", "instances", "time_s"),
    [
        # An idle instance: the service time alone.
        (0.0, 2.0, 1, 0.5),
        # ρ = 0.5: 0.5 + 0.5 / (2 · 2 · 0.5)
        (1.0, 2.0, 1, 0.75),
        # ρ = 0.8: 0.5 + 0.8 / (2 · 2 · 0.2)
        (1.6, 2.0, 1, 1.5),
        # The same load on each of two instances.
        (3.2, 2.0, 2, 1.5),
        (2.0, 2.0, 1, math.inf),
        (9.0, 2.0, 3, math.inf),
    ],
)
def test_an_instance_is_an_m_d_1_queue(rate: float, service: float, instances: int, time_s: float) -> None:
    assert float(md1_response_time_s(rate, service, instances)) == pytest.approx(time_s)


@given(
    rate=st.floats(0, 30),
    more=st.floats(0, 5),
    service=st.floats(0.5, 10),
    instances=st.integers(1, 6),
)
def test_response_time_falls_with_instances_and_rises_with_the_rate(
    rate: float, more: float, service: float, instances: int
) -> None:
    time_s = float(md1_response_time_s(rate, service, instances))
    assert float(md1_response_time_s(rate, service, instances + 1)) <= time_s
    assert float(md1_response_time_s(rate + more, service, instances)) >= time_s


def test_response_time_is_that_of_the_longest_way_through_the_graph() -> None:
    graph = Topology.of(("source", "left"), ("source", "right"), ("left", "sink"), ("right", "sink"), ("source", "log"))
    times_s = {"source": 1.0, "left": 2.0, "right": 5.0, "sink": 1.0, "log": 0.5}
    assert float(longest_path_s(graph, times_s)) == 7.0
    assert float(longest_path_s(graph, times_s | {"left": 6.0})) == 8.0
    assert float(longest_path_s(graph, times_s | {"log": 20.0})) == 21.0


def test_the_bound_of_the_document_cannot_be_met_by_three_operators() -> None:
    at_rest = 1 / 3.7 + 1 / 3.3 + 1 / 2.7
    assert at_rest == pytest.approx(0.944, abs=0.001)
    assert pipeline(3.7, 3.3, 2.7, bound_s=0.65).violations(np.array([0.0])).all()
    assert not RUSSO.violations(np.array([0.0])).any()


def test_violations_of_a_list_of_configurations_are_those_of_all() -> None:
    rates = np.linspace(0, 14, 30)
    every = RUSSO.violations(rates)
    some = np.array([[1, 1, 1], [2, 3, 2], [5, 5, 5], [3, 2, 4]])
    assert (RUSSO.violations_of(some, rates) == np.stack([every[tuple(sizes - 1)] for sizes in some])).all()


def test_an_operator_sees_its_share_of_the_rate() -> None:
    half = ApplicationModel(RUSSO.topology, (4.0, 4.0, 2.0), 10.0, 5, shares=(1.0, 1.0, 0.5))
    busy = half.utilizations(np.array([8.0]))
    assert busy[:, 1, 0].tolist() == [1.0, 1.0, 1.0]
    assert half.largest_rate_per_s == 20.0


def test_without_a_bound_only_falling_behind_is_a_violation() -> None:
    single = pipeline(2.0, bound_s=math.inf)
    assert single.violations(np.array([1.9, 2.0])).tolist()[0] == [False, True]


@pytest.mark.parametrize(("speeds", "shares"), [((1.0,), ()), ((1.0, 1.0, 0.0), ()), ((1.0, 1.0, 1.0), (1.0, 1.0))])
def test_speeds_and_shares_that_do_not_fit_are_refused(speeds: tuple[float, ...], shares: tuple[float, ...]) -> None:
    with pytest.raises(InputError):
        ApplicationModel(RUSSO.topology, speeds, 1.0, 5, shares=shares)
