"""What a run is scored on: shares of time and of records, exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.course import Course, above, rows, span_s


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ((0, 10, 0, 10), (4, 10)),
        ((0, 10, 10, 0), (0, 6)),
        ((0, 10, 5, 9), (0, 10)),
        ((0, 10, 5, 5), (0, 10)),
        ((0, 10, 4, 4), None),
        ((0, 10, 0, 4), None),
        ((0, 10, 4, 8), (0, 10)),
    ],
    ids=["rises over it", "falls under it", "stays over it", "level over it", "level at it", "up to it", "from it on"],
)
def test_a_line_is_above_a_bound_where_it_is(line: tuple[float, ...], part: tuple[float, ...] | None) -> None:
    assert above(rows([line], 4), 4.0).tolist() == ([] if part is None else [list(part)])


@pytest.mark.parametrize(
    ("parts", "lasts_s"),
    [
        ([], 0),
        ([(2, 5)], 3),
        ([(2, 5), (4, 7)], 5),
        ([(4, 7), (2, 5), (3, 4)], 5),
        ([(2, 5), (5, 7)], 5),
        ([(-5, 1), (9, 50)], 2),
        ([(20, 30)], 0),
    ],
    ids=["none", "one", "overlapping", "in any order", "touching", "clipped", "outside"],
)
def test_parts_that_overlap_count_once(parts: list[tuple[float, ...]], lasts_s: float) -> None:
    assert span_s(rows(parts, 2), 0, 10) == lasts_s


@pytest.mark.parametrize(
    ("results", "share", "latency_s"),
    [
        ([(10, 0, 10)], 0.5, 5),
        ([(10, 3, 3)], 0.5, 3),
        ([(50, 1, 1), (50, 9, 9)], 0.5, 1),
        ([(50, 1, 1), (50, 9, 9)], 0.51, 9),
        ([(90, 0, 0), (10, 0, 10)], 0.95, 5),
        ([(10, 0, 10), (10, 5, 15)], 0.5, 7.5),
        ([(99, 2, 4), (1, 100, 100)], 0.99, 4),
        ([(99, 2, 4), (1, 100, 100)], 1.0, 100),
    ],
)
def test_a_percentile_is_of_records(results: list[tuple[float, ...]], share: float, latency_s: float) -> None:
    assert Course(0, 1, results=rows(results, 3)).latencies_s(share) == [pytest.approx(latency_s)]


@given(
    st.lists(st.tuples(st.floats(0.1, 100), st.floats(0, 50), st.floats(0, 50)), min_size=1, max_size=30),
    st.floats(0.01, 0.99),
)
def test_as_many_records_exceed_a_percentile_as_should(rows_: list[tuple[float, float, float]], share: float) -> None:
    course = Course(0, 1, waits=rows((), 4), results=rows(((n, min(a, b), max(a, b)) for n, a, b in rows_), 3))
    (found_s,) = course.latencies_s(share)
    assert found_s is not None
    late, late_before = course.late_share(found_s + 1e-5), course.late_share(found_s - 1e-5)
    assert late is not None
    assert late_before is not None
    assert late <= 1 - share + 1e-6
    assert late_before >= 1 - share - 1e-3


def test_what_the_engine_counted_goes_before_what_follows_from_batches() -> None:
    course = Course(0, 1, results=rows([(10, 0, 10)], 3))
    assert course.late_share(5) == 0.5
    assert Course(0, 1, results=course.results, counted_late=(2, 8)).late_share(5) == 0.25


def test_of_no_records_none_is_late_and_what_is_not_known_is_not() -> None:
    assert Course(0, 1, waits=rows((), 4)).late_share(5) == 0
    assert Course(0, 1).late_share(5) is None
    assert Course(0, 1).latencies_s(0.5) == [None]


def test_sizes_count_by_how_long_they_lasted() -> None:
    course = Course(0, 40, sizes=rows([(0, 10, 1, 1), (10, 20, 0, 4), (20, 40, 4, 4)], 4))
    assert (course.mean_ready(), course.paid_s()) == (90 / 40, 130)
    assert course.without_capacity.tolist() == [[10, 20]]
    assert np.isclose(course.share_of_time(course.without_capacity), 0.25)


def test_one_moment_counts_in_full() -> None:
    moment = Course(60, 60)
    assert [moment.share_of_time(rows([part], 2)) for part in ((0, 60), (60, 60), (0, 59))] == [1, 1, 0]
