"""The stability check: how far refits of the model lie apart, at the readings and where it will be used."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.policies.capacity.performance import Point, fit_performance
from headgate.policies.capacity.stability import check_stability, prediction_spread


def line(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.stack((np.ones(count), np.linspace(-1, 1, count)), axis=1)


def test_the_spread_is_the_standard_error_of_the_fit() -> None:
    count, noise = 400, 0.1
    design = line(count)
    values = design @ [0.5, 0.2] + noise * np.random.default_rng(3).normal(size=count)
    spread = prediction_spread(design, values, design, resamples=2000)
    inverse = np.linalg.inv(design.T @ design)
    expected = noise * np.sqrt(np.einsum("ij,jk,ik->i", design, inverse, design))
    assert spread == pytest.approx(expected, rel=0.12)


def test_it_equals_refitting_each_resample_one_by_one() -> None:
    design = line(30)
    values = design @ [0.5, 0.2] + 0.1 * np.random.default_rng(3).normal(size=30)
    weights = np.random.default_rng(7).multinomial(30, np.full(30, 1 / 30), size=50)
    one_by_one = [
        design @ np.linalg.lstsq(design[np.repeat(np.arange(30), row)], values[np.repeat(np.arange(30), row)])[0]
        for row in weights
    ]
    spread = prediction_spread(design, values, design, resamples=50, seed=7)
    assert spread == pytest.approx(np.std(one_by_one, axis=0), rel=1e-4)


def test_what_readings_cannot_tell_apart_does_not_blow_up() -> None:
    design = np.column_stack((line(20), line(20)[:, 1]))
    assert np.all(np.isfinite(prediction_spread(design, line(20)[:, 1], design)))


def readings(until: float, noise: float = 0.03) -> list[Point]:
    """A pressure that bends upwards; of two instances only what was seen until some load."""
    random = np.random.default_rng(5)
    seen = [(rate, 1) for rate in np.linspace(2, 44, 60)] + [(2 * rate, 2) for rate in np.linspace(2, until, 60)]
    return [
        Point(rate, size, max(0.0, 0.1 + 0.8 * (rate / size / 44) ** 4 + noise * random.normal()))
        for rate, size in seen
    ]


def test_a_model_of_everything_it_will_be_requested_is_stable_in_both_phases() -> None:
    model, retained = fit_performance(readings(until=44.0), 44.0)
    stability = check_stability(model, retained, 60.0, 2, threshold=0.2)
    assert stability.is_stable
    assert stability.at_readings < 0.1
    assert stability.up_to_capacity < 0.1


def test_a_model_that_fits_its_readings_may_be_unstable_ahead_of_them() -> None:
    few = [point for point in readings(until=12.0) if point.instances == 2][:20]
    model, retained = fit_performance(few, 44.0)
    stability = check_stability(model, retained, 24.0, 2, threshold=0.03)
    assert stability.at_readings <= 0.03
    assert stability.up_to_capacity > 0.03
    assert not stability.is_stable


def test_the_same_seed_gives_the_same_spread() -> None:
    model, retained = fit_performance(readings(until=44.0), 44.0)
    first, second = (check_stability(model, retained, 60.0, 2, threshold=0.2, seed=4) for _ in range(2))
    assert first == second
