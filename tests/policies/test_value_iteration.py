"""value-iteration: counts, an example of three states solved by hand, and the change of phase."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.types import Sample
from headgate.core.window import History
from headgate.policies.q_values.table import Action, Grid, QState, QTable
from headgate.policies.value_iteration import Experiences, solve
from tests.core.building import JOB, observation, policy

A, B, C = (QState(bucket, True) for bucket in range(3))
GRID = Grid(target_s=30, granularity_s=10, max_s=20)


def three_states() -> Experiences:
    """C earns 2 for ever; B earns 1 by staying, and half of its scale-outs reach C; A earns 1.5 on its way to B."""
    seen = Experiences()
    seen.add(C, Action.NONE, 2.0, C)
    seen.add(B, Action.NONE, 1.0, B)
    seen.add(B, Action.OUT, 0.0, C)
    seen.add(B, Action.OUT, 0.0, B)
    seen.add(A, Action.OUT, 1.0, B)
    seen.add(A, Action.OUT, 2.0, B)
    seen.add(A, Action.NONE, 1.0, A)
    return seen


def test_what_followed_is_counted() -> None:
    seen = three_states()
    assert seen.count((A, Action.OUT)) == 2
    assert seen.rewards[A, Action.OUT] == 3.0
    assert seen.transitions[B, Action.OUT] == {C: 1, B: 1}
    assert seen.count((C, Action.IN)) == 0


def test_three_states_solved_by_hand() -> None:
    # γ = 0.5. V(C) = 2 / (1 - 0.5) = 4. V(B) = 1 / (1 - 0.5) = 2, for scaling out is worth 0.5 · (4 + 2) / 2 = 1.5.
    # In A scaling out is worth 1.5 + 0.5 · 2 = 2.5, and staying 1 + 0.5 · 2.5 = 2.25.
    table = QTable(GRID)
    sweeps, change = solve(table, three_states(), discount_factor=0.5, threshold=1e-9, most_sweeps=1000)
    assert change < 1e-9
    assert sweeps < 100
    assert table.values(C) == pytest.approx((0, 4, 0), abs=1e-6)
    assert table.values(B) == pytest.approx((1.5, 2, 0), abs=1e-6)
    assert table.values(A) == pytest.approx((2.5, 2.25, 0), abs=1e-6)


def test_actions_never_taken_keep_their_value_and_count() -> None:
    table = QTable(GRID)
    table.put(C, Action.IN, 10.0)
    solve(table, three_states(), discount_factor=0.5, threshold=1e-9, most_sweeps=1000)
    assert table.values(C) == pytest.approx((0, 2 + 0.5 * 10, 10))


def test_it_stops_after_the_most_sweeps() -> None:
    assert solve(QTable(GRID), three_states(), discount_factor=0.5, threshold=1e-9, most_sweeps=3)[0] == 3


def test_experiences_are_the_same_after_json() -> None:
    assert Experiences.from_json(three_states().to_json()) == three_states()


def test_it_collects_then_solves_then_learns_on() -> None:
    chosen = policy(
        "value-iteration",
        "latency < 30s",
        value_iteration_initialization_time_s=600,
        window_size_s=60,
        decision_interval_s=60,
    )
    window = History(JOB)
    reasons = []
    collected: Any = None
    for at_s in range(0, 1200, 60):
        sample = Sample("job", at_s, latency_s=25, input_rate_per_s=100)
        window.observe(observation(at_s, 4, sample=sample))
        reasons.append(chosen.decide(at_s, window).targets["job"].reason)
        if at_s == 540:
            collected = chosen.snapshot()["experiences"]["job"]
    assert sum(count for *_, followers in collected for *_, count in followers) == 8
    assert reasons[1].startswith("collecting experience for 9m more")
    assert reasons[10].startswith("solved in ")
    assert chosen.snapshot()["experiences"]["job"] != []
    visits = QTable.from_json(chosen.snapshot()["agents"]["job"]["table"]).visits(QState(2, True))
    assert sum(visits) == 10, "learned by eq. 4.4 since it was solved"
