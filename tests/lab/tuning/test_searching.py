"""Searches propose trials in batches and receive scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from headgate.core.errors import InputError
from headgate.lab.tuning.search import (
    BATCH,
    IsAllowed,
    OptunaSearch,
    RecursiveRandomSearch,
    Scores,
    Search,
    Values,
    make_search,
)
from headgate.lab.tuning.space import search_space
from headgate.policies.tuning.random_search import Point, recursive_random_points, recursive_random_search

SPACE = search_space("hpa", only=["target", "scale_in_window_s"])


def off(values: Values) -> float:
    """Least at a target of 0.5 and a window of 200 s."""
    target, window_s = float(values["target"]), float(values["scale_in_window_s"])
    return abs(math.log(target / 0.5)) + abs(math.log(window_s / 200))


def searched(search: Search, trials: int, scores: int = 1) -> list[tuple[Values, Scores]]:
    found: list[tuple[Values, Scores]] = []
    while len(found) < trials and (proposed := search.ask(trials - len(found))):
        assert len(proposed) <= BATCH
        message: list[Scores] = [(off(values), float(values["target"]))[:scores] for values in proposed]
        search.tell(message)
        found += zip(proposed, message, strict=True)
    return found


def anything(values: Values) -> bool:
    return True


def test_recursive_random_search_finds_a_known_optimum() -> None:
    found = searched(RecursiveRandomSearch(SPACE, 0, anything, 200), 200)
    assert len(found) == 200
    assert min(score for _, (score,) in found) < 0.1


def test_points_one_at_a_time_are_those_of_the_search_that_policies_use() -> None:
    def cost(point: Point) -> float:
        return float(abs(point - 0.3).sum())

    proposed = recursive_random_points(2, np.random.default_rng(3), evaluations=120)
    points: list[Point] = []
    turn: Sequence[Point] | None = next(proposed)
    while turn is not None:
        points += turn
        try:
            turn = proposed.send([cost(point) for point in turn])
        except StopIteration:
            turn = None
    best, least = recursive_random_search(cost, 2, np.random.default_rng(3), evaluations=120)
    assert len(points) == 120
    assert least == min(cost(point) for point in points)
    assert any((point == best).all() for point in points)


def small_targets(values: Values) -> bool:
    return float(values["target"]) < 1


@pytest.mark.parametrize("is_allowed", [anything, small_targets])
@pytest.mark.parametrize("name", ["recursive-random", "optuna"])
def test_the_same_seed_asks_for_the_same_trials_and_only_for_what_is_allowed(name: str, is_allowed: IsAllowed) -> None:
    if name == "optuna":
        pytest.importorskip("optuna")

    def once(seed: int) -> list[tuple[Values, Scores]]:
        search = make_search(name, SPACE, seed=seed, trials=32, is_allowed=is_allowed, default=(0.5,), scores=1)
        return searched(search, 32)

    first = once(1)
    assert first == once(1)
    assert first != once(2)
    assert all(is_allowed(values) for values, _ in first)


def test_settings_that_never_go_together_end_a_search() -> None:
    search = RecursiveRandomSearch(SPACE, 0, lambda _: False, 60)
    assert search.ask(60) == []
    assert search.refused == 60


def test_optuna_comes_closer_than_it_began_and_weighs_two_scores() -> None:
    pytest.importorskip("optuna")
    found = searched(OptunaSearch(SPACE, 0, anything, (off(SPACE.defaults()),), 1), 64)
    scores = [score for _, (score,) in found]
    assert min(scores) < 0.5 * min(scores[:BATCH])
    pairs = searched(OptunaSearch(SPACE, 0, anything, None, 2), 24, scores=2)
    assert len(pairs) == 24


def test_two_scores_need_a_search_that_weighs_them() -> None:
    with pytest.raises(InputError, match="follows one number"):
        make_search("recursive-random", SPACE, seed=0, trials=8, is_allowed=anything, default=None, scores=2)
