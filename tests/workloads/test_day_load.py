"""Days of traces and of made-up shapes as workloads."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from headgate.core.errors import InputError
from headgate.workloads import parse_workload
from headgate.workloads.composed import Scaled, end_of, reseeded
from headgate.workloads.day_load import DAY_S, STEP_S, DayLoad, day_names, make_day

PROMISED = {
    "waves": (60.00272047355845, "31bdf945f46b652d"),
    "stairs": (60.13849177669507, "209862d5bf96b674"),
    "bursts": (40.035426398872104, "4f2468baef50cd58"),
    "walk": (63.208879786788714, "bc9250fe53f60300"),
    "teeth": (60.74955987903194, "be0706681a9c2a8b"),
}
"""Factors and counts of the first days at 600 records/s, as the figures of docs/lab/promises.md were made with."""


@pytest.mark.parametrize("name", PROMISED)
def test_the_days_that_promises_were_tried_on_stay_what_they_are(name: str) -> None:
    day = make_day(name, 0, 600.0)
    counts = np.rint(day.rates_per_s * STEP_S).astype("<i8")
    factor, digest = PROMISED[name]
    assert day.factor == pytest.approx(factor, rel=1e-12)
    assert hashlib.sha256(counts.tobytes()).hexdigest()[:16] == digest


def test_a_seed_picks_the_chance_and_repeats_have_days_of_their_own() -> None:
    first = parse_workload("day:walk,peak=400,lasting=2h")
    assert isinstance(first, DayLoad)
    assert first.kind == "noisy"
    assert end_of(first) == 7200.0
    again = parse_workload(first.describe())
    other = reseeded(Scaled(first, 2.0), 3)
    third = parse_workload("day:walk,peak=400,lasting=2h,seed=3")
    spans = [(at_s, at_s + 600.0) for at_s in range(0, 7200, 600)]
    assert [again.arrivals(*span) for span in spans] == [first.arrivals(*span) for span in spans]
    assert [other.arrivals(*span) for span in spans] == [2 * third.arrivals(*span) for span in spans]
    assert third.arrivals(0.0, 7200.0) != first.arrivals(0.0, 7200.0)


def test_the_busiest_minutes_of_what_is_taken_have_the_peak() -> None:
    part = make_day("bursts", 1, 400.0, 4 * 3600.0)
    minutes = part.rates_per_s.reshape(-1, 12).mean(axis=1)
    assert len(minutes) == 240
    assert float(np.quantile(minutes, 0.995)) == pytest.approx(400.0, rel=0.05)


def test_the_days_of_a_trace_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three days of five-minute steps, each with a level of its own; the first is left for last."""
    file = tmp_path / "aws-elb-requests" / "elb_request_count_8c0756.csv"
    file.parent.mkdir()
    rows = [
        f"2014-04-{10 + day} {minute // 60:02}:{minute % 60:02}:00,{(day + 1) * (300 if minute < 720 else 600)}"
        for day in range(3)
        for minute in range(0, 1440, 5)
    ]
    file.write_text("\n".join(["timestamp,value", *rows]) + "\n")
    monkeypatch.setenv("HEADGATE_TRACES", str(tmp_path))
    make_day.cache_clear()
    factors = [make_day("aws-elb", seed, 200.0).factor for seed in range(4)]
    make_day.cache_clear()
    assert factors[0] / factors[1] == pytest.approx(3 / 2)
    assert factors[2] / factors[1] == pytest.approx(3)
    assert factors[3] == factors[0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("day:", "names no load"),
        ("day:waves", "lacks peak"),
        ("day:wavs,peak=400", "unknown day 'wavs', did you mean 'waves'?"),
        ("day:waves,peak=400,seed=-1", "has the seed '-1'"),
        ("day:waves,peak=-1", "a rate must be finite and not negative"),
        ("day:waves,peak=400,lasting=0s", "a duration must be finite and above 0"),
        ("day:waves,peak=400,form=2h", "unknown key of workload day 'form'"),
    ],
)
def test_a_mistake_in_a_day_is_reported(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        parse_workload(spec)


def test_every_shape_and_trace_has_days() -> None:
    assert len(day_names()) == len(set(day_names())) > 30
    assert make_day("waves", 0, 1.0).rates_per_s.size * STEP_S == DAY_S
