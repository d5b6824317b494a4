"""russo-table-1: a year, three operators, six policies."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.types import JSON
from headgate.lab.scenario import Outcome, Progress, scenario
from headgate.research.russo.evaluation import Contender, cost_curves, notes, row_of, run_all
from headgate.research.russo.loads import best_load

COLUMNS = ("avg_cost", "sla_violations", "reconfigurations", "avg_instances")
ROWS = (
    (Contender("Centralized MDP", "mdp", {}), (0.163, 8903, 13882, 10.95)),
    (Contender("Centralized RL+", "rl-centralized", {"known": True}), (0.164, 9505, 13684, 10.94)),
    (Contender("Centralized RL", "rl-centralized", {"known": False}), (0.167, 15681, 14579, 10.79)),
    (Contender("Decentralized (U=0.6)", "rl-decentralized", {"targets": (0.6,)}), (0.178, 3639, 30104, 11.46)),
    (Contender("Decentralized (U=0.7)", "rl-decentralized", {"targets": (0.7,)}), (0.173, 17111, 30404, 10.30)),
    (Contender("Decentralized (U=0.8)", "rl-decentralized", {"targets": (0.8,)}), (0.205, 79670, 29681, 9.15)),
)
"""Each contender, and what is printed for it in each column."""


@scenario("russo-table-1", "One year, three operators, six policies: the costs of russo's table 1.", takes_s=180.0)
def run(progress: Progress) -> Outcome:
    load = best_load()
    contenders = [contender for contender, _ in ROWS]
    tallies = run_all(contenders, progress, load)
    rows = [
        beside_the_document(row_of(contender, tally), dict(zip(COLUMNS, printed, strict=True)))
        for (contender, printed), tally in zip(ROWS, tallies, strict=True)
    ]
    return Outcome(rows, notes(load), [cost_curves("Average cost over the year (figure 2a)", contenders, tallies)])


def beside_the_document(row: Mapping[str, JSON], document: Mapping[str, float]) -> dict[str, JSON]:
    """A row with what is printed, and how far it is from that in each column."""
    off = {name: round(100 * (row[name] / printed - 1), 1) for name, printed in document.items()}
    return {**row, "off_percent": off, "document": dict(document)}
