"""russo-beyond: what a found target, acting together and planning along a path are worth, against the exact plan."""

from __future__ import annotations

from headgate.lab.scenario import Outcome, Progress, scenario
from headgate.research.russo.evaluation import Contender, notes, row_of, run_all
from headgate.research.russo.loads import best_load

CONTENDERS = (
    *(Contender("mdp, exact", "mdp", {}, operators) for operators in (3, 4, 5, 6)),
    *(Contender("mdp-path, same history", "mdp-path", {"studied": True}, operators) for operators in (3, 4, 5, 6, 20)),
    Contender("mdp-path, learned on line", "mdp-path", {"known": True}),
    Contender("mdp-path, learned on line without response times", "mdp-path", {"known": False}),
    Contender("rl-decentralized, target found", "rl-decentralized", {}),
    Contender("rl-decentralized, target found, acting together", "rl-decentralized", {"together": True}),
)


@scenario(
    "russo-beyond",
    "One year, three to twenty operators: what we add to russo's policies, against the exact plan.",
    takes_s=180.0,
)
def run(progress: Progress) -> Outcome:
    load = best_load()
    # The longest first, so that no process waits for the other at the end.
    order = sorted(range(len(CONTENDERS)), key=lambda index: CONTENDERS[index].policy != "rl-decentralized")
    tallies = dict(zip(order, run_all([CONTENDERS[index] for index in order], progress, load), strict=True))
    exact = {one.operators: tallies[index].average_cost for index, one in enumerate(CONTENDERS) if one.policy == "mdp"}
    rows = [
        {
            "operators": one.operators,
            **row_of(one, tallies[index]),
            "above_mdp_percent": round(100 * (tallies[index].average_cost / exact[one.operators] - 1), 3)
            if one.operators in exact
            else None,
        }
        for index, one in enumerate(CONTENDERS)
    ]
    return Outcome(rows, (*notes(load), "Nobody knows the exact plan for 20 operators: it has 5^20 configurations."))
