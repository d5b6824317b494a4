"""How fast sizes are planned: a sweep of value iteration, a plan along a path, and a decision for twenty operators."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from benchmarks.common import Row, best_s, reference_s, report

from headgate.core.objective import LatencySlo, Objective
from headgate.core.topology import Topology
from headgate.core.types import Instances, Observation, Sample
from headgate.core.window import History
from headgate.policies import Context, make_policy
from headgate.policies.planning.central import CentralPlanner
from headgate.policies.planning.path import PathPlanner
from headgate.research.russo.evaluation import World

SWEEPS = 20
SLOTS = 50


def sweeps(operators: int) -> Callable[[], None]:
    world = World(operators, slots=100)
    planner = CentralPlanner(world.application, world.grid)

    def work() -> None:
        for _ in range(SWEEPS):
            planner.after = planner.sweep(planner.after)

    return work


def path_plan(operators: int) -> Callable[[], None]:
    world = World(operators, slots=100)
    history = world.training

    def work() -> None:
        PathPlanner(world.application, world.grid).study(history)

    return work


def decisions(operators: int) -> Callable[[], None]:
    """Whole decisions of the policy, learning included, from readings to the proposal."""
    names = tuple(f"operator-{index}" for index in range(operators))
    topology = Topology(names, tuple(pairwise(names)))
    objective = Objective(LatencySlo(0.65 * operators), 1, 5)
    policy = make_policy("mdp-path", Context(objective, topology), {"service_rate_per_s": 3.0, "trusted_visits": 0})
    window = History(topology)
    slot = 0

    def work() -> None:
        nonlocal slot
        for _ in range(SLOTS):
            slot += 1
            rate = 4.0 + slot % 7
            samples = {name: Sample(name, 60.0 * slot, input_rate_per_s=rate, latency_s=0.5) for name in names}
            window.observe(Observation(60.0 * slot, samples, dict.fromkeys(names, Instances(3, 3, 3))))
            policy.decide(60.0 * slot, window)

    return work


def bench_planning() -> None:
    """Milliseconds of CPU time each."""
    yardstick_s = reference_s()
    cases: list[tuple[str, int, Callable[[], None], int, int]] = [
        ("sweep of the exact plan", 3, sweeps(3), SWEEPS, 5),
        ("sweep of the exact plan", 6, sweeps(6), SWEEPS, 3),
        ("plan along a path, swaps included", 3, path_plan(3), 1, 2),
        ("plan along a path, swaps included", 20, path_plan(20), 1, 1),
        ("decision of mdp-path", 3, decisions(3), SLOTS, 3),
        ("decision of mdp-path", 20, decisions(20), SLOTS, 3),
    ]
    rows: list[Row] = []
    for what, operators, work, times, repeats in cases:
        each_s = best_s(work, repeats) / times
        rows.append(
            {
                "what": what,
                "operators": operators,
                "milliseconds": 1000 * each_s,
                "times_reference_loop": each_s / yardstick_s,
            }
        )
    report("planning", rows)


if __name__ == "__main__":
    bench_planning()
