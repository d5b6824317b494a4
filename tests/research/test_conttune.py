"""A capacity model that knows how unsure it is, on made-up and on measured operators."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.research.scenarios.conttune import (
    FORMS,
    LEAST_PREDICTED,
    AveragedCapacity,
    least_squares,
    read_capacities,
    rows_of,
)
from headgate.research.scenarios.conttune import Capacities as Measured
from tests.traces import needs_traces

SIZES = (1, 2, 4, 6, 8)


@pytest.mark.parametrize(
    ("form", "rates"),
    [
        ("proportional", [100.0 * n for n in SIZES]),
        ("power law", [100.0 * n**0.8 for n in SIZES]),
        ("Amdahl", [100.0 * n / (1 + 0.1 * (n - 1)) for n in SIZES]),
        ("USL", [100.0 * n / (1 + 0.05 * (n - 1) + 0.02 * n * (n - 1)) for n in SIZES]),
    ],
)
def test_an_operator_that_scales_by_a_form_makes_that_form_believed_most(form: str, rates: list[float]) -> None:
    assert max(AveragedCapacity(SIZES, rates).weights.items(), key=lambda weight: weight[1])[0] == form
    assert least_squares(form, Measured(SIZES, rates))(8) == pytest.approx(rates[-1], rel=1e-3)


@settings(max_examples=5, deadline=None)
@given(st.floats(0.5, 1.0), st.lists(st.floats(0.95, 1.05), min_size=5, max_size=5))
def test_intervals_are_wider_the_farther_away_and_in_order(power: float, off: list[float]) -> None:
    model = AveragedCapacity(SIZES, [100 * n**power * error for n, error in zip(SIZES, off, strict=True)])
    near, far = (model.quantiles(size, 0.05, 0.5, 0.95) for size in (8, 32))
    assert [near, far] == [sorted(near), sorted(far)]
    assert far[2] / far[0] >= near[2] / near[0] * 0.99
    assert sum(model.weights.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("sizes", "rates"), [([1, 2], [5.0, 9.0]), ([1, 2, 4], [5.0, 9.0]), ([1, 2, 4], [5.0, 0.0, 9.0])]
)
def test_too_few_or_impossible_measurements_are_refused(sizes: list[int], rates: list[float]) -> None:
    with pytest.raises(InputError):
        AveragedCapacity(sizes, rates)


@needs_traces
def test_from_eight_instances_it_foretells_twenty_and_more_better_than_any_single_form() -> None:
    rows = rows_of(read_capacities())
    assert [row["parallelism"] >= LEAST_PREDICTED for row in rows] == [True] * 4
    assert {row["covered"] for row in rows} == {"yes"}
    for row in rows:
        assert abs(row["averaged_off_pct"]) < min(abs(row[f"{form}_off_pct"]) for form in FORMS)


def test_a_missing_file_is_named(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_TRACES", str(tmp_path))
    with pytest.raises(InputError, match=r"capacity\.csv"):
        read_capacities()
