"""The two MST regressions, their uncertainty and the choice between them, worked by hand where that is possible."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.core.errors import InputError
from headgate.core.types import Sample
from headgate.policies.capacity.censored import CensoredCurve
from headgate.policies.capacity.mst import MstKind, MstModel, MstSamples, converged, saturated_throughput, select_model


def test_model_2_goes_through_points_that_lie_on_a_parabola() -> None:
    samples = MstSamples([(m, 10 + 100 * m - 0.5 * m * m) for m in (1, 3, 6, 10)])
    model = samples.fit(MstKind.QUADRATIC)
    assert model.weights == pytest.approx((10, 100, 0.5), rel=1e-6)
    assert model.margin(0.95) > 0, "a curve through all points is no proof that it holds between them"


def test_model_1_is_linear_in_the_reciprocal() -> None:
    weights = (0.001, 0.01, 1e-5, 1e-7)
    samples = MstSamples([(m, 1 / (0.001 + 0.01 / m + 1e-5 * m + 1e-7 * m * m)) for m in (1, 2, 4, 8, 16, 32, 64)])
    assert samples.fit(MstKind.RECIPROCAL).weights == pytest.approx(weights, rel=1e-4)


def test_no_weight_but_a_fixed_cost_is_negative() -> None:
    """A curve that bends upwards would need a negative one."""
    samples = MstSamples([(m, 10.0 * m**1.3) for m in (1, 2, 4, 8, 16)])
    assert min(samples.fit(MstKind.RECIPROCAL).weights) >= 0
    fixed_cost, *others = samples.fit(MstKind.QUADRATIC).weights
    assert fixed_cost < 0 <= min(others)


def test_a_job_with_a_fixed_cost_is_not_promised_too_much_at_one_instance() -> None:
    """Page views as measured: 3,665, 14,102 and 35,592 records/s on 1, 2 and 4 executors."""
    measured = MstSamples([(1, 3665.0), (2, 14_102.0), (4, 35_592.0)])
    model = select_model(measured)
    assert model.throughput(np.array([1.0, 2.0, 4.0])) == pytest.approx([3665, 14_102, 35_592], rel=0.05)


def test_two_sizes_are_not_extended_below_by_a_fixed_cost() -> None:
    assert min(MstSamples([(4, 100.0), (5, 160.0)]).fit(MstKind.QUADRATIC).weights) >= 0


def test_the_deviation_is_that_of_eq_6_with_a_prior_that_many_samples_outweigh() -> None:
    """Around 100·m, residuals of ±3 at three sizes are 54 in sum, over 6 − 3 = 3; the prior is (3 % of 233)² over 1."""
    few = MstSamples([(m, 100 * m + sign * 3) for m in (1, 2, 4) for sign in (-1, 1)]).fit(MstKind.QUADRATIC)
    assert few.deviation == pytest.approx(((54 + 7**2) / 4) ** 0.5, rel=1e-6)
    assert few.freedom == 4
    many = MstSamples([(m, 100 * m + sign * 3) for m in (1, 2, 4) for sign in (-1, 1) for _ in range(500)])
    model = many.fit(MstKind.QUADRATIC)
    assert model.deviation == pytest.approx((27_000 / 2997) ** 0.5, rel=1e-3)
    assert model.margin(0.95) == pytest.approx(1.645 * model.deviation, rel=1e-3)


@pytest.mark.parametrize("samples", [[(1, 100.0)], [(1, 100.0), (1, 100.0)], [(1, 100.0), (2, 190.0)]])
def test_what_few_samples_do_not_show_is_not_taken_for_certain(samples: list[tuple[int, float]]) -> None:
    for kind in MstKind:
        model = MstSamples(samples).fit(kind)
        assert model.margin(0.95) > 0.03 * samples[0][1]


def test_several_samples_of_a_size_weigh_like_themselves() -> None:
    """Sums per size lose nothing: the fit is that of all points."""
    random = np.random.default_rng(0)
    points = [(int(m), float(90 * m + random.normal(0, 5))) for m in (1, 1, 1, 2, 3, 3, 5, 8, 8)]
    matrix = MstKind.QUADRATIC.features(np.array([float(m) for m, _ in points]))
    expected, *_ = np.linalg.lstsq(matrix, np.array([value for _, value in points]), rcond=None)
    model = MstSamples(points).fit(MstKind.QUADRATIC)
    if (expected >= 0).all():
        assert model.weights == pytest.approx(tuple(expected), rel=1e-6)
    assert len(MstSamples(points)) == 9


@pytest.mark.parametrize(("beyond", "kind"), [(3000.0, MstKind.QUADRATIC), (1500.0, MstKind.RECIPROCAL)])
def test_validation_samples_decide_where_the_models_differ(beyond: float, kind: MstKind) -> None:
    training = MstSamples([(1, 100.0), (2, 190.0), (3, 270.0), (4, 345.0)])
    quadratic, reciprocal = training.fit(MstKind.QUADRATIC), training.fit(MstKind.RECIPROCAL)
    at_40 = {model.kind: float(model.throughput(np.array([40.0]))[0]) for model in (quadratic, reciprocal)}
    nearest = min(at_40, key=lambda item: abs(at_40[item] - beyond))
    assert select_model(training, MstSamples([(40, beyond)])).kind is nearest


def test_without_validation_the_smaller_training_error_decides() -> None:
    parabola = MstSamples([(m, 10 + 100 * m - 0.5 * m * m) for m in (1, 3, 6, 10)])
    assert select_model(parabola).kind is MstKind.QUADRATIC


@pytest.mark.parametrize(("instances", "throughput"), [(0, 10.0), (1, 0.0), (1, -5.0), (1, float("nan"))])
def test_a_sample_that_is_none_is_refused(instances: int, throughput: float) -> None:
    with pytest.raises(InputError, match="is no sample"):
        MstSamples().add(instances, throughput)


def test_models_and_samples_come_back_from_json() -> None:
    samples = MstSamples([(1, 100.0), (2, 190.0), (2, 195.0), (4, 370.0)])
    model = samples.fit(MstKind.QUADRATIC)
    assert MstModel.from_json(model.to_json()) == model
    assert MstSamples.from_json(samples.to_json()).fit(MstKind.QUADRATIC) == model


@pytest.mark.parametrize(
    ("offered", "processed", "backlog", "warming", "expected"),
    [
        (120.0, 100.0, 40.0, False, 100.0),
        (80.0, 100.0, 40.0, False, None),
        (120.0, 100.0, 0.0, False, None),
        (120.0, 100.0, 40.0, True, None),
        (None, 100.0, 40.0, False, None),
        (120.0, None, 40.0, False, None),
    ],
)
def test_only_a_saturated_reading_tells_what_instances_carry(
    offered: float | None, processed: float | None, backlog: float, warming: bool, expected: float | None
) -> None:
    sample = Sample(
        "job", 0, input_rate_per_s=offered, processed_rate_per_s=processed, backlog=backlog, warming=warming
    )
    assert saturated_throughput(sample) == expected


def test_what_was_carried_with_ease_offsets_the_bias_of_saturated_readings() -> None:
    """Saturated at a load of 95 are only the draws below it; their mean is 8 % too low, the curve is not."""
    random = np.random.default_rng(4)
    curve = CensoredCurve([(1, 98.0), (1, 106.0), (1, 90.0), (2, 205.0), (2, 190.0)], highest=4)
    low = []
    for _ in range(400):
        sustained = random.normal(100, 8)
        if sustained < 95:
            low.append(sustained)
            curve.sustained(1, sustained)
        else:
            curve.carried(1, 95.0)
    assert np.mean(low) < 93
    assert curve.expected[0] == pytest.approx(100, rel=0.03)


def test_a_curve_is_less_sure_where_nothing_was_seen() -> None:
    curve = CensoredCurve([(1, 100.0), (1, 101.0), (2, 199.0), (2, 202.0)], highest=64)
    assert curve.spread[0] < curve.spread[7] <= curve.spread[63]


@pytest.mark.parametrize(
    ("values", "agreeing"),
    [
        ([], None),
        ([100.0] * 4, None),
        # The first of all has none before it, so five in a row have four that agree.
        ([100.0] * 5, [100.0] * 4),
        ([100.0] * 6, [100.0] * 5),
        ([50.0, 100.0, 101.0, 99.0, 100.0], None),
        ([50.0, 100.0, 101.0, 99.0, 100.0, 102.0], [101.0, 99.0, 100.0, 102.0]),
        # One that is far off disagrees twice: it differs, and the next one differs from it.
        ([100.0, 100.0, 100.0, 50.0, 100.0, 100.0, 100.0], None),
        ([100.0, 100.0, 50.0, 100.0, 100.0, 100.0, 100.0, 100.0], [100.0] * 4),
        ([100.0, 105.0, 110.0, 115.0, 120.0], [105.0, 110.0, 115.0, 120.0]),
        ([100.0, 106.0, 112.0, 112.0, 112.0], None),
    ],
)
def test_a_throughput_has_settled_once_four_of_the_last_five_agree_with_the_one_before(
    values: list[float], agreeing: list[float] | None
) -> None:
    assert converged(values) == agreeing
