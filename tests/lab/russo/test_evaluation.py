"""The scenarios of russo, on short runs; the whole year is for `headgate lab run`."""

from __future__ import annotations

import pytest

from headgate.lab.russo.evaluation import Contender, World, cost_curves, make_planner, row_of, run_all, run_contender
from headgate.lab.scenario import find_scenario
from headgate.lab.scenarios.russo_beyond import CONTENDERS
from headgate.lab.scenarios.russo_table_1 import ROWS

MONTH = 43_200
SHORT = 3000


def test_the_scenarios_are_registered() -> None:
    for name in ("russo-table-1", "russo-fig-2b", "russo-beyond"):
        assert find_scenario(name).name == name


def test_the_bound_is_650_ms_for_each_operator_and_the_load_that_of_the_document() -> None:
    world = World(3)
    assert world.application.bound_s == pytest.approx(1.95)
    assert world.application.service_rates_per_s == (3.7, 3.3, 2.7)
    assert World(6).application.service_rates_per_s == (3.7, 3.3, 2.7, 3.3, 3.7, 3.3)
    assert sum(world.training) / len(world.training) * 20 == pytest.approx(329, rel=0.01)


def test_the_document_s_figures_add_up_to_its_costs() -> None:
    for _, (cost, violations, reconfigurations, instances) in ROWS:
        year = 525_600
        assert 0.2 * instances / 15 + 0.4 * (violations + reconfigurations) / year == pytest.approx(cost, abs=0.001)


def test_plans_that_are_known_beforehand_order_as_in_the_document_after_a_month() -> None:
    costs = {
        contender.label: run_contender(contender, MONTH).average_cost
        for contender, _ in ROWS
        if contender.policy != "rl-centralized"
    }
    assert min(costs, key=lambda label: costs[label]) == "Centralized MDP"
    assert costs["Decentralized (U=0.7)"] < costs["Decentralized (U=0.6)"] < costs["Decentralized (U=0.8)"]


@pytest.mark.parametrize("contender", [one for one in CONTENDERS if one.operators == 3], ids=lambda one: one.label)
def test_every_contender_runs(contender: Contender) -> None:
    tally = run_contender(contender, 300)
    assert tally.slots == 300
    assert 0.04 < tally.average_cost < 1


def test_contenders_run_side_by_side_as_they_do_alone() -> None:
    contenders = [contender for contender, _ in ROWS[:2]]
    told: list[float] = []
    tallies = run_all(contenders, told.append, slots=SHORT)
    assert tallies == [run_contender(contender, SHORT) for contender in contenders]
    assert told == [0.5, 1.0]
    row = row_of(contenders[0], tallies[0])
    assert list(row) == ["policy", "avg_cost", "sla_violations", "reconfigurations", "avg_instances"]
    assert len(cost_curves("costs", contenders, tallies).data) == 2


def test_a_planner_is_made_by_the_name_of_its_policy() -> None:
    world = World(2, 100)
    kinds = {name: type(make_planner(world, name, {})).__name__ for name in ("mdp", "rl-centralized", "mdp-path")}
    assert kinds == {"mdp": "ExactPlanner", "rl-centralized": "CentralPlanner", "mdp-path": "PathPlanner"}
