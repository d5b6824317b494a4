"""reactive: what one instance carries is learned, and the load sized by it."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from headgate.core.objective import Objective, parse_objective
from headgate.core.step import step
from headgate.core.topology import Topology
from headgate.core.types import Sample
from headgate.core.window import History
from headgate.policies import Context, make_policy
from headgate.policies.frame.base import AnyPolicy, GuardSettings
from headgate.testing.scenarios import LoadScenario, ScenarioRun, hill, steps
from tests.core.building import JOB, decision, history, observation, policy, propose

OVER, WITHIN = 12.3, 3.0
"""Latencies beyond and within the bound of 10 s."""


def late(rate: float | None = 400, processed: float | None = 200, at_s: float = 0, **others: Any) -> Sample:
    return Sample("job", at_s, input_rate_per_s=rate, processed_rate_per_s=processed, latency_s=OVER, **others)


def capacity_of(chosen: AnyPolicy) -> float | None:
    learned = chosen.snapshot()["learned"]
    return learned["job"][0] if learned else None


# ------------------------------------------------------------------------------------------------------- scaling out


@pytest.mark.parametrize(
    ("sample", "planned", "instances", "reported"),
    [
        (late(410, 176), 2, 5, "410 records/s need 5 instances of 88/s"),
        (late(400, 200), 2, 4, "400 records/s need 4 instances of 100/s"),
        (late(150, 200), 2, 3, "150 records/s need 2 instances of 75/s, but 2 are planned already: one more"),
        (late(400, None), 2, 3, "400 records/s need 2 instances of 200/s, but 2 are planned already: one more"),
        (late(None, 200), 2, 3, "what the load needs is not known, so one more"),
        (late(None, None), 2, 3, "what the load needs is not known, so one more"),
        (late(400, 200, backlog=6000), 2, 5, "400 records/s and 6000 waiting, to be done in 60s, need 5 instances"),
        (late(400, 200, backlog=0), 2, 4, "400 records/s need 4 instances of 100/s"),
    ],
)
def test_a_violation_goes_to_what_the_load_needs_and_at_least_one_more(
    sample: Sample, planned: int, instances: int, reported: str
) -> None:
    target = propose(policy("reactive"), history([sample], planned))
    assert (target.instances, target.code) == (instances, "slo-violated")
    assert target.reason.startswith("latency 12.3 s is over the 10s bound; ")
    assert reported in target.reason


def test_the_numbers_behind_a_decision_go_with_it() -> None:
    target = propose(policy("reactive"), history([late(410, 176, backlog=600)], planned=2))
    assert target.numbers == {
        "latency_s": OVER,
        "bound_s": 10.0,
        "rate_per_s": 410,
        "backlog": 600,
        "capacity_per_s": 88.0,
        "needed": 5,
    }


def test_the_backlog_can_be_left_out_as_in_the_document() -> None:
    target = propose(policy("reactive", drain_within_s=0), history([late(400, 200, backlog=6000)], planned=2))
    assert target.instances == 4


@pytest.mark.parametrize(
    ("objective", "sample"),
    [
        ("slow records < 5%", Sample("job", 0, input_rate_per_s=400, processed_rate_per_s=200, backlog=100)),
        ("throughput >= 95%", Sample("job", 0, input_rate_per_s=400, processed_rate_per_s=200, backlog=100)),
    ],
)
def test_every_kind_of_objective_can_be_violated(objective: str, sample: Sample) -> None:
    target = propose(policy("reactive", objective, drain_within_s=0), history([sample], planned=2))
    assert (target.instances, target.code) == (4, "slo-violated")


# --------------------------------------------------------------------------------------------------------- capacity


@pytest.mark.parametrize(
    ("sample", "ready", "capacity"),
    [
        # Overloaded: what was got through counts, not what was offered.
        (late(4000, 200), 2, 100),
        # Late without a queue: the instances were fast enough, and what was offered was too much for the objective.
        (late(150, 200), 2, 75),
        # Late because of a backlog while less arrives: they were busy all the time.
        (late(10, 200, backlog=5000), 2, 100),
        (late(10, 200, scheduling_delay_s=11), 2, 100),
        # A little waiting is no queue: most of the latency was spent working.
        (late(150, 200, scheduling_delay_s=1, backlog=5000), 2, 75),
        # Nothing better is known.
        (late(400, None), 2, 200),
        # What is ready made the reading, whatever is planned.
        (late(4000, 200), 1, 200),
        # These say nothing.
        (late(0, None), 2, None),
        (late(None, None), 2, None),
        (late(4000, 200), 0, None),
        (replace(late(4000, 200), warming=True), 2, None),
    ],
)
def test_capacity_is_what_an_instance_carried_at_a_violation(
    sample: Sample, ready: int, capacity: float | None
) -> None:
    chosen = policy("reactive")
    propose(chosen, history([sample], 2, ready))
    assert capacity_of(chosen) == capacity


def learn(chosen: AnyPolicy, *samples: Sample) -> float | None:
    window = History(JOB)
    for sample in samples:
        window.observe(observation(sample.at_s, 2, sample=sample))
        chosen.decide(sample.at_s, window)
    return capacity_of(chosen)


def test_capacity_is_the_running_mean_over_violations() -> None:
    assert learn(policy("reactive"), late(400, 200), late(400, 220, 10), late(400, 240, 20)) == pytest.approx(110)


def test_old_violations_fade() -> None:
    """Records became twice as heavy: after some violations the capacity is nearly the new one."""
    samples = [late(400, 200, at_s) for at_s in range(100)] + [late(400, 100, at_s) for at_s in range(100, 130)]
    capacity = learn(policy("reactive", memory=10), *samples)
    assert capacity == pytest.approx(50, rel=0.1)


def test_a_reading_counts_once_however_often_the_loop_looks() -> None:
    chosen = policy("reactive")
    window = history([late(400, 200)])
    first = propose(chosen, window)
    for now in (1, 2, 3):
        assert propose(chosen, window, now) == first
    assert chosen.snapshot()["learned"]["job"][1] == 1


def test_a_processed_rate_replaces_what_was_guessed_from_offered_rates_and_not_the_other_way() -> None:
    chosen = policy("reactive")
    assert learn(chosen, late(4000, None)) == 2000
    assert learn(chosen, late(4000, 200, 10)) == 100
    assert learn(chosen, late(4000, None, 20)) == 100


def retained(at_s: float, rate: float, *, utilization: float | None = None, processed: float | None = None) -> Sample:
    interval_s = None if processed is None else 10.0
    return Sample(
        "job",
        at_s,
        input_rate_per_s=rate,
        processed_rate_per_s=processed,
        trigger_interval_s=interval_s,
        utilization=utilization,
        latency_s=WITHIN,
    )


@pytest.mark.parametrize(
    ("sample", "capacity"),
    [
        (retained(0, 100, utilization=0.5), 100),
        (retained(0, 100, processed=400), 200),
        (retained(0, 100, utilization=0.5, processed=400), 100),
        (retained(0, 100, utilization=0.1, processed=400), 200),
        (retained(0, 100), None),
        (retained(0, 0, utilization=0.0), None),
        # Batches back to back: they take as long as they have, and the rate says nothing.
        (replace(retained(0, 100, processed=400), trigger_interval_s=None), None),
        (replace(retained(0, 100, utilization=0.5), warming=True), None),
    ],
)
def test_before_any_violation_capacity_is_estimated_with_caution_from_how_busy_instances_are(
    sample: Sample, capacity: float | None
) -> None:
    assert learn(policy("reactive"), sample) == capacity


def test_an_estimate_makes_the_first_violation_go_to_the_right_size() -> None:
    """A batch that is not done yet has no processed rate, but what was learned before it is still known."""
    chosen = policy("reactive")
    learn(chosen, retained(0, 100, processed=200))
    assert propose(chosen, history([late(700, None, 10)], planned=2)).instances == 7


def carrying(per_instance: float, until_s: float = 150) -> list[Sample]:
    """Readings of two instances that keep the objective and show what each could carry."""
    return [retained(at_s, per_instance, utilization=0.5) for at_s in range(100, 101 + int(until_s), 10)]


@pytest.mark.parametrize(
    ("samples", "capacity"),
    [
        (carrying(120), 120),
        (carrying(120, until_s=140), 100),
        (carrying(110), 100),
        (carrying(50), 100),
        ([*carrying(300)[:-1], retained(250, 130, utilization=0.5)], 130),
        ([*carrying(300)[:8], retained(180, 300), *carrying(300)[9:]], 100),
        ([*carrying(300)[:8], replace(retained(180, 300, utilization=0.5), latency_s=None), *carrying(300)[9:]], 100),
    ],
    ids=[
        "plainly-more",
        "not-long-enough",
        "hardly-more",
        "less",
        "the-least-counts",
        "one-not-known",
        "one-not-judged",
    ],
)
def test_what_a_violation_taught_is_given_up_once_instances_plainly_carried_more(
    samples: list[Sample], capacity: float
) -> None:
    chosen = policy("reactive")
    learn(chosen, late(400, 200))
    assert learn(chosen, *samples) == capacity


# -------------------------------------------------------------------------------------------------------- scaling in


def quiet(rate: float, until_s: float = 150, latency_s: float = WITHIN) -> list[Sample]:
    return [
        Sample("job", at_s, input_rate_per_s=rate, latency_s=latency_s) for at_s in range(100, 101 + int(until_s), 10)
    ]


def trained(**settings: object) -> AnyPolicy:
    """A policy that knows that an instance carries 100 records/s."""
    chosen = policy("reactive", **settings)
    learn(chosen, late(400, 200))
    return chosen


@pytest.mark.parametrize(
    ("rate", "until_s", "instances", "code"),
    [
        (100, 150, 3, "idle"),
        (100, 140, 4, "waiting"),
        # 270 / (0.9 · 100) is exactly 3.
        (270, 150, 3, "idle"),
        (271, 150, 4, "steady"),
        (400, 150, 4, "steady"),
        (0, 150, 3, "idle"),
    ],
)
def test_one_instance_goes_when_fewer_were_enough_with_headroom_for_long_enough(
    rate: float, until_s: float, instances: int, code: str
) -> None:
    target = propose(trained(), history(quiet(rate, until_s), planned=4))
    assert (target.instances, target.code) == (instances, code)


@pytest.mark.parametrize("position", [0, 7, 14])
@pytest.mark.parametrize("spoiler", [{"input_rate_per_s": 390.0}, {"input_rate_per_s": None}, {"latency_s": None}])
def test_one_reading_that_needs_the_size_or_does_not_tell_starts_the_wait_again(
    position: int, spoiler: dict[str, float | None]
) -> None:
    samples = quiet(100)
    samples[position] = replace(samples[position], **spoiler)  # type: ignore[arg-type]
    assert propose(trained(), history(samples, planned=4)).code == "waiting"


def test_the_wait_starts_again_after_a_change_of_size() -> None:
    window = history(quiet(100, 200), planned=4)
    window.record(decision(200, 5, 4))
    assert propose(trained(), window).code == "waiting"


def test_it_does_not_scale_in_when_the_objective_would_be_close() -> None:
    """At 7.5 s of 10 s with four instances, three would take 10 s."""
    assert propose(trained(), history(quiet(100, latency_s=7.5), planned=4)).code == "steady"


def test_the_last_instance_stays() -> None:
    assert propose(trained(), history(quiet(0), planned=1)).instances == 1


def test_it_does_not_scale_in_when_nothing_is_known_of_capacity() -> None:
    target = propose(policy("reactive"), history(quiet(100), planned=4))
    assert (target.instances, target.code) == (4, "steady")
    assert "what an instance can carry is not known" in target.reason


def test_an_idle_job_shrinks_although_nothing_was_ever_learned() -> None:
    assert propose(policy("reactive"), history(quiet(0), planned=4)).instances == 3


# ------------------------------------------------------------------------------------------------------------- holds


@pytest.mark.parametrize(
    ("sample", "code", "reported"),
    [
        (Sample("job", 0), "no-data", "the latency is not known: holding"),
        (Sample("job", 0, input_rate_per_s=100), "no-data", "the latency is not known: holding"),
        (Sample("job", 0, latency_s=WITHIN), "steady", "the rate of arrivals is not known"),
    ],
)
def test_it_holds_and_says_what_is_missing(sample: Sample, code: str, reported: str) -> None:
    target = propose(trained(), history([sample], planned=4))
    assert (target.instances, target.code) == (4, code)
    assert reported in target.reason


def test_a_violation_is_not_answered_twice_before_there_is_a_new_reading() -> None:
    chosen = policy("reactive")
    window = history([late(400, 200)], planned=2)
    assert propose(chosen, window).instances == 4
    window.record(decision(0, 2, 4))
    window.observe(observation(5, 4))
    target = propose(chosen, window)
    assert (target.instances, target.code) == (4, "arriving")


@pytest.mark.parametrize(
    ("ready", "sample", "instances", "code"),
    [
        # What is coming is enough for this load: no reading asks for one more on top.
        (2, late(400, 200, 10), 4, "arriving"),
        (4, late(400, 200, 10, warming=True), 4, "arriving"),
        (2, late(None, 200, 10), 4, "arriving"),
        # The load has grown on meanwhile: what it needs now is requested now.
        (2, late(700, 200, 10), 7, "slo-violated"),
        (4, late(700, 200, 10, warming=True), 7, "slo-violated"),
        # All are there, and it is still too late: one more.
        (4, late(400, 400, 20), 5, "slo-violated"),
    ],
)
def test_while_instances_come_a_violation_asks_for_what_the_load_needs_and_no_more(
    ready: int, sample: Sample, instances: int, code: str
) -> None:
    chosen = policy("reactive")
    window = history([late(400, 200)], planned=2)
    assert propose(chosen, window).instances == 4
    window.record(decision(0, 2, 4))
    window.observe(observation(5, 4, ready))
    window.observe(observation(sample.at_s, 4, ready, sample))
    target = propose(chosen, window)
    assert (target.instances, target.code) == (instances, code)


def test_operators_are_learned_and_sized_apart() -> None:
    pair = Topology.of(("parse", "enrich"))
    chosen = make_policy("reactive", Context(parse_objective("latency < 10s"), pair))
    window = History(pair)
    seen = observation(0, 2).instances["job"]
    samples = {
        "parse": replace(late(400, 200), operator="parse"),
        "enrich": replace(late(400, 50), operator="enrich"),
    }
    window.observe(replace(observation(0), samples=samples, instances={"parse": seen, "enrich": seen}))
    targets = chosen.decide(0, window).targets
    assert {name: target.instances for name, target in targets.items()} == {"parse": 4, "enrich": 16}


# ------------------------------------------------------------------------------------------------------ in closed loop


def drive(
    scenario: LoadScenario, during: dict[float, LoadScenario] | None = None, **settings: object
) -> tuple[float, list[int]]:
    """The share of violated readings, and the planned sizes; ``during`` changes the scenario at some times."""
    chosen = make_policy("reactive", Context(scenario.objective, scenario.topology), settings)
    guards = GuardSettings().build(scenario.objective)
    run = ScenarioRun(scenario)
    violated, planned = [], []
    for now in scenario.times():
        if during and now in during:
            run.change(during[now])
        seen = run.observe(now)
        violated.append(scenario.objective.slo.violated_by(seen.samples["job"]) is True)
        planned.append(seen.instances["job"].planned)
        made = step(chosen, guards, now, run.history)
        json.dumps([dict(verdict.numbers) for verdict in made.verdicts.values()], allow_nan=False)
        run.history.record(made)
        run.resize(now, made.targets)
    return sum(violated) / len(violated), planned


OBJECTIVE = Objective(parse_objective("latency < 10s").slo, 1, 10)


@pytest.mark.parametrize("trigger_interval_s", [None, 10.0])
def test_it_follows_a_load_that_rises_and_falls(trigger_interval_s: float | None) -> None:
    scenario = LoadScenario(
        "hill",
        {"job": hill(50, 650, 3600)},
        service_rate_per_s=100,
        trigger_interval_s=trigger_interval_s,
        duration_s=7200,
        objective=OBJECTIVE,
    )
    violated, planned = drive(scenario)
    assert violated < 0.06
    assert max(planned) in (7, 8, 9)
    assert min(planned[200:]) <= 2, "it comes down between the hills"


def test_a_jump_far_beyond_capacity_is_met_in_few_steps() -> None:
    scenario = LoadScenario(
        "jump", {"job": steps((0, 80), (600, 800))}, service_rate_per_s=100, duration_s=1200, objective=OBJECTIVE
    )
    _, planned = drive(scenario)
    risen = [size for size, _ in itertools.groupby(planned[60:])]
    assert risen[1] >= 8, f"the first step goes most of the way: {risen}"


def test_a_job_that_is_too_large_from_the_start_shrinks_to_what_it_needs_without_a_violation() -> None:
    scenario = LoadScenario(
        "oversized",
        {"job": steps((0, 150))},
        service_rate_per_s=100,
        start_instances=8,
        objective=OBJECTIVE,
    )
    violated, planned = drive(scenario)
    assert (violated, planned[-1]) == (0, 2)


@pytest.mark.parametrize("trigger_interval_s", [None, 10.0])
def test_a_stall_of_a_job_with_little_load_does_not_keep_it_large(trigger_interval_s: float | None) -> None:
    load = {"job": steps((0, 30))}
    calm = LoadScenario("stall", load, 100.0, trigger_interval_s, duration_s=3600, objective=OBJECTIVE)
    stalled = replace(calm, service_rate_per_s=2.0)
    _, planned = drive(calm, during={600.0: stalled, 630.0: calm})
    assert max(planned) > 2, "the stall is answered"
    assert planned[-1] <= 2, "and forgotten"


def test_a_steady_load_keeps_its_size() -> None:
    scenario = LoadScenario(
        "steady", {"job": steps((0, 250))}, service_rate_per_s=100, start_instances=3, objective=OBJECTIVE
    )
    assert set(drive(scenario)[1]) == {3}


def test_counting_the_backlog_shortens_violations_when_instances_start_slowly() -> None:
    scenario = LoadScenario(
        "slow-start",
        {"job": hill(50, 650, 1800)},
        service_rate_per_s=100,
        startup_s=60,
        duration_s=7200,
        objective=OBJECTIVE,
    )
    assert drive(scenario)[0] < drive(scenario, drain_within_s=0)[0]
