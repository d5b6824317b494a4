"""The world in which russo's policies are compared: a pipeline of M/D/1 operators under a year of taxi-like load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

from headgate.core.topology import Topology
from headgate.core.types import JSON
from headgate.lab.processes import in_processes
from headgate.lab.scenario import Progress
from headgate.policies.planning.agents import CANDIDATES, AgentsPlanner
from headgate.policies.planning.central import CentralPlanner, ExactPlanner
from headgate.policies.planning.model import Application, Planner, RateGrid, Transitions
from headgate.policies.planning.path import PathPlanner
from headgate.render.plots import Plot
from headgate.research.russo.loads import GENERATED, TaxiLoad
from headgate.research.russo.slotted_network import SlottedNetwork, Tally, levels_like
from headgate.research.russo.taxi import MINUTES_PER_YEAR

SERVICE_RATES_PER_S = (3.7, 3.3, 2.7, 3.3)
"""μ of the document's four operators; further ones repeat them."""
MAX_INSTANCES = 5
QUANTUM_PER_S = 20 / 60
BOUND_S = 0.65
PROCESSES = 2
YEAR_SEED = 1

READING = (
    "Bound: the document's 650 ms cannot be met by three operators, whose service times alone add up to 944 ms. It is "
    "read as 650 ms per operator, on the sum along the path: 1.95 s for three.",
    "A slot's penalty is taken at the rate that arrives in it, not at the one measured before its sizes were chosen.",
    "Learning starts from nothing: values 0, one sweep per slot, greedy, ties stay, no start-up policy. A rate that "
    "was not seen before is taken to stay.",
    "Without a known response time (RL) the penalty is averaged with weight 0.1 for each rate and resulting sizes "
    "(eq. 6).",
    "Decentralised agents know how busy they will be from their operator's speed. The document does not say so, and "
    "its mark for a known model is missing from those rows. Both readings were tried: when agents learn it (eq. 6), on "
    "a generated year, the costs were 0.183, 0.174 and 0.187, the last of them 9 % below the document's.",
)
"""How the document is read where it leaves something open."""


def notes(load: TaxiLoad) -> tuple[str, ...]:
    return (load.note, *READING)


@dataclass(frozen=True)
class World:
    """A pipeline of so many operators, and its year."""

    operators: int = 3
    slots: int = MINUTES_PER_YEAR
    load: TaxiLoad = GENERATED

    @cached_property
    def application(self) -> Application:
        names = [f"operator-{index + 1}" for index in range(self.operators)]
        repeats = -(-self.operators // len(SERVICE_RATES_PER_S))
        return Application(
            Topology(tuple(names), tuple(pairwise(names))),
            (SERVICE_RATES_PER_S * repeats)[: self.operators],
            BOUND_S * self.operators,
            MAX_INSTANCES,
        )

    @cached_property
    def grid(self) -> RateGrid:
        # The slowest operator of any pipeline bounds the rates, so that all of them see the same year.
        return RateGrid.up_to(MAX_INSTANCES * min(SERVICE_RATES_PER_S), QUANTUM_PER_S)

    @cached_property
    def training(self) -> list[int]:
        """The levels of the minutes from which the transition probabilities are taken."""
        return [self.grid.level_of(count / 60) for count in self.load.counts.tolist()]

    @cached_property
    def levels(self) -> list[int]:
        """The levels of the year that is run."""
        known = Transitions(self.grid.levels, self.training)
        return levels_like(known.matrix, self.training[0], self.slots, YEAR_SEED)

    def run(self, planner: Planner) -> Tally:
        middle = (MAX_INSTANCES + 1) // 2
        return SlottedNetwork(self.application, self.grid).run(planner, self.levels, (middle,) * self.operators)


def make_planner(world: World, kind: str, options: Mapping[str, Any]) -> Planner:
    """A planner by the name of its policy, as its policy makes it."""
    application, grid = world.application, world.grid
    if kind == "mdp":
        exact = ExactPlanner(application, grid)
        exact.study(world.training)
        return exact
    if kind == "rl-centralized":
        return CentralPlanner(application, grid, **options)
    if kind == "rl-decentralized":
        return AgentsPlanner(application, (grid,) * world.operators, **{"targets": CANDIDATES, **options})
    studied = options.get("studied", False)
    path = PathPlanner(application, grid, known=options.get("known", True), sweeps=0 if studied else 1)
    if studied:
        path.study(world.training)
    return path


@dataclass(frozen=True)
class Contender:
    """One line of a table: a policy of the registry, under the name that the table gives it."""

    label: str
    policy: str
    options: Mapping[str, Any]
    operators: int = 3


def run_contender(contender: Contender, slots: int, load: TaxiLoad = GENERATED) -> Tally:
    world = World(contender.operators, slots, load)
    return world.run(make_planner(world, contender.policy, contender.options))


def run_all(
    contenders: Sequence[Contender], progress: Progress, load: TaxiLoad = GENERATED, slots: int = MINUTES_PER_YEAR
) -> list[Tally]:
    """Run contenders side by side on a few processes; what each comes to does not depend on the others."""
    results: dict[int, Tally] = {}
    for index, tally in in_processes(partial(run_contender, slots=slots, load=load), contenders, PROCESSES):
        results[index] = tally
        progress(len(results) / len(contenders))
    return [results[index] for index in range(len(contenders))]


def row_of(contender: Contender, tally: Tally) -> dict[str, JSON]:
    return {
        "policy": contender.label,
        "avg_cost": round(tally.average_cost, 5),
        "sla_violations": tally.violations,
        "reconfigurations": tally.reconfigurations,
        "avg_instances": round(tally.average_instances, 3),
    }


def cost_curves(title: str, contenders: Sequence[Contender], tallies: Sequence[Tally]) -> Plot:
    """The average cost since the start, over the run."""
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": contender.label,
            "x": [round(tally.slots / 1440 * (index + 1) / len(tally.curve), 2) for index in range(len(tally.curve))],
            "y": [round(cost, 5) for cost in tally.curve],
        }
        for contender, tally in zip(contenders, tallies, strict=True)
    ]
    layout = {
        "xaxis": {"title": {"text": "days"}},
        "yaxis": {"title": {"text": "average cost per slot"}},
        "height": 460,
    }
    return Plot(title, data, layout, "A line is a policy: what a minute cost on average, from the start to that day.")
