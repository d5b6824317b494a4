"""Reports of runs on Flink, from records of the broker, Flink and Prometheus."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Event, Verdict
from headgate.research.flink.click_fraud import FraudReport, FraudResult
from headgate.research.flink.measured import JobSlots, SinkTruth, changes, seconds
from headgate.research.flink.report import course, rescales, row
from headgate.research.flink.run import FlinkResult, FlinkRun
from headgate.workloads.replay import Answers, ReplayProgress

BEGAN_S = 1_000.0
ONE, THREE = {"source": 1, "slow": 1, "sink": 1}, {"source": 1, "slow": 3, "sink": 1}
HAD = (
    JobSlots(990.0, 1, 1, ONE),
    JobSlots(1_020.0, 1, 1, ONE),
    # During a restart no subtask runs, and the slots count as before.
    JobSlots(1_030.0, 1, 1, {}),
    JobSlots(1_032.0, 1, 3, THREE),
    JobSlots(1_040.0, 1, 3, THREE),
)


def flink_result() -> FlinkResult:
    """A record each second; those of 20 s to 29 s took 9 s, all others 1 s, and the last has no result."""
    due_s = BEGAN_S + np.arange(40.0)
    done_s = due_s + np.where((due_s >= 1_020) & (due_s < 1_030), 9.0, 1.0)
    done_s[-1] = np.inf
    run = FlinkRun("ds2", "constant:1", 40.0, parse_objective("latency p95 < 8s").within(1, 6), 8.0, 6, settled_s=10.0)
    events = [Event(1_032.0, "rescaled", "slow 1 → 3 at work", {"pause_s": 1.5})]
    truth = SinkTruth(due_s, done_s, doubled=2)
    return FlinkResult(run, BEGAN_S, truth, ReplayProgress(40.0, 40, 40, Answers(40), None), HAD, [], [], events)


def test_late_records_slots_and_rescales_are_counted_from_when_a_run_is_judged() -> None:
    found = row(flink_result())
    assert (found["records"], found["lost"], found["doubled"]) == (40, 1, 2)
    # Eleven of the thirty that are judged: ten took 9 s, and one has no result at all.
    assert found["late_pct"] == pytest.approx(100 * 11 / 30, abs=0.01)
    assert not found["kept"]
    assert (found["delay_p50_s"], found["delay_p95_s"], found["delay_p99_s"]) == (1.0, 9.0, None)
    # One slot from 10 s to 32 s, three to the last result at 39 s; and the subtasks of all three steps.
    assert found["slot_seconds"] == 22 + 3 * 7
    assert found["subtask_seconds"] == 3 * 22 + 5 * 7
    assert (found["rescales"], found["stood_still_s"], found["most"]) == (1, 1.5, "1 / 3 / 1")


def test_a_restart_is_no_rescale() -> None:
    assert rescales((*HAD[:3], JobSlots(1_032.0, 1, 1, ONE))) == 0
    assert [sample.slots for sample in changes(HAD)] == [1, 3]


def test_without_samples_no_slot_seconds_are_counted() -> None:
    assert seconds([], 0.0, 10.0) == 0.0


def test_the_course_has_the_longest_delays_and_all_sizes() -> None:
    found = course(flink_result())
    assert (20.0, 9.0) in found["delays"]
    assert found["sizes"]["slow"] == [(0.0, 1), (32.0, 3), (40.0, 3)]
    assert found["sizes"]["sink"][-1] == (40.0, 1)


# ---------------------------------------------------------------------------------------------------------- slow shares


def fraud_result() -> FraudResult:
    objective = parse_objective("slow records < 100%").within(1, 4)
    run = FlinkRun("proactive", "constant:10", 60.0, objective, 5.0, 1, settled_s=10.0)
    times_s = [BEGAN_S + 10 + 2 * number for number in range(25)]
    slow_s = {BEGAN_S + 20, BEGAN_S + 22, BEGAN_S + 50}
    return FraudResult(
        run,
        BEGAN_S,
        BEGAN_S + 60,
        "clicks",
        [(at_s, 25.0 if at_s in slow_s else 1.0) for at_s in times_s],
        [(at_s, 10.0) for at_s in times_s],
        HAD,
        [_more(BEGAN_S + 21, "exploration"), _more(BEGAN_S + 40, "optimal-control")],
        [],
        [
            Event(BEGAN_S + 22.5, "rescaled", "clicks 1 → 2", {"pause_s": 1.0}),
            Event(BEGAN_S + 30, "mode-switched", "clicks: optimal control"),
        ],
    )


def _more(at_s: float, mode: str) -> Decision:
    verdict = Verdict("clicks", 1, 2, 2, "test", "more", numbers={"mode": mode})
    return Decision(at_s, "proactive", {"clicks": verdict})


def test_violations_are_readings_above_the_bound_but_those_around_a_change() -> None:
    report = FraudReport(fraud_result(), discarded_s=4.0)
    assert report.violations_s() == [20.0, 50.0]
    assert report.readings() == 25 - 3
    assert FraudReport(fraud_result(), discarded_s=0.0).readings() == 24


def test_a_scale_out_is_ahead_when_nothing_was_violated_before_it() -> None:
    report = FraudReport(fraud_result(), discarded_s=4.0)
    exploring, controlling = report.scale_outs(is_control=False), report.scale_outs(is_control=True)
    assert (len(exploring), len(controlling)) == (1, 1)
    assert report.ahead(exploring, 10.0) == 0
    assert report.ahead(controlling, 10.0) == 1
    assert report.explored_s() == 20.0


def test_without_a_switch_there_is_no_end_of_exploration() -> None:
    assert FraudReport(replace(fraud_result(), events=()), 4.0).explored_s() is None


def test_task_managers_are_averaged_over_time() -> None:
    report = FraudReport(fraud_result(), 4.0)
    assert report.mean_task_managers() == 1.0
    assert report.mean_slots() == pytest.approx((22 * 1 + 28 * 3) / 50)
    assert report.course()["slow"][5] == (20.0, 2.5)


def test_task_managers_are_averaged_over_a_part_of_the_load() -> None:
    result = fraud_result()
    samples = [JobSlots(result.began_s, 1, 1, ONE), JobSlots(result.began_s + 30, 3, 3, THREE)]
    report = FraudReport(replace(result, samples=samples), 4.0)
    assert report.mean_task_managers(to_s=30.0) == 1.0
    assert report.mean_task_managers(20.0, 40.0) == 2.0
    assert report.mean_task_managers(30.0) == 3.0
