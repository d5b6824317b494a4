"""The scenarios of russo, on short runs; the whole year is for `headgate lab run`."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.lab.scenario import find_scenario
from headgate.research.russo.evaluation import (
    MEAN_PER_MINUTE,
    PlannerCase,
    TaxiLoad,
    World,
    best_load,
    cost_curves,
    make_planner,
    notes,
    row_of,
    run_all,
    run_contender,
    taxi_counts,
)
from headgate.research.scenarios.russo import BEYOND, DAG_CASES, SENSITIVITY, TABLE_1, compared_with_document
from headgate.workloads.traces import VARIABLE

MONTH = 43_200
SHORT = 3000


def test_the_scenarios_are_registered() -> None:
    for name in ("russo-table-1", "russo-fig-2b", "russo-sensitivity", "russo-dag", "russo-beyond"):
        assert find_scenario(name).name == name


def test_the_bound_is_650_ms_for_each_operator_and_the_load_that_of_the_document() -> None:
    world = World(3)
    assert world.application.bound_s == pytest.approx(1.95)
    assert world.application.service_rates_per_s == (3.7, 3.3, 2.7)
    assert World(6).application.service_rates_per_s == (3.7, 3.3, 2.7, 3.3, 3.7, 3.3)
    assert sum(world.training) / len(world.training) * 20 == pytest.approx(329, rel=0.01)


def test_the_document_s_figures_add_up_to_its_costs() -> None:
    for _, (cost, violations, reconfigurations, instances) in TABLE_1:
        year = 525_600
        assert 0.2 * instances / 15 + 0.4 * (violations + reconfigurations) / year == pytest.approx(cost, abs=0.001)


@pytest.mark.soak
def test_plans_that_are_known_beforehand_order_as_in_the_document_after_a_month() -> None:
    costs = {
        contender.label: run_contender(contender, MONTH).average_cost
        for contender, _ in TABLE_1
        if contender.policy != "rl-centralized"
    }
    assert min(costs, key=lambda label: costs[label]) == "Centralized MDP"
    assert costs["Decentralized (U=0.7)"] < costs["Decentralized (U=0.6)"] < costs["Decentralized (U=0.8)"]


def test_a_forked_application_joins_at_its_last_operator_and_has_the_bound_of_its_longest_way() -> None:
    application = World(4, is_forked=True).application
    assert set(application.topology.streams) == {
        ("operator-1", "operator-2"),
        ("operator-1", "operator-3"),
        ("operator-2", "operator-4"),
        ("operator-3", "operator-4"),
    }
    assert application.bound_s == pytest.approx(1.95)


SMALL_CASES = [case for case in (*BEYOND, *DAG_CASES, *SENSITIVITY) if case.operators < 5]


@pytest.mark.parametrize("contender", SMALL_CASES, ids=lambda case: case.label)
def test_every_contender_runs(contender: PlannerCase) -> None:
    tally = run_contender(contender, 300)
    assert tally.slots == 300
    assert 0.04 < tally.average_cost < 1


def test_contenders_run_side_by_side_as_they_do_alone() -> None:
    contenders = [contender for contender, _ in TABLE_1[:2]]
    reported: list[float] = []
    tallies = run_all(contenders, reported.append, slots=SHORT)
    assert tallies == [run_contender(contender, SHORT) for contender in contenders]
    assert reported == [0.5, 1.0]
    row = row_of(contenders[0], tallies[0])
    assert list(row) == ["policy", "avg_cost", "sla_violations", "reconfigurations", "avg_instances"]
    assert len(cost_curves("costs", contenders, tallies).data) == 2


def test_a_planner_is_made_by_the_name_of_its_policy() -> None:
    world = World(2, 100)
    kinds = {name: type(make_planner(world, name, {})).__name__ for name in ("mdp", "rl-centralized", "mdp-path")}
    assert kinds == {"mdp": "ExactPlanner", "rl-centralized": "CentralPlanner", "mdp-path": "PathPlanner"}


@pytest.fixture
def real() -> TaxiLoad:
    load = best_load()
    if not load.is_real:
        pytest.skip(load.why_not_real)
    return load


def test_real_taxis_are_scaled_to_the_document_s_mean_and_keep_their_own_days(real: TaxiLoad) -> None:
    assert len(real.counts) == 215 * 1440
    assert real.counts.mean() == pytest.approx(329, rel=0.001)
    by_hour = real.counts.reshape(215, 24, 60).mean(axis=(0, 2))
    assert by_hour.argmin() in (4, 5)
    assert by_hour.max() > 5 * by_hour.min()
    assert "New York's passengers" in real.note


@pytest.mark.soak
def test_costs_on_real_taxis_are_those_of_the_document_within_a_few_percent(real: TaxiLoad) -> None:
    off = {}
    for contender, printed in (TABLE_1[0], TABLE_1[3]):
        row = row_of(contender, run_contender(contender, 4 * MONTH, real))
        off[contender.label] = compared_with_document(row, {"avg_cost": printed[0]})["off_percent"]["avg_cost"]
    assert off["Centralized MDP"] == pytest.approx(-4, abs=2)
    assert off["Decentralized (U=0.6)"] == pytest.approx(-0.6, abs=2)


def test_without_traces_the_generator_is_used_and_the_notes_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "no-such-folder")
    load = best_load()
    assert not load.is_real
    reported = notes(load)[0]
    assert "come from a generator" in reported
    assert "were not used: the public traces are not at 'no-such-folder'" in reported


def test_every_column_is_compared_with_the_document() -> None:
    row = compared_with_document(
        {"policy": "p", "avg_cost": 0.18, "sla_violations": 50}, {"avg_cost": 0.2, "sla_violations": 40}
    )
    assert row["off_percent"] == {"avg_cost": -10.0, "sla_violations": 25.0}
    assert row["document"] == {"avg_cost": 0.2, "sla_violations": 40}


def test_the_mean_and_the_shape_of_a_day_are_those_of_taxis() -> None:
    counts = taxi_counts(4 * 7 * 1440, seed=1)
    assert counts.mean() == pytest.approx(MEAN_PER_MINUTE, rel=0.01)
    by_hour = counts.reshape(28, 24, 60)[:5].mean(axis=(0, 2))
    assert by_hour.argmin() in (3, 4)
    assert by_hour.argmax() in (18, 19, 20, 21)


def test_a_year_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    first, same, other = (taxi_counts(2000, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)
