"""headgate rules try: what goes wrong with rules under loads that are made for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.objective import parse_objective
from headgate.lab.rules_trial import RecordedRun, RulesTrial, try_rules
from headgate.lab.what_if import RecordedJob
from headgate.rules import policy, rule
from headgate.rules.fluent import FinishedRule
from headgate.runtime.simulate import simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload


def busy(above: str = "70 %", seconds: int = 30) -> FinishedRule:
    out = rule("busy").scale_out("enrich").by(1).never_above(4)
    return out.when("utilization").above(above).for_at_least(seconds=seconds)


def idle(below: str, seconds: int = 60) -> FinishedRule:
    return rule("idle").scale_in("enrich").by(1).when("utilization").below(below).for_at_least(seconds=seconds)


@pytest.fixture(scope="module")
def without_band() -> RulesTrial:
    """Scales out above 70 % and in below 65 %: two instances use 35 % of what made a single one scale out."""
    (trial,) = try_rules(policy(busy(), idle("65 %")))
    return trial


def test_a_missing_dead_band_oscillates_and_a_threshold_is_proposed(without_band: RulesTrial) -> None:
    assert any(finding.startswith("oscillation: ") for finding in without_band.findings)
    (proposed,) = [finding for finding in without_band.findings if finding.startswith("dead band: ")]
    assert proposed.endswith("'idle' acts below 65 %; write below: 31.5 % there.")
    assert without_band.operator == "enrich"


def test_the_proposed_dead_band_ends_the_oscillation() -> None:
    (trial,) = try_rules(policy(busy(), idle("31.5 %")))
    assert trial.findings == []
    assert {name for run in trial.runs for name in run.acted} == {"busy", "idle"}


def test_rules_that_only_grow_are_a_ratchet_and_a_rule_that_cannot_act_is_dead() -> None:
    never = rule("never").scale_in("enrich").by(1).when("latency").above("9h").for_at_least(seconds=30)
    (trial,) = try_rules(policy(busy(), never))
    assert [finding.partition(":")[0] for finding in trial.findings] == ["ratchet", "dead rule"]
    assert trial.findings[1] == "dead rule: 'never' changed no size under any of these loads."


def recorded(workload: str) -> RecordedRun:
    objective = parse_objective("latency p95 < 20s").within(1, 8)
    result = simulate(
        "reactive",
        parse_workload(workload),
        objective=objective,
        service_rate_per_s=10.0,
        model=MicroBatch(trigger_interval_s=5.0, noise=0.05),
        startup_s=20.0,
        seconds=2400.0,
    )
    job = RecordedJob.of(result.observations, result.decisions, objective)
    return RecordedRun("recorded run 1", {"job": job}, objective)


@pytest.mark.parametrize(
    ("workload", "rules", "kind"),
    [
        ("gaussian:base=2,peak=30,center=10m,sigma=3m", (busy(),), "ratchet"),
        ("gaussian:base=8,peak=12,center=2m,sigma=30s", (busy(), idle("65 %")), "oscillation"),
    ],
)
def test_rules_are_tried_under_the_load_of_a_recorded_run(
    workload: str, rules: tuple[FinishedRule, ...], kind: str
) -> None:
    (trial,) = try_rules(policy(*rules), recorded=recorded(workload))
    assert trial.runs[0].case.name == "recorded run 1"
    of_run = [finding for finding in trial.findings if "recorded run 1" in finding]
    assert [finding.partition(":")[0] for finding in of_run] == [kind]


def test_rules_for_an_operator_that_a_run_of_several_does_not_have_are_not_replayed() -> None:
    recorded_run = recorded("gaussian:base=8,peak=12,center=2m,sigma=30s")
    several = replace(recorded_run, jobs=dict.fromkeys(("parse", "count"), recorded_run.jobs["job"]))
    (trial,) = try_rules(policy(busy()), recorded=several)
    assert "not replayed: recorded run 1 has the operators parse, count, and not 'enrich'." in trial.findings
