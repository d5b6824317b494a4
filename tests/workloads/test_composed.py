"""Workloads that are put together of others: what they come to, and how they are written."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.workloads import Workload, parse_workload
from headgate.workloads.composed import Clipped, Noisy, Scaled, Shifted, Sum, end_of, reseeded
from headgate.workloads.draws import draws
from headgate.workloads.load import Load
from headgate.workloads.parse import workload_files
from headgate.workloads.shapes import Constant
from tests.workloads.generated import SHAPES, SUMS, TIMES, WORKLOADS

WRITTEN = st.recursive(
    SHAPES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Sum(tuple(parts))),
        st.builds(Scaled, inner, st.floats(0, 5)),
        st.builds(Shifted, inner, st.floats(-1000, 5000)),
        st.builds(Clipped, inner, st.floats(0, 400), st.floats(400, 2000)),
        st.builds(
            Noisy, inner, st.integers(0, 100).map(lambda share: share / 100), st.floats(1, 5000), st.integers(0, 99)
        ),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("spec", "at_s", "rate"),
    [
        ("constant:10 * 3", 0, 30),
        ("2 * constant:10 * 3", 0, 60),
        ("constant:10 + constant:5", 0, 15),
        ("constant:10 * 3 + constant:5", 0, 35),
        ("(constant:10 + constant:5) * 2", 0, 30),
        ("constant:10 + constant:5 | clip 0..12", 0, 12),
        ("(constant:10 | clip 0..5) + constant:5", 0, 10),
        ("constant:1 | clip 3..", 0, 3),
        ("ramp:from=0,to=60,over=1m | shift 1m", 59, 0),
        ("ramp:from=0,to=60,over=1m | shift 1m", 90, 30),
        ("ramp:from=0,to=60,over=1m | shift -30s", 0, 30),
        ("constant:10 | noise 0%", 0, 10),
        ("  constant:10   *   3 ", 0, 30),
    ],
)
def test_the_rate_of_what_is_written(spec: str, at_s: float, rate: float) -> None:
    assert parse_workload(spec).rate_per_s(at_s) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("constant:10 * constant:5", "multiplies two loads"),
        ("3 + constant:5", "'3', which is no load"),
        ("constant:10 + ", "says no more than its shape|nothing on one side|is not a number"),
        ("constant:10 +  + constant:3", "nothing on one side of '\\+'"),
        ("constant:10 | louder 3", "change of a workload 'louder' is unknown|louder"),
        ("constant:10 | clip 5", "write for example clip 10..500"),
        ("constant:10 | clip x..5", "write for example clip 10..500"),
        ("constant:10 | clip 9..5", "between 9 and 5 is not possible"),
        ("constant:10 | noise 10% often 3", "write for example noise 10% every 1m seed 3"),
        ("constant:10 | noise 10% seed x", "write for example noise 10% every 1m seed 3"),
        ("constant:10 | noise", "write for example noise"),
        ("constant:10 * -3", "a factor is finite and not below 0"),
        ("(constant:10 + constant:5", "a parenthesis that is not closed"),
        ("(constant:10 + nothing:5) * 2", "nothing"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_workload(spec)


def test_a_file_may_be_called_anything(tmp_path: Path) -> None:
    path = tmp_path / "my load*2 (1)+b.csv"
    path.write_text("timestamp,rate\n0,10\n60,20\n")
    assert parse_workload(f"csv:{path}").rate_per_s(0.0) == 10
    assert parse_workload(f"csv:{path} * 3 + constant:1").rate_per_s(60.0) == 61


@given(WRITTEN)
def test_what_is_described_can_be_written_again(workload: Workload) -> None:
    again = parse_workload(workload.describe())
    for at_s in (0.0, 100.0, 3000.0):
        assert again.rate_per_s(at_s) == pytest.approx(workload.rate_per_s(at_s), rel=1e-6, abs=1e-6)


@given(SUMS, TIMES, st.floats(0.1, 60))
def test_a_sum_brings_what_its_parts_bring_and_turns_within_a_second_at_most(
    workload: Sum, from_s: float, length_s: float
) -> None:
    to_s = from_s + length_s
    assert workload.arrivals(from_s, to_s) == pytest.approx(sum(part.arrivals(from_s, to_s) for part in workload.parts))
    turn_s = workload.next_turn_s(from_s)
    assert turn_s > from_s
    end_s = min(turn_s, from_s + 10_000)
    rates = [workload.rate_per_s(from_s + (end_s - from_s) * share) for share in (0.001, 0.2, 0.4, 0.6, 0.8, 0.999)]
    changes = [after - before for before, after in pairwise(rates)]
    is_one_way = all(change >= -1e-9 for change in changes) or all(change <= 1e-9 for change in changes)
    assert is_one_way or turn_s <= from_s + 1.0


def test_the_noise_of_a_stretch_does_not_depend_on_how_many_are_drawn_at_once() -> None:
    noisy = Noisy(Constant(1.0), 0.3, every_s=10.0, seed=5)
    for stretch in (0, 1, 63, 64, 1023, 1024, 5000):
        (chance,) = draws(5, 1, stretch, 1)
        factor = math.exp(0.3 * NormalDist().inv_cdf(chance) - 0.3**2 / 2)
        assert noisy.rate_per_s(10.0 * stretch + 5.0) == factor


def test_noise_is_the_same_for_the_same_seed_and_keeps_the_mean() -> None:
    noisy = parse_workload("constant:100 | noise 20% seed 7")
    again, other = parse_workload("constant:100 | noise 20% seed 7"), parse_workload("constant:100 | noise 20% seed 8")
    times_s = [60.0 * minute for minute in range(5000)]
    rates = [noisy.rate_per_s(at_s) for at_s in times_s]
    assert rates == [again.rate_per_s(at_s) for at_s in times_s]
    assert rates != [other.rate_per_s(at_s) for at_s in times_s]
    assert sum(rates) / len(rates) == pytest.approx(100, rel=0.02)
    spread = [math.log(rate) for rate in rates]
    mean = sum(spread) / len(spread)
    assert math.sqrt(sum((share - mean) ** 2 for share in spread) / len(spread)) == pytest.approx(0.2, rel=0.05)
    assert noisy.arrivals(0.0, 60.0 * 5000) == pytest.approx(60 * sum(rates))


@pytest.mark.parametrize(
    ("spec", "end_s"),
    [
        ("csv:PATH * 2", 120),
        ("csv:PATH + csv:PATH | shift 1m | noise 5%", 180),
        ("csv:PATH + constant:1", None),
        ("csv:PATH | clip 0..5", 120),
        ("csv:PATH | clip 5..", None),
        ("csv:PATH | shift -1m", 60),
    ],
)
def test_when_it_ends(tmp_path: Path, spec: str, end_s: float | None) -> None:
    path = tmp_path / "load.csv"
    path.write_text("timestamp,rate\n0,10\n60,20\n")
    written = spec.replace("PATH", str(path))
    assert end_of(parse_workload(written)) == end_s
    if end_s is not None:
        assert Load(written).schedule.seconds == end_s


@given(WORKLOADS)
def test_half_and_half_is_the_whole(workload: Workload) -> None:
    halves = Sum((Scaled(workload, 0.5), Scaled(workload, 0.5)))
    assert halves.arrivals(10.0, 500.0) == pytest.approx(workload.arrivals(10.0, 500.0), abs=1e-6)


def test_other_seeds_change_the_noise_wherever_it_is_and_nothing_else() -> None:
    spec = "((constant:10 | noise 10% every 60s seed {}) * 2 | shift 5s | clip 0..50) + constant:3"
    again = reseeded(parse_workload(spec.format(3)), 4)
    assert again == parse_workload(spec.format(7))
    assert reseeded(parse_workload("constant:10"), 4) == parse_workload("constant:10")


def test_files_are_found_in_the_folder_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "load.csv").write_text("timestamp,rate\n0,10\n60,20\n")
    spec = "csv:load.csv * 2 + csv:load.csv | noise 5%"
    assert workload_files(spec) == ["load.csv", "load.csv"]
    assert end_of(parse_workload(spec, tmp_path)) == 120
    with pytest.raises(InputError, match="cannot be read"):
        parse_workload(spec, tmp_path / "elsewhere")
