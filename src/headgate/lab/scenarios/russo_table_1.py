"""russo-table-1: a year, three operators, six policies."""

from __future__ import annotations

from headgate.lab.russo.evaluation import NOTES, Contender, cost_curves, row_of, run_all
from headgate.lab.scenario import Outcome, Progress, scenario

ROWS = (
    (Contender("Centralized MDP", "mdp", {}), (0.163, 8903, 13882, 10.95)),
    (Contender("Centralized RL+", "rl-centralized", {"known": True}), (0.164, 9505, 13684, 10.94)),
    (Contender("Centralized RL", "rl-centralized", {"known": False}), (0.167, 15681, 14579, 10.79)),
    (Contender("Decentralized (U=0.6)", "rl-decentralized", {"targets": (0.6,)}), (0.178, 3639, 30104, 11.46)),
    (Contender("Decentralized (U=0.7)", "rl-decentralized", {"targets": (0.7,)}), (0.173, 17111, 30404, 10.30)),
    (Contender("Decentralized (U=0.8)", "rl-decentralized", {"targets": (0.8,)}), (0.205, 79670, 29681, 9.15)),
)
"""Each contender, and the average cost, violations, reconfigurations and average instances that are printed for it."""


@scenario("russo-table-1", "One year, three operators, six policies: the costs of russo's table 1.")
def run(progress: Progress) -> Outcome:
    contenders = [contender for contender, _ in ROWS]
    tallies = run_all(contenders, progress)
    rows = []
    for (contender, printed), tally in zip(ROWS, tallies, strict=True):
        cost, violations, reconfigurations, instances = printed
        document = {
            "avg_cost": cost,
            "sla_violations": violations,
            "reconfigurations": reconfigurations,
            "avg_instances": instances,
        }
        off = round(100 * (tally.average_cost / cost - 1), 2)
        rows.append(row_of(contender, tally) | {"cost_off_percent": off, "document": document})
    return Outcome(rows, NOTES, [cost_curves("Average cost over the year (figure 2a)", contenders, tallies)])
