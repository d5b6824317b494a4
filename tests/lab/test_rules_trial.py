"""headgate rules try: what goes wrong with rules under loads that are made for it."""

from __future__ import annotations

import pytest

from headgate.lab.rules_trial import RulesTrial, try_rules
from headgate.rules import policy, rule
from headgate.rules.fluent import FinishedRule


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
