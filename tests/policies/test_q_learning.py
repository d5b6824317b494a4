"""q-learning as a policy: what it sees, what it learns from, how it explores, and that it can stop and go on."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from headgate.core.errors import InputError, StateError
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Sample, Target, Verdict
from headgate.core.window import History
from headgate.policies.frame.base import AnyPolicy
from headgate.policies.q_values.table import Action, QState, QTable
from headgate.runtime.simulate import simulate
from headgate.workloads.steps import Steps
from tests.core.building import JOB, observation, policy

SETTINGS = {"latency_granularity_s": 10, "max_latency_s": 60, "window_size_s": 60, "decision_interval_s": 60}


class Run:
    """A job with the given readings, once a minute, and does what the policy wants unless it is stopped."""

    def __init__(self, chosen: AnyPolicy, planned: int = 4) -> None:
        self.policy = chosen
        self.window = History(JOB)
        self.planned = planned
        self.now = 0.0

    def tick(
        self,
        latency_s: float | None,
        rate: float | None = 100.0,
        *,
        stopped: bool = False,
        doubted: bool = False,
        wait_s: float = 60.0,
    ) -> Target:
        sample = Sample("job", self.now, latency_s=latency_s, input_rate_per_s=rate)
        self.window.observe(observation(self.now, self.planned, sample=sample), ["job"] if doubted else [])
        target = self.policy.decide(self.now, self.window).targets["job"]
        size = self.planned if stopped else target.instances
        verdict = Verdict("job", self.planned, target.instances, size, target.code, target.reason)
        self.window.record(Decision(self.now, "q-learning", {"job": verdict}))
        self.planned = size
        self.now += wait_s
        return target


def learner(**changes: Any) -> AnyPolicy:
    return policy("q-learning", "latency < 30s", **(SETTINGS | changes))


def table(chosen: AnyPolicy) -> QTable:
    return QTable.from_json(chosen.snapshot()["agents"]["job"]["table"])


def test_a_decision_tells_the_three_values_and_why_the_action_won() -> None:
    run = Run(learner())
    assert run.tick(25).code == "between-decisions"
    target = run.tick(25)
    assert (target.instances, target.code) == (5, "scale-out")
    assert target.numbers["region"] == 1
    assert [target.numbers[key] for key in ("q_out", "q_none", "q_in")] == pytest.approx([25 / 30, 5 / 30, 0])
    assert target.reason == (
        "latency 25 s and a rising load (region 1): scale out is worth 0.833, no action 0.167, scale in 0"
    )


@pytest.mark.parametrize(
    ("latency_s", "rates", "load", "region", "instances"),
    [
        (25, (100, 100, 120), "rising", 1, 5),
        (35, (100, 100, 120), "rising", 2, 5),
        (35, (100, 100, 80), "falling", 3, 4),
        (5, (100, 100, 80), "falling", 4, 3),
        (5, (100, 100, 100.4), "rising", 1, 4),
        # Nearer than the granularity, though a whole number lies in between.
        (5, (100, 100, 99.9), "rising", 1, 4),
        (5, (100, 100, 98.9), "falling", 4, 3),
    ],
)
def test_each_region_leads_to_the_action_that_is_preferred_there(
    latency_s: float, rates: tuple[float, ...], load: str, region: int, instances: int
) -> None:
    """At the third tick two windows are full; a difference below the granularity is none."""
    run = Run(learner(decision_interval_s=120, window_size_s=59))
    targets = [run.tick(latency_s, rate) for rate in rates]
    assert (targets[-1].numbers["load"], targets[-1].numbers["region"]) == (load, region)
    assert targets[-1].instances == instances


def test_the_latency_of_a_state_is_the_mean_of_the_window() -> None:
    run = Run(learner(decision_interval_s=120, window_size_s=120))
    assert [run.tick(latency_s) for latency_s in (12, 24, 36)][-1].numbers["latency_s"] == pytest.approx(24)


@pytest.mark.parametrize("update", ["sarsa", "q"])
def test_an_experience_is_learned_by_equation_4_4(update: str) -> None:
    # Q(20-30 s, rising, out) is 25/30 at first, the reward for scaling out there too, and it is the best action again.
    run = Run(learner(update=update))
    run.tick(25), run.tick(25), run.tick(25)
    worth = 0.3 * 25 / 30 + 0.7 * (25 / 30 + 0.9 * 25 / 30)
    assert table(run.policy).values(QState(2, True))[Action.OUT] == pytest.approx(worth)


def test_sarsa_learns_from_the_chosen_action_and_q_from_the_best() -> None:
    """After a scale-in that let latency fall, scale-out is ruled out although its value is the best."""
    learned = {}
    for update in ("sarsa", "q"):
        run = Run(learner(update=update, initialization_mode="zero"))
        run.tick(28), run.tick(28)
        state = dict(run.policy.snapshot())
        saved = state["agents"]["job"]
        saved["table"]["values"][2][1] = [5.0, 1.0, 0.0]
        saved["last"][4] = Action.IN.value
        run.policy.restore(state)
        run.window.record(Decision(60.0, "q-learning", {"job": Verdict("job", 4, 3, 3, "test", "test")}))
        target = run.tick(22)
        assert "scale out ruled out by what the last action brought" in target.reason
        learned[update] = table(run.policy).values(QState(2, True))[Action.IN]
    # The mean latency fell to 25 s: a scale-in gets 0 in region 1.
    assert learned["sarsa"] == pytest.approx(0.7 * (0 + 0.9 * 1.0))
    assert learned["q"] == pytest.approx(0.7 * (0 + 0.9 * 5.0))


@pytest.mark.parametrize(
    ("planned", "useful", "code", "reported"),
    [
        (4, None, "scale-out", ""),
        (10, None, "no-action", "scale out ruled out at the most of 10 instances"),
        (12, None, "no-action", "scale out ruled out at the most of 10 instances"),
        (4, 4, "no-action", "scale out ruled out as no more than 4 instances would find work"),
        (3, 4, "scale-out", ""),
    ],
)
def test_growing_is_no_choice_where_it_could_change_nothing(
    planned: int, useful: int | None, code: str, reported: str
) -> None:
    """Latency and load call for growth; an action without effect would be credited as none, again and again."""
    run = Run(learner(), planned)
    run.tick(25)
    run.window.observe(observation(30, planned, sample=Sample("job", 30, latency_s=25, useful_instances=useful)))
    sample = Sample("job", 60, latency_s=25, input_rate_per_s=100, useful_instances=useful)
    run.window.observe(observation(60, planned, sample=sample))
    target = run.policy.decide(60, run.window).targets["job"]
    assert target.code == code
    assert reported in target.reason


def test_shrinking_is_no_choice_at_the_least_size() -> None:
    run = Run(learner(decision_interval_s=120, window_size_s=59), planned=1)
    target = [run.tick(5, rate) for rate in (100, 100, 80)][-1]
    assert (target.code, target.instances) == ("no-action", 1)
    assert "scale in ruled out at the least of 1" in target.reason


@pytest.mark.parametrize("name", ["q-learning", "value-iteration"])
def test_it_does_not_stay_at_the_largest_size(name: str) -> None:
    """Three instances are needed in the mean, and eight at the most; while it learns it may stay for an hour."""
    rates = 30 * np.random.default_rng(1).lognormal(0, 0.3, 240)
    load = Steps([60.0 * index for index in range(241)], rates.tolist(), "restless")
    result = simulate(
        name,
        load,
        objective=parse_objective("latency < 10s").within(1, 20),
        service_rate_per_s=10.0,
        model="micro-batch",
        start=20,
        startup_s=30.0,
        seconds=load.end_s,
    )
    largest = [seen.instances["job"].ready == 20 for seen in result.observations]
    assert sum(largest) < 0.4 * len(largest)
    assert result.summary.mean_instances < 16


def test_a_scale_out_that_a_guard_stopped_is_learned_as_no_action() -> None:
    run = Run(learner())
    run.tick(25)
    assert run.tick(25, stopped=True).code == "scale-out"
    after = run.tick(25)
    assert after.numbers["last_action"] == "no action"
    assert table(run.policy).visits(QState(2, True)) == (0, 1, 0)


def test_it_decides_once_per_interval() -> None:
    run = Run(learner(decision_interval_s=180))
    assert [run.tick(25).code for _ in range(7)] == [
        "between-decisions", "between-decisions", "between-decisions", "scale-out",
        "between-decisions", "between-decisions", "scale-out",
    ]  # fmt: skip


def test_without_a_rate_it_does_not_scale_in() -> None:
    run = Run(learner(initialization_mode="zero"))
    run.tick(5), run.tick(5)
    state = dict(run.policy.snapshot())
    state["agents"]["job"]["table"]["values"][0] = [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    run.policy.restore(state)
    blind = run.tick(5, None)
    assert blind.code == "no-action"
    assert blind.reason.endswith("scale in ruled out as long as the load is not known")
    assert run.tick(5, 100).code == "scale-in"


def test_without_a_latency_it_holds_and_does_not_learn_across_the_gap() -> None:
    run = Run(learner())
    run.tick(25), run.tick(25)
    assert run.tick(None).code == "no-data"
    run.tick(25)
    assert table(run.policy).visits(QState(2, True)) == (0, 0, 0)


def test_a_doubted_reading_is_waited_out_and_does_not_postpone_later_decisions() -> None:
    run = Run(learner())
    run.tick(25), run.tick(25)
    assert run.tick(25, doubted=True, wait_s=5).code == "doubted"
    assert table(run.policy).visits(QState(2, True)) == (0, 0, 0)
    assert run.tick(25, wait_s=55).code == "scale-out"
    assert table(run.policy).visits(QState(2, True)) == (1, 0, 0), "the reading that followed is learned from"
    assert run.tick(25).code == "scale-out", "at its usual time"


def test_where_doubt_lasts_it_decides_without_a_trial_and_learns_nothing() -> None:
    run = Run(learner(policy="one-minus-epsilon", epsilon=1.0))
    assert run.tick(25).code == "between-decisions"
    codes = [run.tick(25, doubted=True, wait_s=10).code for _ in range(24)]
    assert codes[:4] == ["doubted", "doubted", "doubted", "scale-out"]
    assert set(codes) == {"doubted", "scale-out", "between-decisions"}
    run.tick(25)
    assert table(run.policy).visits(QState(2, True)) == (0, 0, 0)


def explored(chosen: AnyPolicy, ticks: int = 60) -> list[tuple[str, Any]]:
    run = Run(chosen)
    targets = [run.tick(25) for _ in range(ticks)]
    return [(target.code, target.numbers.get("epsilon")) for target in targets[1:]]


def test_greedy_never_explores() -> None:
    assert all(code != "exploring" for code, _ in explored(learner(epsilon=1)))


def test_one_minus_epsilon_explores_with_its_probability() -> None:
    codes = [code for code, _ in explored(learner(policy="one-minus-epsilon", epsilon=0.2), 400)]
    assert 0.1 < codes.count("exploring") / len(codes) < 0.3


def test_the_decreasing_one_ends_greedy() -> None:
    reason = explored(learner(policy="decreasing-one-minus-epsilon", epsilon=0.5, epsilon_step=0.05))
    assert reason[0][1] == pytest.approx(0.45)
    assert reason[-1][1] == 0
    assert all(code != "exploring" for code, _ in reason[11:])
    assert any(code == "exploring" for code, _ in reason)


@pytest.mark.parametrize("mode", ["zero", "random", "optimized"])
@pytest.mark.parametrize("kind", ["greedy", "one-minus-epsilon", "decreasing-one-minus-epsilon"])
def test_stopped_and_resumed_it_decides_as_if_it_had_not_stopped(mode: str, kind: str) -> None:
    settings = {"initialization_mode": mode, "policy": kind, "epsilon": 0.5}
    latencies = [5 + 40 * abs((index % 16) / 8 - 1) for index in range(50)]
    whole, parts = Run(learner(**settings)), Run(learner(**settings))
    uninterrupted = [whole.tick(latency_s, 100 + latency_s) for latency_s in latencies]
    resumed = []
    for index, latency_s in enumerate(latencies):
        if index in (7, 23):
            saved = json.dumps(parts.policy.snapshot())
            parts.policy = learner(**settings)
            parts.policy.restore(json.loads(saved))
        resumed.append(parts.tick(latency_s, 100 + latency_s))
    assert resumed == uninterrupted
    assert parts.policy.snapshot() == whole.policy.snapshot()


def test_a_table_for_another_target_is_refused() -> None:
    run = Run(learner())
    run.tick(25)
    with pytest.raises(StateError, match="target_s=30"):
        policy("q-learning", "latency < 20s", **SETTINGS).restore(run.policy.snapshot())


def test_a_table_that_was_trained_on_another_clock_can_be_used() -> None:
    trained = Run(learner())
    for _ in range(20):
        trained.tick(25)
    fresh = Run(learner())
    fresh.policy.restore(trained.policy.snapshot())
    assert [fresh.tick(25).code for _ in range(2)] == ["between-decisions", "scale-out"]
    assert table(fresh.policy).visits(QState(2, True)) == table(trained.policy).visits(QState(2, True))


def test_an_objective_without_a_latency_needs_a_target() -> None:
    with pytest.raises(InputError, match="set target_latency_s"):
        policy("q-learning", "slow records < 5%")
    assert policy("q-learning", "slow records < 5%", target_latency_s="30s").name == "q-learning"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"latency_granularity_s": 0}, "latency_granularity_s 0 is not allowed"),
        ({"latency_granularity_s": 20, "max_latency_s": 10}, "max_latency_s 10 must be at least"),
        ({"learning_factor": 0}, "learning_factor 0 is not allowed"),
        ({"policy": "gredy"}, "unknown exploration 'gredy', did you mean 'greedy'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        learner(**({"max_latency_s": 60} | settings))
