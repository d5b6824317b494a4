"""The performance model: what it learns of load and size, and what it says where it has learned nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.policies.capacity.performance import CEILING, PerformanceModel, Point, fit_performance, typical


def line(rate: float, size: int) -> float:
    return 0.1 + 0.02 * rate / size


def bend(rate: float, size: int) -> float:
    return 0.05 + 0.8 * (rate / size / 50) ** 3


def points(shape: object = line, noise: float = 0.0, sizes: tuple[int, ...] = (1, 2, 3), seed: int = 0) -> list[Point]:
    assert callable(shape)
    random = np.random.default_rng(seed)
    rates = [(rate * size, size) for size in sizes for rate in np.linspace(2.0, 44.0, 80)]
    return [Point(rate, size, max(0.0, shape(rate, size) + noise * random.normal())) for rate, size in rates]


def predict(model: PerformanceModel, rate: float, size: int) -> float:
    return float(model.predict([rate], size)[0])


@pytest.mark.parametrize("shape", [line, bend])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_it_tells_what_was_measured(shape: object, size: int) -> None:
    assert callable(shape)
    model, _ = fit_performance(points(shape), 45.0)
    for rate in (10.0 * size, 25.0 * size, 40.0 * size):
        assert predict(model, rate, size) == pytest.approx(shape(rate, size), abs=0.01)


@pytest.mark.parametrize(("shape", "degree"), [(line, 1), (bend, 3)])
def test_the_degree_is_chosen_by_what_was_held_out_and_not_by_the_training_error(shape: object, degree: int) -> None:
    model, _ = fit_performance(points(shape, noise=0.01), 45.0)
    assert model.polynomial.degree == degree


def test_the_error_is_the_scatter_of_the_readings() -> None:
    model, _ = fit_performance(points(line, noise=0.05), 45.0)
    assert model.error == pytest.approx(0.05, rel=0.25)


def test_a_size_that_was_never_seen_is_reported_by_its_load_per_instance() -> None:
    model, _ = fit_performance(points(line, sizes=(1, 2)), 45.0)
    assert predict(model, 5 * 30.0, 5) == pytest.approx(line(30.0, 1), abs=0.03)


def test_beyond_every_reading_the_bound_breaks_at_the_capacity_at_the_latest() -> None:
    flat, _ = fit_performance([Point(rate, 1, 0.02) for rate in np.linspace(1, 40, 60)], 45.0)
    assert predict(flat, 40.0, 1) == pytest.approx(0.02)
    assert predict(flat, 45.0, 1) >= 1
    assert predict(flat, 4 * 45.0, 4) >= 1


def test_an_accident_is_left_out_and_the_edge_of_what_a_size_carries_is_not() -> None:
    edge = [Point(44.0 + rate / 10, 1, 1.2 + rate / 10) for rate in range(6)]
    model, retained = fit_performance([*points(line, noise=0.01), Point(20.0, 1, 1.9), *edge], 45.0)
    assert model.outliers == 1
    assert set(edge) <= set(retained)
    assert predict(model, 20.0, 1) == pytest.approx(line(20.0, 1), abs=0.1)


def test_few_readings_of_a_size_are_never_called_outliers() -> None:
    assert all(typical([(1.0, 1, 0.1), (1.0, 1, 1.9), (1.0, 1, 0.1)]))


def test_a_model_goes_through_json_unchanged() -> None:
    model, _ = fit_performance(points(bend, noise=0.02), 45.0)
    assert PerformanceModel.from_json(json.loads(json.dumps(model.to_json()))) == model


def test_too_few_readings_are_reported() -> None:
    with pytest.raises(InputError, match="2 readings are too few"):
        fit_performance(points()[:2], 45.0)


@given(
    st.lists(
        st.tuples(st.floats(0.1, 1e4), st.integers(1, 6), st.floats(0, 50)).map(lambda values: Point(*values)),
        min_size=5,
        max_size=60,
    ),
    st.integers(1, 12),
)
def test_whatever_was_measured_a_prediction_is_never_negative_and_never_falls_with_the_load(
    measured: list[Point], size: int
) -> None:
    model, _ = fit_performance(measured, 50.0)
    rates = np.linspace(0.0, 2e4, 200)
    predicted = model.predict(rates, size)
    assert np.all(np.isfinite(predicted))
    assert np.all(predicted >= 0)
    assert np.all(np.diff(predicted) >= -1e-9)
    assert np.all(model.predict(rates[:1], size) <= CEILING)
