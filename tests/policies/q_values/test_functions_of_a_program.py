"""Rewards, initialisers, explorations and strategies that a program supplies itself, by name."""

from __future__ import annotations

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.core.plugins import Functions
from headgate.policies import (
    EXPLORATIONS,
    INITIALISERS,
    REWARDS,
    STRATEGIES,
    Action,
    ActionResult,
    Choice,
    NewState,
    ProposedStep,
)
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload


@pytest.fixture(autouse=True)
def _functions_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test has registered."""
    for functions in (REWARDS, INITIALISERS, EXPLORATIONS, STRATEGIES):
        monkeypatch.setattr(functions, "_known", dict(functions._known))


def run(**settings: object) -> SimulationResult:
    return simulate(
        "q-learning",
        parse_workload("sine:mean=30,amplitude=20,period=30m"),
        objective=parse_objective("latency p95 < 20s").within(1, 8),
        settings={key: value for key, value in settings.items() if key != "strategy"},
        guards={"strategy": settings["strategy"]} if "strategy" in settings else None,
        service_rate_per_s=10.0,
        model=MicroBatch(trigger_interval_s=5.0),
        seconds=3600.0,
    )


def test_a_job_learns_by_its_own_functions() -> None:
    results: list[ActionResult] = []
    states: list[NewState] = []

    @REWARDS.register("by-cost")
    def by_cost(result: ActionResult) -> float:
        results.append(result)
        return -result.instances / 8 if result.latency_share < 1 else -1.0

    @INITIALISERS.register("hopeful")
    def hopeful(state: NewState) -> tuple[float, float, float]:
        states.append(state)
        return 1.0, 0.5, 0.0

    @EXPLORATIONS.register("always")
    def always(choice: Choice) -> tuple[Action | None, float]:
        return choice.drawn(), choice.epsilon / 2

    @STRATEGIES.register("three")
    def three(step: ProposedStep) -> tuple[int, str]:
        return 3, "three at a time"

    result = run(reward="by-cost", initialization_mode="hopeful", policy="always", strategy="three", epsilon=0.8)
    agent = result.state["operators"]["job"] if "operators" in result.state else result.state["agents"]["job"]
    assert len(states) == 2 * 7, "each state of seven buckets of latency"
    assert {result.action for result in results} == set(Action)
    assert agent["epsilon"] < 1e-6
    verdicts = [decision.verdicts["job"] for decision in result.decisions if not decision.is_hold]
    assert {verdict.numbers["action"] for verdict in verdicts} <= {"scale out", "scale in"}
    assert all(abs(verdict.change) == 3 or verdict.target in (1, 8) for verdict in verdicts)
    assert any("three at a time" in note.why for verdict in verdicts for note in verdict.notes)


def test_a_strategy_never_turns_the_direction() -> None:
    @STRATEGIES.register("backwards")
    def backwards(step: ProposedStep) -> tuple[int, str]:
        return -2, "backwards"

    result = run(strategy="backwards")
    assert all(decision.is_hold for decision in result.decisions)


def test_an_unknown_name_is_answered_with_the_closest_one() -> None:
    with pytest.raises(
        InputError, match=r"q-learning setting reward 'latency-onyl' is not allowed: .*did you mean 'latency-only'"
    ):
        run(reward="latency-onyl")
    with pytest.raises(InputError, match=r"setting strategy 'linaer' is not allowed: .*did you mean 'linear'"):
        run(strategy="linaer")


def test_a_name_is_given_once() -> None:
    functions: Functions[type[int]] = Functions("reward", "headgate.rewards")
    functions.register("mine")(int)
    functions.register("mine")(int)
    with pytest.raises(InputError, match="a reward is called 'mine' already; give yours another name"):
        functions.register("mine")(bool)
    assert functions.names == ("mine",)
