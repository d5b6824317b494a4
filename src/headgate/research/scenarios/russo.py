"""russo-table-1, russo-fig-2b, russo-beyond: a year of decentralised agents and central planners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.core.types import JSON
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.render.plots import Plot
from headgate.research.russo.evaluation import PlannerCase, best_load, cost_curves, notes, row_of, run_all

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
    return ScenarioOutcome(
        rows, notes(load), [cost_curves("Average cost over the year (figure 2a)", contenders, tallies)]
    )


def compared_with_document(row: Mapping[str, JSON], document: Mapping[str, float]) -> dict[str, JSON]:
    """Return a row with the printed values and the deviations from them in percent."""
    off = {name: round(100 * (row[name] / printed - 1), 1) for name, printed in document.items()}
    return {**row, "off_percent": off, "document": dict(document)}


BEYOND = (
    *(PlannerCase("mdp, exact", "mdp", {}, operators) for operators in (3, 4, 5, 6)),
    *(
        PlannerCase("mdp-path, same history", "mdp-path", {"studied": True}, operators)
        for operators in (3, 4, 5, 6, 20)
    ),
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
        contender.operators: tallies[index].average_cost
        for index, contender in enumerate(BEYOND)
        if contender.policy == "mdp"
    }
    rows = [
        {
            "operators": contender.operators,
            **row_of(contender, tallies[index]),
            "above_mdp_percent": round(100 * (tallies[index].average_cost / exact[contender.operators] - 1), 3)
            if contender.operators in exact
            else None,
        }
        for index, contender in enumerate(BEYOND)
    ]
    return ScenarioOutcome(
        rows, (*notes(load), "The exact plan for 20 operators is out of reach: it has 5^20 configurations.")
    )
