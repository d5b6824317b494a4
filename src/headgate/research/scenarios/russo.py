"""russo-table-1, -fig-2b, -sensitivity, -dag, -beyond and -agents: a year of agents and central planners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headgate.core.types import JSON
from headgate.lab.scenario import Progress, ScenarioOutcome, part_of, scenario
from headgate.policies.planning.model import Weights
from headgate.render.page import Plot
from headgate.research.russo.evaluation import (
    MAX_INSTANCES,
    PlannerCase,
    World,
    best_load,
    cost_curves,
    make_planner,
    notes,
    row_of,
    run_all,
)
from headgate.research.russo.separate_agents import SeparateAgents
from headgate.research.russo.slotted_network import SlottedNetwork

OPERATORS = (1, 2, 3, 4)
FIGURE_2B: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Centralized MDP", "mdp", {}),
    ("Decentralized (U=0.7)", "rl-decentralized", {"targets": (0.7,)}),
    ("Decentralized (U=0.7), acting together", "rl-decentralized", {"targets": (0.7,), "together": True}),
)


@scenario(
    "russo-fig-2b",
    "One year, one to four operators: the exact plan against decentralised agents (russo figure 2b).",
    takes_s=300.0,
)
def run_figure_2b(progress: Progress) -> ScenarioOutcome:
    load = best_load()
    contenders = [
        PlannerCase(label, policy, options, operators)
        for operators in OPERATORS
        for label, policy, options in FIGURE_2B
    ]
    tallies = run_all(contenders, progress, load)
    costs = {
        (contender.operators, contender.label): tally.average_cost
        for contender, tally in zip(contenders, tallies, strict=True)
    }
    rows = [
        {
            "operators": contender.operators,
            **row_of(contender, tally),
            "above_mdp_percent": round(100 * (tally.average_cost / costs[contender.operators, FIGURE_2B[0][0]] - 1), 2),
            "document": None,
        }
        for contender, tally in zip(contenders, tallies, strict=True)
    ]
    bars = [
        {
            "type": "bar",
            "name": label,
            "x": list(OPERATORS),
            "y": [round(costs[operators, label], 5) for operators in OPERATORS],
        }
        for label, _, _ in FIGURE_2B
    ]
    layout = {
        "xaxis": {"title": {"text": "operators"}, "dtick": 1},
        "yaxis": {"title": {"text": "average cost per slot"}},
        "height": 460,
    }
    note = "The document prints no numbers for this figure and does not say which target its agents have."
    return ScenarioOutcome(rows, (*notes(load), note), [Plot("Average cost by number of operators", bars, layout)])


COLUMNS = ("avg_cost", "sla_violations", "reconfigurations", "avg_instances")
TABLE_1 = (
    (PlannerCase("Centralized MDP", "mdp", {}), (0.163, 8903, 13882, 10.95)),
    (PlannerCase("Centralized RL+", "rl-centralized", {"known": True}), (0.164, 9505, 13684, 10.94)),
    (PlannerCase("Centralized RL", "rl-centralized", {"known": False}), (0.167, 15681, 14579, 10.79)),
    (PlannerCase("Decentralized (U=0.6)", "rl-decentralized", {"targets": (0.6,)}), (0.178, 3639, 30104, 11.46)),
    (PlannerCase("Decentralized (U=0.7)", "rl-decentralized", {"targets": (0.7,)}), (0.173, 17111, 30404, 10.30)),
    (PlannerCase("Decentralized (U=0.8)", "rl-decentralized", {"targets": (0.8,)}), (0.205, 79670, 29681, 9.15)),
)
"""Each contender with the printed value of each column."""


@scenario("russo-table-1", "One year, three operators, six policies: the costs of russo's table 1.", takes_s=180.0)
def run_table_1(progress: Progress) -> ScenarioOutcome:
    load = best_load()
    contenders = [contender for contender, _ in TABLE_1]
    tallies = run_all(contenders, progress, load)
    rows = [
        compared_with_document(row_of(contender, tally), dict(zip(COLUMNS, printed, strict=True)))
        for (contender, printed), tally in zip(TABLE_1, tallies, strict=True)
    ]
    details = [
        {"policy": contender.label, "costs": [round(cost, 5) for cost in tally.curve]}
        for contender, tally in zip(contenders, tallies, strict=True)
    ]
    plot = cost_curves("Average cost over the year (figure 2a)", contenders, tallies)
    return ScenarioOutcome(rows, notes(load), [plot], details)


def compared_with_document(row: Mapping[str, JSON], document: Mapping[str, float]) -> dict[str, JSON]:
    """Return a row with the printed values and the deviations from them in percent."""
    off = {name: round(100 * (row[name] / printed - 1), 1) for name, printed in document.items()}
    return {**row, "off_percent": off, "document": dict(document)}


SENSITIVITY = (
    PlannerCase("mdp", "mdp", {}),
    PlannerCase("mdp, weight_violation 0.8", "mdp", {}, world={"weights": Weights(0.2 / 3, 0.4 / 3, 0.8)}),
    *(
        PlannerCase(f"rl-decentralized, U={target}, learns how busy it is", "rl-decentralized", options)
        for target in (0.6, 0.7, 0.8)
        for options in ({"targets": (target,), "known": False},)
    ),
)
UNSCATTERED = (
    PlannerCase("mdp", "mdp", {}),
    *(
        PlannerCase(f"rl-decentralized, U={target}", "rl-decentralized", {"targets": (target,)})
        for target in (0.6, 0.8)
    ),
)


@scenario(
    "russo-sensitivity",
    "One year, three operators: other weights, agents that learn more, minutes without scatter.",
    takes_s=180.0,
)
def run_sensitivity(progress: Progress) -> ScenarioOutcome:
    load = best_load()
    rows: list[dict[str, JSON]] = []
    groups = (("Poisson", load, SENSITIVITY), ("none", replace(load, is_scattered=False), UNSCATTERED))
    for place, (scatter, chosen, contenders) in enumerate(groups):
        tallies = run_all(contenders, part_of(progress, place / 2, 1 / 2), chosen)
        for contender, tally in zip(contenders, tallies, strict=True):
            violated_pct = round(100 * tally.violations / tally.slots, 2)
            rows.append({"scatter": scatter, **row_of(contender, tally), "violated_pct": violated_pct})
    return ScenarioOutcome(rows, notes(load))


DAG = {"is_forked": True}
DAG_CASES = (
    PlannerCase("mdp", "mdp", {}, 4, DAG),
    PlannerCase("mdp-path, same history", "mdp-path", {"studied": True}, 4, DAG),
    PlannerCase("mdp-path, learned on line", "mdp-path", {"known": True}, 4, DAG),
    PlannerCase("rl-decentralized, U=0.7", "rl-decentralized", {"targets": (0.7,)}, 4, DAG),
    PlannerCase("rl-decentralized, together", "rl-decentralized", {"together": True}, 4, DAG),
)


@scenario(
    "russo-dag",
    "One year of four operators with a fork and a join, where the document evaluates chains only.",
    takes_s=120.0,
)
def run_dag(progress: Progress) -> ScenarioOutcome:
    load = best_load()
    tallies = run_all(DAG_CASES, progress, load)
    exact = tallies[0].average_cost
    rows = [
        {**row_of(contender, tally), "above_mdp_percent": round(100 * (tally.average_cost / exact - 1), 2)}
        for contender, tally in zip(DAG_CASES, tallies, strict=True)
    ]
    note = "Every record passes the first operator, both operators of the fork and the last; the bound is 1.95 s."
    return ScenarioOutcome(rows, (*notes(load), note))


HETEROGENEOUS = {"speeds_per_s": (8.1, 2.7, 5.4)}
BEYOND = (
    *(PlannerCase("mdp, exact", "mdp", {}, operators) for operators in (3, 4, 5, 6)),
    *(
        PlannerCase("mdp-path, same history", "mdp-path", {"studied": True}, operators)
        for operators in (3, 4, 5, 6, 20)
    ),
    PlannerCase("mdp, exact, speeds 3 : 1 : 2", "mdp", {}, world=HETEROGENEOUS),
    PlannerCase("mdp-path, same history, speeds 3 : 1 : 2", "mdp-path", {"studied": True}, world=HETEROGENEOUS),
    PlannerCase("mdp-path, learned on line", "mdp-path", {"known": True}),
    PlannerCase("mdp-path, learned on line without response times", "mdp-path", {"known": False}),
    PlannerCase("rl-decentralized, target found", "rl-decentralized", {}),
    PlannerCase("rl-decentralized, target found, acting together", "rl-decentralized", {"together": True}),
)


@scenario(
    "russo-beyond",
    "One year, three to twenty operators: our additions to russo's policies, against the exact plan.",
    takes_s=180.0,
)
def run_beyond(progress: Progress) -> ScenarioOutcome:
    load = best_load()
    # The longest runs first, so that both processes end at about the same time.
    order = sorted(range(len(BEYOND)), key=lambda index: BEYOND[index].policy != "rl-decentralized")
    tallies = dict(zip(order, run_all([BEYOND[index] for index in order], progress, load), strict=True))
    exact = {
        _problem(contender): tallies[index].average_cost
        for index, contender in enumerate(BEYOND)
        if contender.policy == "mdp"
    }
    rows = [
        {
            "operators": contender.operators,
            **row_of(contender, tallies[index]),
            "above_mdp_percent": round(100 * (tallies[index].average_cost / exact[_problem(contender)] - 1), 3)
            if _problem(contender) in exact
            else None,
        }
        for index, contender in enumerate(BEYOND)
    ]
    return ScenarioOutcome(
        rows, (*notes(load), "The exact plan for 20 operators is out of reach: it has 5^20 configurations.")
    )


def _problem(contender: PlannerCase) -> tuple[int, bool]:
    """Return what an exact plan has in common with the others on the same application."""
    return contender.operators, bool(contender.world)


WEEK = 7 * 1440
TARGET = 0.7


@scenario(
    "russo-agents",
    "A week of three agents as processes of their own, which exchange one number per slot or none.",
    takes_s=40.0,
)
def run_agents(progress: Progress) -> ScenarioOutcome:
    load = best_load()
    world = World(3, WEEK, load)
    start = ((MAX_INSTANCES + 1) // 2,) * world.operators
    rows: list[dict[str, JSON]] = []
    for together in (False, True):
        label = f"Decentralized (U={TARGET}){', acting together' if together else ''}"
        case = PlannerCase(label, "rl-decentralized", {"targets": (TARGET,), "together": together})
        within = world.run(make_planner(world, case.policy, case.options))
        with SeparateAgents(world.application, world.grid, target=TARGET, together=together) as agents:
            apart = SlottedNetwork(world.application, world.grid).run(agents, world.levels, start)
        rows += [
            {**row_of(case, within), "processes": 1, "numbers_per_agent_and_slot": None, "same_result": None},
            {
                **row_of(case, apart),
                "processes": world.operators,
                "numbers_per_agent_and_slot": agents.exchanged / world.operators / WEEK,
                "same_result": apart == within,
            },
        ]
        progress(len(rows) / 4)
    note = (
        "Each agent is a process that knows its operator's speed, rate and size. Acting together it sends what its "
        "best move would save to each of the others; nobody adds up for them."
    )
    return ScenarioOutcome(rows, (*notes(load), note))
