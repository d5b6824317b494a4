"""The six simulated tests of rouaux §5.2, with its rates, thresholds and times; the outcome is queueing arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.lab.scenario import find_scenario
from headgate.research.scenarios.rouaux import (
    BOTTLENECK,
    FIRST,
    LONG_PEAKS,
    MORE_CAPACITY,
    OPERATOR,
    RELUCTANT,
    SAMPLING_S,
    SCALE_OUT,
    SECOND,
    SHORT_PEAKS,
    RulesRun,
)


def longest(course: RulesRun, operator: str = OPERATOR) -> float:
    return max(backlog for _, backlog in course.queue(operator))


def at_end(course: RulesRun, operator: str = OPERATOR) -> float:
    return course.queue(operator)[-1][1]


@pytest.mark.parametrize("sampling_s", [1.0, 2.5, 5.0])
def test_5_2_2_single_operator_scale_out(sampling_s: float) -> None:
    """λ 10, μ 5: 300 at 60 s, one more instance at 90 s, and the queue stays as long as it is then."""
    course = replace(SCALE_OUT, seconds=900.0).play(sampling_s)
    assert course.backlog(60.0) == pytest.approx(300.0)
    ((at_s, before, after),) = course.changes()
    assert (before, after) == (1, 2)
    assert 90.0 <= at_s <= 90.0 + sampling_s
    assert course.backlog(at_s) == pytest.approx(5 * at_s)
    assert at_end(course) == pytest.approx(5 * at_s)
    # Its condition is still met, for ever, and it has fired.
    assert "has-fired" in course.codes()


def test_5_2_3_single_operator_scale_out_with_additional_capacity() -> None:
    """λ 10, μ 5: three instances serve 15, so what had gathered is gone after a fifth of it in seconds."""
    course = MORE_CAPACITY.play()
    ((at_s, before, after),) = course.changes()
    assert (before, after) == (1, 3)
    assert at_s == pytest.approx(90.0, abs=SAMPLING_S)
    gathered = 5 * at_s
    for elapsed_s in (10.0, 50.0, 90.0):
        assert course.backlog(at_s + elapsed_s) == pytest.approx(gathered - 5 * elapsed_s)
    assert course.backlog(at_s + gathered / 5) == 0
    assert at_end(course) == 0


def test_5_2_4_multiple_operator_scale_out_with_additional_capacity() -> None:
    """μ₁ 20 has room to spare and μ₂ 5 has not: only the second operator is scaled, by the same rule."""
    course = BOTTLENECK.play()
    assert course.changes(FIRST) == []
    assert longest(course, FIRST) == 0
    ((at_s, before, after),) = course.changes(SECOND)
    assert (before, after) == (1, 3)
    assert at_s == pytest.approx(90.0, abs=SAMPLING_S)
    assert at_end(course, SECOND) == 0


def test_5_2_5_single_operator_with_periodic_source_and_no_scale_out() -> None:
    """Peaks of 20 against μ 10 add 10 a second, however long they last, and never come near 10,000 for a minute."""
    course = SHORT_PEAKS.play()
    assert course.backlog(30.0) == 0
    assert course.backlog(35.0) == pytest.approx(50.0)
    assert longest(course) == pytest.approx(10 * (5 + 15 + 25 + 10 + 20 + 5))
    assert course.changes() == []


@pytest.mark.parametrize("sampling_s", [1.0, 2.5, 5.0])
def test_5_2_6_single_operator_scale_out_and_scale_in_with_periodic_source(sampling_s: float) -> None:
    """The queue passes 100 ten seconds into a peak; three instances clear it; then one is enough until the next."""
    periods = 6
    course = replace(LONG_PEAKS, seconds=periods * 60 + 20.0).play(sampling_s)
    changes = course.changes()
    assert [(before, after) for _, before, after in changes] == [(1, 3), (3, 1)] * periods
    for period, ((out_s, _, _), (in_s, _, _)) in enumerate(zip(changes[::2], changes[1::2], strict=True)):
        peak_s = 40.0 + 60.0 * period
        # Above 100 from just after 10 s on, seen so at the next reading, and 5 s later still.
        assert peak_s + 15.0 < out_s <= peak_s + 15.0 + sampling_s
        assert course.backlog(out_s) == pytest.approx(10 * (out_s - peak_s))
        # 30 a second are served: 10 more than arrive until the end of the peak, 20 more from then on.
        at_end = course.backlog(out_s) - 10 * (peak_s + 20 - out_s)
        assert course.backlog(peak_s + 20) == pytest.approx(at_end)
        empty_s = peak_s + 20 + at_end / 20
        assert empty_s + 5.0 - 1 / 20 <= in_s <= empty_s + 5.0 + sampling_s
        assert course.backlog(in_s) == 0


def test_5_2_7_single_operator_scale_out_and_scale_in_hysteresis_with_periodic_source() -> None:
    """The same with a guard time of five minutes after a scale-out: three instances stay, and meet the next peaks."""
    course = RELUCTANT.play()
    ((out_s, *out),) = course.changes()
    assert out == [1, 3]
    assert 55.0 < out_s <= 55.0 + SAMPLING_S
    held = [decision.verdicts[OPERATOR] for decision in course.decisions if decision.at_s > out_s]
    assert {verdict.current for verdict in held} == {3}
    assert max(course.backlog(at_s) for at_s in range(75, 715, 5)) == 0
    # The rule fires once, within the guard time, and its condition is met from then on.
    (stopped,) = [verdict for verdict in held if verdict.code == "guard-time"]
    assert "wants no scale-out for 5m" in stopped.reason


SCENARIOS: dict[str, dict[str, float | str]] = {
    "rouaux-5.2.2": {
        "queue reaches 300, s": 60.0,
        "changes, s": "1 → 2 at 95",
        "queue when scaled, records": 475.0,
        "queue at the end, records": 475.0,
    },
    "rouaux-5.2.3": {"changes, s": "1 → 3 at 95", "queue empty again, s": 190.0, "queue at the end, records": 0.0},
    "rouaux-5.2.4": {"changes of operator 1 (μ 20)": "none", "changes of operator 2 (μ 5), s": "1 → 3 at 95"},
    "rouaux-5.2.5": {"queue after the first peak of 5 s, records": 50.0, "changes": "none"},
    "rouaux-5.2.6": {"queue reaches 100, s into the first peak": 10.0, "1 → 3, s into the first peak": 20.0},
    "rouaux-5.2.7": {"longest queue in the peaks afterwards, records": 0.0, "changes, s": "1 → 3 at 60"},
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_lab_reports_the_same_with_the_document(name: str) -> None:
    report: list[float] = []
    outcome = find_scenario(name).run(report.append)
    rows = {row["what"]: row for row in outcome.rows}
    assert {what: rows[what]["value"] for what in SCENARIOS[name]} == SCENARIOS[name]
    assert all(row["document"] for row in outcome.rows)
    assert [plot.title for plot in outcome.plots] == ["Input queue", "Size"]
    assert report == [1.0]
