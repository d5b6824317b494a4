"""Every shape: its rate by hand, and the promises that all shapes keep."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.workloads import Workload, parse_workload
from headgate.workloads.steps import Steps
from tests.workloads.generated import SHAPES, TIMES, WORKLOADS


@pytest.mark.parametrize(
    ("spec", "at_s", "rate"),
    [
        ("constant:10", 1e6, 10),
        ("periodic:base=10,peak=20,high=20s,low=40s", 0, 10),
        ("periodic:base=10,peak=20,high=20s,low=40s", 39.9, 10),
        ("periodic:base=10,peak=20,high=20s,low=40s", 40, 20),
        ("periodic:base=10,peak=20,high=20s,low=40s", 59.9, 20),
        ("periodic:base=10,peak=20,high=20s,low=40s", 60, 10),
        ("sine:mean=50,amplitude=30,period=1h", 0, 50),
        ("sine:mean=50,amplitude=30,period=1h", 900, 80),
        ("sine:mean=50,amplitude=30,period=1h", 2700, 20),
        ("sine:mean=10,amplitude=30,period=1h", 2700, 0),
        ("gaussian:base=5,peak=100,center=30m,sigma=8m", 1800, 100),
        ("gaussian:base=5,peak=100,center=30m,sigma=8m", 1800 + 480, 5 + 95 * math.exp(-0.5)),
        ("gaussian:base=5,peak=100,center=30m,sigma=8m", 1e6, 5),
        ("ramp:from=10,to=100,over=10m", 0, 10),
        ("ramp:from=10,to=100,over=10m", 300, 55),
        ("ramp:from=10,to=100,over=10m", 6000, 100),
        ("spike:base=10,peak=70,at=300s,width=300s", 299.9, 10),
        ("spike:base=10,peak=70,at=300s,width=300s", 300, 70),
        ("spike:base=10,peak=70,at=300s,width=300s", 600, 10),
    ],
)
def test_the_rate_at_a_time(spec: str, at_s: float, rate: float) -> None:
    assert parse_workload(spec).rate_per_s(at_s) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("spec", "from_s", "to_s", "count"),
    [
        ("constant:10", 30, 90, 600),
        ("periodic:base=10,peak=20,high=20s,low=40s", 0, 60, 800),
        ("periodic:base=10,peak=20,high=20s,low=40s", 50, 110, 800),
        ("periodic:base=10,peak=20,high=20s,low=40s", 30, 50, 300),
        ("sine:mean=50,amplitude=30,period=1h", 0, 3600, 180_000),
        # Half a wave: 50 · 1800 + 30 · 3600 / π.
        ("sine:mean=50,amplitude=30,period=1h", 0, 1800, 90_000 + 30 * 3600 / math.pi),
        # Without a mean, only the upper half waves are left: 30 · 3600 / π each.
        ("sine:mean=0,amplitude=30,period=1h", 0, 7200, 2 * 30 * 3600 / math.pi),
        ("sine:mean=0,amplitude=30,period=1h", 1800, 3600, 0),
        ("gaussian:base=0,peak=100,center=30m,sigma=8m", 0, 1800, 0.5 * 100 * 480 * math.sqrt(2 * math.pi)),
        ("gaussian:base=10,peak=10,center=30m,sigma=8m", 0, 60, 600),
        ("ramp:from=10,to=100,over=10m", 0, 600, 33_000),
        ("ramp:from=10,to=100,over=10m", 300, 900, 300 * 77.5 + 300 * 100),
        ("ramp:from=10,to=100,over=10m", 600, 660, 6000),
        ("spike:base=10,peak=70,at=300s,width=300s", 0, 900, 27_000),
        ("spike:base=10,peak=70,at=300s,width=300s", 400, 500, 7000),
    ],
)
def test_the_arrivals_between_two_times(spec: str, from_s: float, to_s: float, count: float) -> None:
    # The bell's tail before time 0 is not part of the half that arrives from then on.
    assert parse_workload(spec).arrivals(from_s, to_s) == pytest.approx(count, rel=2e-4)


@given(WORKLOADS, TIMES, st.floats(0.1, 1000))
def test_arrivals_are_the_integral_of_the_rate(workload: Workload, from_s: float, length_s: float) -> None:
    to_s = from_s + length_s
    turns_s = [from_s]
    while turns_s[-1] < to_s and len(turns_s) < 200:
        turns_s.append(min(to_s, workload.next_turn_s(turns_s[-1])))
    integral = sum(_midpoint_integral(workload, *piece) for piece in pairwise(turns_s))
    assert workload.arrivals(from_s, turns_s[-1]) == pytest.approx(integral, rel=1e-3, abs=1e-3)


def _midpoint_integral(workload: Workload, from_s: float, to_s: float, slices: int = 1000) -> float:
    width_s = (to_s - from_s) / slices
    return width_s * sum(workload.rate_per_s(from_s + (index + 0.5) * width_s) for index in range(slices))


@given(WORKLOADS, st.lists(TIMES, min_size=3, max_size=3).map(sorted))
def test_arrivals_of_two_stretches_add_up(workload: Workload, times_s: list[float]) -> None:
    first_s, middle_s, last_s = times_s
    parts = workload.arrivals(first_s, middle_s) + workload.arrivals(middle_s, last_s)
    assert parts == pytest.approx(workload.arrivals(first_s, last_s), rel=1e-9, abs=1e-6)


@given(WORKLOADS, TIMES)
def test_between_two_turns_the_rate_only_rises_or_only_falls(workload: Workload, at_s: float) -> None:
    turn_s = workload.next_turn_s(at_s)
    assert turn_s > at_s
    end_s = min(turn_s, at_s + 10_000)
    # A hair inside the piece: a time that is rounded onto a turn may be taken for either side of it.
    rates = [workload.rate_per_s(at_s + (end_s - at_s) * share) for share in (0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999)]
    changes = [after - before for before, after in pairwise(rates)]
    assert all(change >= -1e-9 for change in changes) or all(change <= 1e-9 for change in changes)


@given(WORKLOADS, TIMES)
def test_a_rate_is_never_negative(workload: Workload, at_s: float) -> None:
    assert workload.rate_per_s(at_s) >= 0


@given(SHAPES)
def test_a_description_gives_the_same_shape_again(shape: Workload) -> None:
    assert parse_workload(shape.describe()) == shape


@pytest.mark.parametrize(
    ("times_s", "rates"), [([0.0], []), ([0.0, 1.0], []), ([0.0, 1.0, 1.0], [1.0, 1.0]), ([0.0, 1.0], [-1.0])]
)
def test_steps_refuse_what_is_no_series(times_s: list[float], rates: list[float]) -> None:
    with pytest.raises(InputError):
        Steps(times_s, rates)


def test_nothing_arrives_before_the_first_step_and_after_the_last() -> None:
    steps = Steps([10.0, 20.0, 30.0], [1.0, 2.0])
    assert [steps.rate_per_s(at_s) for at_s in (9.9, 10.0, 20.0, 30.0)] == [0.0, 1.0, 2.0, 0.0]
    assert steps.arrivals(0.0, 100.0) == 30.0
