"""Change detection: one odd reading is nothing, a jump and a drift are."""

from __future__ import annotations

import json

import numpy as np
import pytest

from headgate.policies.capacity.change_detection import ChangeDetector


def detector(scale: float = 0.1) -> ChangeDetector:
    return ChangeDetector(abrupt_threshold=0.8, gradual_threshold=30.0, scale=scale)


def noise(count: int, sigma: float = 0.1, seed: int = 0) -> list[float]:
    return [float(value) for value in sigma * np.random.default_rng(seed).normal(size=count)]


def found(watching: ChangeDetector, residuals: list[float]) -> tuple[int, str] | None:
    """After how many residuals a change was found, and of what kind."""
    for index, residual in enumerate(residuals):
        if (kind := watching.update(residual)) is not None:
            return index, kind
    return None


@pytest.mark.parametrize("seed", range(3))
def test_scatter_is_no_change_however_long_it_goes_on(seed: int) -> None:
    assert found(detector(), noise(10_000, seed=seed)) is None


def test_a_single_odd_reading_is_no_change() -> None:
    assert found(detector(), [*noise(50), 1.9, *noise(50), -1.5, *noise(50)]) is None


@pytest.mark.parametrize("jump", [1.0, -0.9])
def test_a_jump_is_found_at_its_second_reading(jump: float) -> None:
    assert found(detector(), [*noise(500, 0.01), jump, jump]) == (501, "abrupt")


@pytest.mark.parametrize("direction", [1, -1])
def test_a_slow_drift_is_found_long_before_it_is_as_large_as_a_jump(direction: int) -> None:
    drift = [direction * 0.001 * step for step in range(600)]
    residuals = noise(400) + [off + value for off, value in zip(drift, noise(600, seed=1), strict=True)]
    answer = found(detector(), residuals)
    assert answer is not None
    after, kind = answer
    assert kind == "gradual"
    assert 0.1 < abs(drift[after - 400]) < 0.5


def test_a_small_lasting_offset_is_found_although_no_reading_is_far_off() -> None:
    answer = found(detector(), noise(300) + [0.3 + value for value in noise(200, seed=2)])
    assert answer is not None
    assert answer[1] == "gradual"


def test_a_model_that_is_nearly_exact_is_not_thrown_away_for_next_to_nothing() -> None:
    assert found(detector(scale=1e-6), [0.02] * 5000) is None


@pytest.mark.parametrize("saved_after", [0, 10, 399, 2500])
def test_it_goes_on_from_its_saved_state_as_if_nothing_had_happened(saved_after: int) -> None:
    residuals = noise(3000) + [0.3 + value for value in noise(200, seed=2)]
    watching = detector()
    assert found(watching, residuals[:saved_after]) is None
    restored = detector()
    restored.restore(json.loads(json.dumps(watching.snapshot())))
    assert restored.last == watching.last
    assert found(restored, residuals[saved_after:]) == found(watching, residuals[saved_after:])
