"""Simulated runs: a policy, a workload and a model in, one report out."""

import json
import re
from typing import Any

import pytest

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import Objective, parse_objective
from headgate.journal.memory import MemoryJournal
from headgate.policies.frame.base import policy_names
from headgate.runtime.simulate import Model, SimulationResult, fixed_size_comparison, simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload
from headgate.workloads.steps import Steps

OBJECTIVE = parse_objective("latency p95 < 10s")
NOISY = MicroBatch(noise=0.2, cold_factor=1.5, rescale_pause_s=1)
DAY = "sine:mean=50,amplitude=40,period=20m"


def run(policy: str = "static", workload: str = "constant:10", **changes: Any) -> SimulationResult:
    values: dict[str, Any] = {"objective": OBJECTIVE, "service_rate_per_s": 5.0, "seconds": 60.0}
    return simulate(policy, parse_workload(workload), **(values | changes))


def test_a_backlog_passes_300_at_exactly_60_seconds() -> None:
    report = run().to_json()
    assert report["series"][-1] == {
        "t": 60.0,
        "input_rate": 10.0,
        "backlog": 300.0,
        "latency_s": 30.0,
        "ready": 1,
        "planned": 1,
    }
    assert report["summary"]["max_backlog"] == 300


def test_the_summary_of_a_run_worked_out_by_hand() -> None:
    # Record x comes after x/10 s and is done after x/5 s: after t seconds the oldest has waited t/2. Of 600 records 300
    # are done, 100 of them in time; of the others those that came before 50 s are late as well.
    assert run().to_json()["summary"] == {
        "slo_violation_pct": pytest.approx(100 * 40 / 60, abs=1e-6),
        "late_records_pct": pytest.approx(100 * 400 / 600, abs=1e-6),
        "qos_pct": 0,
        "mean_instances": 1,
        "instance_seconds": 60,
        "rescales": 0,
        "max_backlog": 300,
        "latency_p50_s": pytest.approx(15),
        "latency_p95_s": pytest.approx(28.5),
        "latency_p99_s": pytest.approx(29.7),
        "cost": None,
    }


SCORED = {
    "queue": "queue",
    "micro-batch": MicroBatch(trigger_interval_s=7, overhead_s=0.5),
    "tasks": MicroBatch(trigger_interval_s=7, overhead_s=0.5, partitions=4, cores=2, noise=0.2),
    "DStreams": MicroBatch(trigger_interval_s=7, overhead_s=0.5, batch_per_interval=True),
}


@pytest.mark.parametrize("objective", ["latency p95 < 10s", "slow records < 50%", "throughput >= 95%"])
@pytest.mark.parametrize("model", SCORED)
def test_a_run_is_scored_the_same_however_often_anybody_looks(model: Any, objective: str) -> None:
    def summary(interval_s: float) -> dict[str, float]:
        result = run(
            workload="spike:base=10,peak=70,at=100s,width=200s",
            model=SCORED[model],
            objective=parse_objective(objective),
            service_rate_per_s=10.0,
            settings={"instances": 4},
            start=4,
            interval_s=interval_s,
            seconds=1200.0,
            seed=2,
        )
        return {name: value for name, value in result.to_json()["summary"].items() if value is not None}

    seldom = summary(120.0)
    assert 0 < seldom["slo_violation_pct"] < 100
    for interval_s in (1.0, 5.0, 33.3, 1200.0):
        assert summary(interval_s) == pytest.approx(seldom, rel=1e-5)


@pytest.mark.parametrize("readings", ["spark", "kafka", "perfect"])
def test_a_run_is_scored_on_the_truth_whatever_its_readings_said(readings: str) -> None:
    model = MicroBatch(trigger_interval_s=10, overhead_s=1)
    found = run(model=model, workload="constant:6", readings=readings, seconds=600.0)
    assert found.run["readings"] == readings
    assert found.summary == run(model=model, workload="constant:6", readings="perfect", seconds=600.0).summary


def test_what_is_paid_for_includes_starting_and_leaving() -> None:
    # Four instances from 0 s on, of which three are ready after 20 s.
    growing = run(settings={"instances": 4}, startup_s=20.0)
    assert (growing.summary.instance_seconds, growing.summary.mean_instances) == (240, (20 + 40 * 4) / 60)
    # One instance from 0 s on; the three that leave are paid for 10 s longer.
    shrinking = run(settings={"instances": 1}, start=4, drain_s=10.0)
    assert (shrinking.summary.instance_seconds, shrinking.summary.mean_instances) == (60 + 30, 1)


@pytest.mark.parametrize("policy", ["reactive", "threshold", "hpa"])
def test_a_job_whose_source_went_quiet_shrinks_to_its_smallest_size(policy: str) -> None:
    """No batch ends any more, so the numbers of the last one must not stand for ever.

    Not so ``spark-streaming-dra``: like its original it does nothing while no batch ends.
    """
    quiet = "spike:base=0,peak=40,at=0s,width=300s"
    result = run(policy, quiet, service_rate_per_s=10.0, model="micro-batch", start=6, seconds=4 * 3600.0)
    assert result.record.series()[-1]["planned"] == 1


def test_start_up_times_reach_the_policies() -> None:
    result = run(settings={"instances": 3}, startup_s=20.0, startup_spread=0.2, seconds=120.0, seed=3)
    startups = [startup for seen in result.observations for startup in seen.startups.get("job", ())]
    assert len(startups) == 2
    assert all(10 < startup.registered_after_s < 40 for startup in startups)


def test_a_report_says_what_was_run() -> None:
    run_data = run("static", settings={"instances": 3}, guards={"max_out": "1"}, seed=5, startup_s=20).to_json()["run"]
    assert run_data["policy"] == "static"
    assert run_data["settings"] == {"instances": 3}
    assert run_data["guards"]["max_out"] == 1
    assert run_data["workload"] == "constant:10"
    assert run_data["objective"] == "latency p95 < 10s"
    assert (run_data["seed"], run_data["startup_s"], run_data["model"]) == (5, 20, "queue")


def test_decisions_are_made_at_every_interval_but_not_at_the_end() -> None:
    journal = MemoryJournal()
    result = run(interval_s=0.1, seconds=1.1, journal=journal)
    assert [decision.at_s for decision in journal.decisions()] == pytest.approx([index / 10 for index in range(11)])
    assert [point["t"] for point in result.to_json()["series"]] == pytest.approx([index / 10 for index in range(12)])


def test_an_interval_longer_than_the_run_still_decides_once() -> None:
    assert [point["t"] for point in run(interval_s=100, seconds=30).to_json()["series"]] == [0, 30]


def test_a_size_that_was_decided_is_planned_at_once_and_ready_after_the_start_up() -> None:
    series = run(settings={"instances": 3}, startup_s=20).to_json()["series"]
    assert [point["planned"] for point in series[:6]] == [1, 3, 3, 3, 3, 3]
    assert [point["ready"] for point in series[:6]] == [1, 1, 1, 1, 3, 3]
    # 20 s of 5 records too many, then 5 too few a second.
    assert [point["backlog"] for point in series if point["t"] in (20, 30, 40, 60)] == [100, 50, 0, 0]


def test_changes_of_a_proposal_by_a_guard_are_reported() -> None:
    decision = run(settings={"instances": 9}, objective=OBJECTIVE.within(1, 4)).to_json()["decisions"][0]
    assert (decision["t"], decision["from"], decision["proposed"], decision["to"]) == (0, 1, 9, 4)
    assert decision["reason"]
    assert decision["guards"] == [{"guard": "bounds", "from": 9, "to": 4, "why": "at most 4 instances"}]


def test_the_default_policy_grows_for_a_peak_and_shrinks_after_it() -> None:
    result = run("reactive", "spike:base=10,peak=70,at=300s,width=300s", service_rate_per_s=12.0, seconds=1800.0)
    planned = {point["t"]: point["planned"] for point in result.to_json()["series"]}
    assert planned[295.0] < 3
    assert planned[590.0] >= 6
    assert planned[1800.0] < planned[590.0]
    assert all(decision["reason"] for decision in result.to_json()["decisions"])


@pytest.mark.parametrize("model", ["queue", "micro-batch", NOISY], ids=["queue", "micro-batch", "noisy"])
@pytest.mark.parametrize("policy", policy_names())
def test_the_same_seed_gives_the_same_report(policy: str, model: Model) -> None:
    first, second = (
        json.dumps(run(policy, DAY, model=model, seconds=1200.0, startup_s=15.0, seed=3).to_json(), allow_nan=False)
        for _ in range(2)
    )
    assert first == second


def test_another_seed_gives_another_run_where_there_is_noise() -> None:
    first, second = (run("static", model=NOISY, seed=seed).to_json()["series"] for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize("model", ["queue", MicroBatch(trigger_interval_s=60)], ids=["queue", "micro-batch"])
def test_a_week_of_minutes_is_run_in_full(model: Model) -> None:
    result = run("static", "sine:mean=50,amplitude=30,period=1d", model=model, interval_s=60.0, seconds=7 * 86400.0)
    assert len(result.observations) == 7 * 24 * 60 + 1


def test_a_journal_tells_the_whole_run() -> None:
    journal = MemoryJournal()
    result = run(settings={"instances": 2}, journal=journal, seed=4)
    ((number, begun),) = journal.runs()
    assert (number, begun.policy, begun.engine, begun.operators, begun.seed) == (1, "static", "simulated", ("job",), 4)
    assert journal.observations() == result.observations
    assert len(journal.decisions()) == 12
    assert [receipt.requested for receipt in journal.receipts()] == [{"job": 2}]
    assert [event.kind for event in journal.events()] == ["started", "stopped"]


def test_a_journal_with_learned_state_does_not_change_the_run() -> None:
    journal = MemoryJournal()
    first, second = (run("reactive", DAY, seconds=1200.0, journal=journal).to_json() for _ in range(2))
    assert first == second


def test_progress_is_reported_from_start_to_end() -> None:
    shares: list[float] = []
    run(seconds=3600.0, progress=shares.append)
    assert shares[0] == 0
    assert shares[-1] == 1
    assert shares == sorted(shares)


@pytest.mark.parametrize(("every_s", "times"), [(0.0, 5 + 1), (3600.0, 2)])
def test_progress_is_reported_by_the_clock_also_where_decisions_are_few(
    every_s: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.runtime.simulate.REPORT_EVERY_S", every_s)
    shares: list[float] = []
    run("hpa", seconds=25.0, progress=shares.append)
    assert len(shares) == times


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": 0}, "seconds 0 is not allowed; it must be finite and above 0."),
        ({"seconds": float("inf")}, "seconds inf is not allowed; it must be finite and above 0."),
        ({"interval_s": -5}, "interval_s -5 is not allowed; it must be finite and above 0."),
        ({"service_rate_per_s": 0}, "service rate 0 of job is not allowed; it must be finite and above 0."),
        ({"startup_s": -1}, "start-up time -1 s is not allowed; it must be finite and not negative."),
        ({"drain_s": -1}, "drain time -1 s is not allowed; it must be finite and not negative."),
        ({"start": 11}, "start 11 is not allowed; it must lie between min 1 and max 10."),
        ({"start": 0}, "start 0 is not allowed; it must lie between min 1 and max 10."),
        ({"settings": {"instances": 0}}, "static setting instances 0 is not allowed"),
        ({"guards": {"gain_out": 2}}, "guards setting gain_out 2 is not allowed"),
    ],
)
def test_a_run_that_cannot_be_is_refused_in_one_sentence(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        run(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": "statc"}, "unknown policy 'statc', did you mean 'static'?"),
        ({"model": "micro-bach"}, "unknown model 'micro-bach', did you mean 'micro-batch'? Known: micro-batch, queue."),
        ({"model": "micro-batch", "readings": "sprak"}, "unknown readings 'sprak', did you mean 'spark'?"),
        ({"settings": {"instance": 2}}, "unknown setting of static 'instance', did you mean 'instances'?"),
        ({"guards": {"max_ot": 2}}, "unknown setting of guards 'max_ot', did you mean 'max_out'?"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        run(**changes)


def test_a_load_is_compared_on_fixed_sizes() -> None:
    # Ten seconds of 10/s, then twenty of 40/s, on instances of 10/s.
    load = Steps([0.0, 10.0, 30.0], [10.0, 40.0], "steps")
    objective = Objective(OBJECTIVE.slo, 1, 8)
    found = fixed_size_comparison(load, 30.0, (1, 4), objective=objective, service_rate_per_s=10.0)
    assert {size: summary.max_backlog for size, summary in found.items()} == {1: 600, 4: 0}
    assert {size: summary.instance_seconds for size, summary in found.items()} == {1: 30, 4: 120}
    assert found[4].slo_violation_pct == 0


def test_all_fixed_sizes_are_compared_and_of_very_many_those_around_the_cheapest_that_meets_the_objective() -> None:
    load = Steps([0.0, 600.0], [1000.0], "steps")
    few = fixed_size_comparison(load, 600.0, objective=Objective(OBJECTIVE.slo, 2, 9), service_rate_per_s=10.0)
    many = fixed_size_comparison(load, 600.0, objective=Objective(OBJECTIVE.slo, 1, 500), service_rate_per_s=10.0)
    assert list(few) == list(range(2, 10))
    assert {98, 99} <= many.keys(), "the largest that misses it and the smallest that meets it"
    assert len(many) < 30


def test_a_run_may_begin_with_what_another_learned() -> None:
    first = run("reactive", "ramp:from=2,to=30,over=10m", seconds=900.0)
    second = run("reactive", "constant:2", seconds=10.0, state=first.state)
    assert first.state["learned"]
    assert second.state["learned"] == first.state["learned"]
    assert run("reactive", "constant:2", seconds=10.0).state["learned"] != first.state["learned"]
