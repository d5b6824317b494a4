"""proactive: exploration, optimal control, and the way back, on simulated jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Event, Sample, Startup
from headgate.journal.memory import MemoryJournal
from headgate.policies.proactive import ControlMode, Proactive
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload
from tests.core.building import decision, history, observation, policy, propose

HOUR_S = 3600.0
JOB = MicroBatch(trigger_interval_s=5.0, overhead_s=0.2, noise=0.05)
SWING = "sine:mean=55,amplitude=40,period=40m"
"""A record waits up to 5 s for its trigger; then batches take 5 s · rate / (20 · instances) and a little more. 9 s are
allowed, so one instance carries 15/s."""


class Run:
    def __init__(self, result: SimulationResult, journal: MemoryJournal) -> None:
        self.result = result
        self.events: list[Event] = [event for event in journal.events() if event.kind not in ("started", "stopped")]
        self.decisions: list[Decision] = journal.decisions()

    @property
    def switches(self) -> list[tuple[float, str]]:
        return [(event.at_s, event.detail) for event in self.events if event.kind == "mode-switched"]

    def modes(self, from_s: float = 0.0, until_s: float = float("inf")) -> list[object]:
        """The mode of every decision that had a reading."""
        numbers = [entry.verdicts["job"].numbers for entry in self.decisions if from_s <= entry.at_s < until_s]
        return [entry["mode"] for entry in numbers if "mode" in entry]

    def violations(self, from_s: float, until_s: float) -> int:
        slo = parse_objective("latency p95 < 9s").slo
        samples = {
            entry.samples["job"].at_s: entry.samples["job"] for entry in self.result.observations if entry.samples
        }
        return sum(bool(slo.violated_by(entry)) for at_s, entry in samples.items() if from_s <= at_s < until_s)


def run(workload: str = SWING, *, hours: float = 2.0, name: str = "proactive", **changes: Any) -> Run:
    journal = MemoryJournal()
    values: dict[str, Any] = {
        "objective": parse_objective("latency p95 < 9s").within(1, 24),
        "service_rate_per_s": 20.0,
        "model": JOB,
        "start": 4,
        "startup_s": 20.0,
        "seconds": hours * HOUR_S,
    }
    return Run(simulate(name, parse_workload(workload), journal=journal, **(values | changes)), journal)


@pytest.fixture(scope="module")
def learned() -> Run:
    """Two hours, the first 40 minutes of which, a whole swing of the load, are explored."""
    return run(settings={"check_every_s": 2400.0})


def test_it_explores_until_its_model_is_stable_and_journals_the_switch_with_its_reason(learned: Run) -> None:
    (at_s, reason), *_ = learned.switches
    assert at_s >= 2400
    assert "exploration → optimal control; a model of degree" in reason
    assert set(learned.modes(until_s=at_s)) == {"exploration"}
    assert set(learned.modes(from_s=at_s)) == {"optimal-control"}
    switch = next(event for event in learned.events if event.kind == "mode-switched")
    assert {"readings", "degree", "error", "spread_at_readings", "spread_up_to_capacity"} <= set(switch.numbers)


def test_exploration_says_what_it_lacks() -> None:
    reason = [event.detail for event in run("constant:10", hours=0.4).events]
    lacks = "the objective was not violated yet, so what an instance can carry is not known"
    assert reason == [f"job: exploration goes on; {lacks}"] * 2


def test_utilization_can_end_exploration_without_a_violation() -> None:
    quiet = run("sine:mean=30,amplitude=15,period=20m", settings={"least_utilization": 0.3, "check_every_s": 1200.0})
    at_s, detail = quiet.switches[0]
    assert "exploration → optimal control" in detail
    assert quiet.violations(0.0, at_s) == 0
    idle = run("constant:1", hours=0.7, settings={"least_utilization": 0.3, "check_every_s": 1200.0})
    assert not idle.switches


@pytest.mark.parametrize("threshold", [1.0, 2.0])
def test_a_stability_threshold_that_no_model_can_fail_is_refused(threshold: float) -> None:
    """Predictions lie between 0 and twice the bound, so their spread is at most the bound."""
    with pytest.raises(InputError, match=f"stability_threshold {threshold:g}"):
        policy("proactive", stability_threshold=threshold)


def test_in_exploration_it_does_what_reactive_does(learned: Run) -> None:
    until_s = learned.switches[0][0]
    same_guards = {"gain_out": 0.9, "gain_in": 0.4, "in_after_out_s": 60, "in_after_in_s": 60}
    reactive = run(name="reactive", guards=same_guards)
    for mine, theirs in zip(learned.decisions, reactive.decisions, strict=True):
        if mine.at_s < until_s:
            assert mine.verdicts["job"].target == theirs.verdicts["job"].target
            assert mine.verdicts["job"].reason == theirs.verdicts["job"].reason


def test_what_was_learned_in_one_run_is_used_from_the_start_of_the_next(learned: Run) -> None:
    again = run(state=learned.result.state)
    assert set(again.modes()) == {"optimal-control"}


def test_it_grows_before_the_objective_breaks(learned: Run) -> None:
    """As the document has it, it shrinks to what the newest plan says, and costs no more than reactive."""
    at_once = {"scale_in_window_s": 0}
    pretrained, reactive = run(state=learned.result.state, settings=at_once), run(name="reactive")
    grown = [entry.verdicts["job"] for entry in pretrained.decisions if entry.verdicts["job"].change > 0]
    ahead = [verdict for verdict in grown if verdict.code == "ahead-of-load"]
    assert len(ahead) >= 0.8 * len(grown) > 0
    assert pretrained.violations(0, 2 * HOUR_S) < reactive.violations(0, 2 * HOUR_S)
    assert pretrained.result.summary.mean_instances <= reactive.result.summary.mean_instances


def test_what_was_needed_lately_is_held_for_a_while(learned: Run) -> None:
    """A load that jumps up and down every three minutes."""
    jumping = "periodic:base=30,peak=60,high=3m,low=3m"
    retained, at_once = (
        run(jumping, state=learned.result.state, settings={"scale_in_window_s": window_s}) for window_s in (300, 0)
    )
    assert retained.result.summary.rescales < 0.7 * at_once.result.summary.rescales
    assert any(entry.verdicts["job"].code == "needed-lately" for entry in retained.decisions)


@pytest.mark.parametrize(
    ("course", "within_s"),
    [
        (((0.0, 1.0), (HOUR_S, 1.0), (HOUR_S, 2.5)), 300.0),
        (((0.0, 1.0), (HOUR_S, 1.0), (2 * HOUR_S, 1.8)), 1800.0),
        (((0.0, 1.0), (HOUR_S, 1.0), (HOUR_S, 0.6)), 1800.0),
    ],
    ids=["sudden", "slow", "faster"],
)
def test_a_job_that_changes_is_noticed_explored_again_and_under_control_in_the_end(
    learned: Run, course: tuple[tuple[float, float], ...], within_s: float
) -> None:
    changed = run(hours=5.0, state=learned.result.state, model=MicroBatch(5.0, 0.2, noise=0.05, work_factor=course))
    (left_s, reason), (back_s, _), *_ = changed.switches
    assert "optimal control → exploration" in reason
    assert HOUR_S < left_s < HOUR_S + within_s
    assert back_s < 4 * HOUR_S
    assert changed.modes()[-1] == "optimal-control"
    assert changed.violations(4 * HOUR_S, 5 * HOUR_S) <= 0.02 * HOUR_S / 5


def test_a_job_that_does_not_change_stays_under_control(learned: Run) -> None:
    for seed in range(3):
        assert run(hours=6.0, state=learned.result.state, seed=seed).switches == []


def test_a_load_that_jumps_is_no_change_of_the_job(learned: Run) -> None:
    jumps = run("periodic:base=20,peak=100,high=10m,low=10m", hours=3.0, state=learned.result.state)
    assert jumps.switches == []


def test_standby_instances_come_on_top(learned: Run) -> None:
    plain, reserved = (run(state=learned.result.state, hours=0.1, settings={"standby": count}) for count in (0, 2))
    last = [entry.decisions[-1].verdicts["job"] for entry in (plain, reserved)]
    assert last[1].proposed == last[0].proposed + 2
    assert "2 stand by" in last[1].reason


def restored(learned: Run) -> Proactive:
    made = policy("proactive", parse_objective("latency p95 < 9s").within(1, 24))
    made.restore(json.loads(json.dumps(dict(learned.result.state))))
    assert isinstance(made, Proactive)
    return made


def reading(at_s: float, rate: float, processing_time_s: float, delay_s: float = 0.0) -> Sample:
    """A batch has just ended."""
    return Sample(
        "job",
        at_s,
        input_rate_per_s=rate,
        processed_rate_per_s=80.0,
        backlog=0.0,
        latency_s=5.0 + delay_s + processing_time_s,
        batch_ended_s=at_s,
        processing_time_s=processing_time_s,
        scheduling_delay_s=delay_s,
        trigger_interval_s=5.0,
    )


def test_the_fewest_instances_that_hold_are_found_by_hand(learned: Run) -> None:
    """A batch of 4 instances at 50/s takes 0.2 + 5 · 50 / 80 = 3.3 s, of 3 it takes 4.4 s: only 4 keep 5 + 4 s."""
    seen = history([reading(at_s, 50.0, 3.3) for at_s in range(0, 60, 5)], planned=4)
    made = restored(learned)
    target = propose(made, seen)
    assert made.mode("job") is ControlMode.OPTIMAL_CONTROL
    assert (target.instances, target.code) == (4, "as-planned")
    assert target.numbers["predicted_pressure"] == pytest.approx(3.3 / 4, abs=0.05)


def test_a_rising_load_is_sized_for_where_it_will_be(learned: Run) -> None:
    made = restored(learned)
    rising = [reading(at_s, 20 + at_s / 6, 0.2 + 5 * (20 + at_s / 6) / 80) for at_s in range(0, 200, 5)]
    for count in range(1, len(rising)):
        propose(made, history(rising[:count], planned=4))
    target = propose(made, history(rising, planned=4))
    assert target.code == "ahead-of-load"
    assert target.numbers["highest_rate_ahead_per_s"] == pytest.approx(20 + (195 + 60) / 6, abs=0.5)


def test_the_load_is_predicted_until_an_instance_would_be_ready(learned: Run) -> None:
    made = restored(learned)
    rising = [reading(at_s, 20 + at_s / 6, 0.2 + 5 * (20 + at_s / 6) / 80) for at_s in range(0, 200, 5)]
    slow = (Startup("1", 0.0, registered_after_s=80.0, first_task_after_s=85.0, warm_after_s=115.0),)
    seen = history(rising[:1], planned=4)
    for sample in rising[1:]:
        seen.observe(replace(observation(sample.at_s, 4, sample=sample), startups={"job": slow}))
        target = propose(made, seen)
        if sample is rising[-1]:
            assert target.numbers["highest_rate_ahead_per_s"] == pytest.approx(20 + (195 + 120) / 6, abs=0.5)
            assert "within 2m need" in target.reason


@pytest.mark.parametrize(
    ("backlog", "queued_per_s", "instances"),
    [
        # Ten records a second that wait for their trigger and are worked on are no queue.
        (40.0 * (5.0 + 2.7), 0.0, 4),
        # 1,800 more are 30/s for a minute: 70/s in all, of 15/s each.
        (40.0 * (5.0 + 2.7) + 1800.0, 30.0, 5),
    ],
)
def test_what_has_piled_up_is_sized_for(learned: Run, backlog: float, queued_per_s: float, instances: int) -> None:
    readings = [replace(reading(at_s, 40.0, 2.7), backlog=backlog) for at_s in range(0, 60, 5)]
    target = propose(restored(learned), history(readings, planned=4))
    assert target.numbers["queued_per_s"] == pytest.approx(queued_per_s)
    assert target.instances == instances


@pytest.mark.parametrize("sizes_by", ["both", "capacity", "model"])
def test_a_size_must_carry_the_load_whatever_its_model_predicts(learned: Run, sizes_by: str) -> None:
    """A model that was made to promise that any size carries any load; it too breaks at the learned capacity."""
    state = json.loads(json.dumps(dict(learned.result.state)))
    model = state["operators"]["job"]["model"]
    for curve in (*model["curves"].values(), model["shared"]):
        curve["values"] = [0.1 for _ in curve["values"]]
    made = policy("proactive", parse_objective("latency p95 < 9s").within(1, 24), sizes_by=sizes_by)
    made.restore(state)
    target = propose(made, history([reading(at_s, 50.0, 3.3) for at_s in range(0, 60, 5)], planned=4))
    assert target.numbers["needed"] == 4


def test_nothing_is_removed_while_a_queue_is_worked_off(learned: Run) -> None:
    draining = [reading(at_s, 20.0, 0.9, delay_s=3.0 - at_s / 10) for at_s in range(0, 15, 5)]
    target = propose(restored(learned), history(draining, planned=4))
    assert (target.instances, target.code) == (4, "recovering")


def test_a_violation_that_the_model_did_not_foresee_is_answered_as_reactive_would(learned: Run) -> None:
    late = history([reading(0, 30.0, 1.0), reading(5, 30.0, 30.0, delay_s=25.0)], planned=4)
    target = propose(restored(learned), late)
    assert target.code == "slo-violated"
    assert target.instances >= 5


def test_a_violation_that_the_model_tells_too_is_answered(learned: Run) -> None:
    """Four of six planned instances are ready for 75 records/s, which six keep; but meanwhile a queue has grown."""
    late = [
        replace(reading(at_s, 75.0, 4.9, delay_s=at_s / 2), backlog=100.0 * at_s, warming=True)
        for at_s in range(0, 35, 5)
    ]
    made = restored(learned)
    model = made.model("job")
    assert model is not None
    assert float(model.predict([75.0], 4)[0]) >= 1
    target = propose(made, history(late, planned=6, ready=4))
    assert target.instances > 6


def test_readings_of_another_size_are_not_learned_from() -> None:
    made = policy("proactive", "latency < 10s")
    seen = history([reading(0.0, 30.0, 2.0)], planned=2)
    propose(made, seen)
    seen.record(decision(0.0, 2, 3))
    for at_s, latency_s, learned_from in ((5.0, 6.0, False), (10.0, 6.0, False), (15.0, 2.0, True)):
        seen.observe(observation(at_s, 3, sample=reading(at_s, 30.0, latency_s)))
        before = len(made.snapshot()["operators"]["job"]["points"])
        propose(made, seen)
        assert (len(made.snapshot()["operators"]["job"]["points"]) > before) is learned_from, at_s


def test_a_forecaster_that_does_not_exist_is_reported_at_once() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'linear-trend'"):
        policy("proactive", forecaster="linear-trnd")


@pytest.mark.parametrize("stopped_s", [HOUR_S / 2, 1.3 * HOUR_S])
def test_a_run_that_is_stopped_and_resumed_ends_with_what_the_whole_run_learned(stopped_s: float) -> None:
    """The loads of both halves are the same, so what is learned must be the same but for the noise of the job."""
    quiet = MicroBatch(5.0, 0.2)
    first = run(hours=stopped_s / HOUR_S, model=quiet)
    made = restored(first)
    assert json.dumps(dict(made.snapshot())) == json.dumps(dict(first.result.state))
