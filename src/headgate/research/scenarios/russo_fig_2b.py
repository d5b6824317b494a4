"""russo-fig-2b: how far decentralised agents stay from the exact plan as the application grows."""

from __future__ import annotations

from typing import Any

from headgate.lab.scenario import Outcome, Progress, scenario
from headgate.render.plots import Plot
from headgate.research.russo.evaluation import Contender, notes, row_of, run_all
from headgate.research.russo.loads import best_load

OPERATORS = (1, 2, 3, 4)
POLICIES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Centralized MDP", "mdp", {}),
    ("Decentralized (U=0.7)", "rl-decentralized", {"targets": (0.7,)}),
    ("Decentralized (U=0.7), acting together", "rl-decentralized", {"targets": (0.7,), "together": True}),
)


@scenario(
    "russo-fig-2b",
    "One year, one to four operators: the exact plan against decentralised agents (russo figure 2b).",
    takes_s=300.0,
)
def run(progress: Progress) -> Outcome:
    load = best_load()
    contenders = [
        Contender(label, policy, options, operators) for operators in OPERATORS for label, policy, options in POLICIES
    ]
    tallies = run_all(contenders, progress, load)
    costs = {(one.operators, one.label): tally.average_cost for one, tally in zip(contenders, tallies, strict=True)}
    rows = [
        {
            "operators": one.operators,
            **row_of(one, tally),
            "above_mdp_percent": round(100 * (tally.average_cost / costs[one.operators, POLICIES[0][0]] - 1), 2),
            "document": None,
        }
        for one, tally in zip(contenders, tallies, strict=True)
    ]
    bars = [
        {
            "type": "bar",
            "name": label,
            "x": list(OPERATORS),
            "y": [round(costs[operators, label], 5) for operators in OPERATORS],
        }
        for label, _, _ in POLICIES
    ]
    axes = {
        "xaxis": {"title": {"text": "operators"}, "dtick": 1},
        "yaxis": {"title": {"text": "average cost per slot"}},
    }
    told = "The document prints no numbers for this figure and does not say which target its agents have."
    return Outcome(
        rows, (*notes(load), told), [Plot("Average cost by number of operators", bars, {**axes, "height": 460})]
    )
