"""The planner of the whole application."""

from __future__ import annotations

import json

import numpy as np
import pytest

from headgate.core.errors import InputError
from headgate.policies.planning.central import CentralPlanner, ExactPlanner
from headgate.policies.planning.model import RateGrid, SlotOutcome
from tests.policies.planning.pipelines import RUSSO, pipeline

GRID = RateGrid(20 / 60, 43)


def test_a_learned_penalty_follows_what_happens_by_equation_6() -> None:
    planner = CentralPlanner(pipeline(3.0, largest=3), RateGrid(1.0, 4), known=False, learning_rate=0.1)
    seen = []
    for violated in (True, True, False):
        planner.learn((2,), (2,), (3,), SlotOutcome(violated))
        seen.append(planner.to_json()["learned"][1][2])
    # 0.1 · 0.4, then 0.9 · 0.04 + 0.04, then 0.9 · 0.076
    assert seen == pytest.approx([0.04, 0.076, 0.0684])
    others = np.array(planner.to_json()["learned"])
    others[1, 2] = 0
    assert not others.any(), "only the chosen size at the rate it was chosen at has learned"


def test_a_slot_whose_outcome_is_not_known_teaches_only_the_rates() -> None:
    planner = CentralPlanner(pipeline(3.0, largest=3), RateGrid(1.0, 4), known=False)
    planner.learn((2,), (2,), (3,), SlotOutcome())
    assert not np.array(planner.to_json()["learned"]).any()
    assert planner.visits((2,)) == 1


def test_a_plan_followed_at_a_constant_load_comes_to_rest_with_more_instances_at_a_higher_load() -> None:
    planner = ExactPlanner(RUSSO, GRID)
    random = np.random.default_rng(1)
    planner.study((20 + 12 * np.sin(np.arange(20_000) / 90) + random.normal(0, 1, 20_000)).round().astype(int).tolist())
    rest = []
    for level in range(10, 31):
        sizes: tuple[int, ...] = (5, 5, 5)
        for _ in range(10):
            sizes = planner.choose((level,), sizes)
        rest.append(sum(sizes))
    assert rest == sorted(rest)
    assert rest[0] < rest[-1]


def test_what_was_learned_survives_a_restart() -> None:
    random = np.random.default_rng(2)
    levels = (10 + random.normal(0, 1.5, 120).cumsum() % 20).astype(int).tolist()
    for known in (True, False):
        first, second = (CentralPlanner(RUSSO, GRID, known=known) for _ in range(2))
        sizes: tuple[int, ...] = (2, 2, 2)
        for slot in range(1, 119):
            if slot == 60:
                second.load(json.loads(json.dumps(first.to_json())))
            before, after = (levels[slot - 1],), (levels[slot],)
            chosen = first.choose(before, sizes)
            if slot >= 60:
                assert second.choose(before, sizes) == chosen
                second.learn(before, chosen, after, SlotOutcome(slot % 7 == 0))
            first.learn(before, chosen, after, SlotOutcome(slot % 7 == 0))
            sizes = chosen
        assert first.to_json() == second.to_json()


def test_an_exact_plan_counts_only_what_it_was_made_with() -> None:
    planner = ExactPlanner(pipeline(3.0), RateGrid(1.0, 5), replan_every=3)
    for slot in range(1, 4):
        assert planner.visits((2,)) == 0
        planner.learn((2,), (2,), (2,), SlotOutcome())
        assert planner.visits((2,)) == (3 if slot == 3 else 0)


def test_what_cannot_be_enumerated_is_refused_and_another_policy_named() -> None:
    with pytest.raises(InputError, match=r"78125 configurations.*mdp-path"):
        CentralPlanner(pipeline(*(3.0,) * 7), RateGrid(1.0, 4))
