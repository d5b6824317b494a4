"""Numbers in narrow ranges, against the numbers themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.course import Course, Rows, rows
from headgate.simulation.settled import LEAST, RELATIVE_ERROR, compact

BOUND = 8.0
VALUES = st.one_of(st.floats(-5, 100), st.sampled_from([0.0, 0.001, 1.0, BOUND, 1e6]))
SPANS = st.lists(
    st.tuples(st.floats(0.1, 1000), VALUES, VALUES).map(lambda row: (row[0], min(row[1:]), max(row[1:]))),
    min_size=1,
    max_size=30,
).map(lambda spans: rows(spans, 3))
SHARES = (0.0, 0.1, 0.5, 0.95, 0.99, 1.0)


def of(spans: Rows) -> Course:
    return Course(0.0, 1.0, results=spans)


@given(SPANS)
def test_no_weight_is_lost_and_the_extremes_stay(spans: Rows) -> None:
    found = compact(spans, BOUND)
    assert found[:, 0].sum() == pytest.approx(spans[:, 0].sum(), rel=1e-12)
    assert found[:, 1].min() == pytest.approx(spans[:, 1].min(), abs=1e-9)
    assert found[:, 2].max() == pytest.approx(spans[:, 2].max(), abs=1e-9)


@given(SPANS)
def test_a_quantile_is_off_by_no_more_than_is_said(spans: Rows) -> None:
    true, found = of(spans).latencies_s(*SHARES), of(compact(spans)).latencies_s(*SHARES)
    # Between two values that lie far apart a quantile may be either: a hair more or less decides.
    near = [of(spans).latencies_s(*(min(1.0, max(0.0, share + hair)) for share in SHARES)) for hair in (-1e-9, 1e-9)]
    for low, value, high, off in zip(near[0], true, near[1], found, strict=True):
        assert low is not None
        assert value is not None
        assert high is not None
        assert off is not None
        assert low * (1 - RELATIVE_ERROR) - LEAST <= off <= high * (1 + RELATIVE_ERROR) + LEAST


@given(SPANS)
def test_what_is_above_the_bound_stays_exact(spans: Rows) -> None:
    late = of(spans).late_share(BOUND)
    assert late is not None
    assert of(compact(spans, BOUND)).late_share(BOUND) == pytest.approx(late, abs=1e-9)


@given(SPANS)
def test_nothing_late_stays_nothing_late(spans: Rows) -> None:
    early = np.column_stack([spans[:, 0], np.minimum(spans[:, 1], BOUND), np.minimum(spans[:, 2], BOUND)])
    assert of(compact(early, BOUND)).late_share(BOUND) == 0.0


@given(SPANS)
def test_to_compact_again_what_is_compact_moves_nothing(spans: Rows) -> None:
    once = of(compact(spans, BOUND))
    again = of(compact(once.results, BOUND))
    assert again.results[:, 0].sum() == pytest.approx(once.results[:, 0].sum(), rel=1e-12)
    # What is narrower than a point may change sides.
    assert again.latencies_s(*SHARES[1:-1]) == pytest.approx(once.latencies_s(*SHARES[1:-1]), rel=1e-6, abs=1e-5)


def test_the_room_does_not_grow_with_what_is_put_in() -> None:
    random = np.random.default_rng(0)
    low = random.lognormal(1.0, 2.0, 100_000)
    spans = np.column_stack([np.ones_like(low), low, low + random.random(100_000)])
    assert len(compact(spans)) < 5000
