"""The search for a policy's weakness finds planted ones, makes them small, and writes files that can be run."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core.objective import parse_objective
from headgate.core.types import Instances, Instant, Sample, Target
from headgate.core.window import Window
from headgate.lab.adversary.grammar import (
    PROBES,
    RATE_PER_S,
    AttackedPolicy,
    Value,
    completed,
    complexity,
    load_text,
    scenario_text,
)
from headgate.lab.adversary.hunt import HuntPlan, Seek, hunt, judging, policy_code, write_cases
from headgate.lab.adversary.judge import Attack, AttackOutcome, judge
from headgate.lab.experiments.document import read_experiment
from headgate.lab.experiments.run_case import run_case
from headgate.policies.frame.base import OperatorPolicy, register
from headgate.policies.frame.settings import Settings
from tests.cli.commands import headgate, refused

pytest.importorskip("optuna")
OBJECTIVE = parse_objective("latency p95 < 10s").within(1, 20)


class _IgnoresBacklog(OperatorPolicy[Settings]):
    """Sizes a job for what arrives and never for what waits."""

    name = "planted-ignores-backlog"
    summary = "A planted weakness."
    Settings = Settings

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        return Target(max(1, math.ceil((sample.input_rate_per_s or 0.0) / RATE_PER_S)), "rate", "for what arrives")


class _NeverShrinks(_IgnoresBacklog):
    """Is large enough, and stays as large as it ever was."""

    name = "planted-never-shrinks"

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        wanted = math.ceil(2 * (sample.input_rate_per_s or 0.0) / RATE_PER_S + (sample.backlog or 0.0) / RATE_PER_S / 5)
        return Target(max(instances.planned, wanted), "rate", "for what arrives, and more")


@pytest.fixture(autouse=True)
def planted() -> None:
    for policy in (_IgnoresBacklog, _NeverShrinks):
        register(policy)


def test_a_policy_that_never_shrinks_is_dear_and_the_case_is_as_small_as_can_be(tmp_path: Path) -> None:
    plan = HuntPlan(AttackedPolicy("planted-never-shrinks", OBJECTIVE, most_minutes=20.0), Seek.COST, trials=8, cases=1)
    shares: list[float] = []
    with judging(plan.attacked, 1, tmp_path) as judge_all:
        result = hunt(plan, judge_all, shares.append)
        again = hunt(plan, judge_all, lambda _: None)
    (found,) = result.found
    assert (found.outcome.kind, found.outcome.is_broken) == ("dear", False)
    assert found.outcome.cost > 4
    assert complexity(plan.attacked.genes, found.genes)[0] <= 2
    assert again == result
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_policy_that_ignores_the_backlog_breaks_where_others_do_not_as_a_file_that_runs_shows(tmp_path: Path) -> None:
    plan = HuntPlan(AttackedPolicy("planted-ignores-backlog", OBJECTIVE, most_minutes=20.0), trials=8, cases=1)
    with judging(plan.attacked, 1, tmp_path / "cache") as judge_all:
        result = hunt(plan, judge_all, lambda _: None)
    (found,) = result.found
    assert found.outcome.kind == "broken, others meet it"
    assert found.outcome.missed_pct > 20
    assert set(found.outcome.met_by) <= {"hpa", "reactive", "trigger-ratio"}
    (file,) = write_cases(tmp_path, result, plan)
    assert file.read_text().startswith("# A case on which planted-ignores-backlog is broken, others meet it, found by")
    (case,) = read_experiment(file).cases()
    row = run_case(case, tmp_path)
    assert row["error"] is None
    assert row["late_records_pct"] == pytest.approx(found.outcome.missed_pct)


def _case(**genes: Value) -> str:
    attacked = AttackedPolicy("static", OBJECTIVE)
    return scenario_text(completed(attacked.genes, genes), attacked)


def test_a_case_that_nobody_can_meet_does_not_count() -> None:
    hopeless = _case(base="flat", low=7.9, start="fewest", startup_s=30.0, job="micro-batch", scaling="retrograde")
    outcome = judge(Attack(hopeless))
    assert (outcome.is_possible, outcome.harm) == (False, -1.0)


def test_a_policy_that_is_met_by_others_is_worse_than_one_that_nobody_meets_and_than_one_that_is_dear() -> None:
    broken = AttackOutcome(missed_pct=30.0, allowed_pct=5.0, cost=1.0)
    worst = replace(broken, missed_pct=6.0, met_by={"hpa": 1.2})
    dear = AttackOutcome(missed_pct=5.0, allowed_pct=5.0, cost=8.0)
    assert worst.harm > broken.harm > dear.harm > 0
    plan = HuntPlan(AttackedPolicy("static", OBJECTIVE), Seek.COST, trials=1)
    assert plan.value(dear) > plan.value(worst)


@pytest.mark.parametrize("probe", PROBES)
def test_every_probe_can_be_written_and_read(probe: dict[str, Value], tmp_path: Path) -> None:
    attacked = AttackedPolicy("static", OBJECTIVE)
    file = tmp_path / "case.yaml"
    file.write_text(scenario_text(completed(attacked.genes, probe), attacked))
    (case,) = read_experiment(file).cases()
    assert case.load == load_text(completed(attacked.genes, probe), 0)


def test_a_time_limit_ends_the_search_between_two_batches() -> None:
    plan = HuntPlan(AttackedPolicy("static", OBJECTIVE), seconds=100.0)
    times_s = iter(range(0, 10_000, 15))
    batches: list[int] = []

    def judged(attacks: Sequence[Attack]) -> list[AttackOutcome]:
        batches.append(len(attacks))
        return [AttackOutcome(0.0, 5.0, 1.0) for _ in attacks]

    result = hunt(plan, judged, lambda _: None, clock=lambda: float(next(times_s)))
    assert (result.tried, result.found) == (sum(batches), [])
    assert batches == [8] * len(batches)
    assert 1 <= len(batches) <= 5


def test_the_code_of_a_policy_of_another_package_is_part_of_what_is_cached() -> None:
    assert policy_code("static") == ""
    assert len(policy_code("planted-never-shrinks")) == 16


def test_the_command_writes_the_cases_and_says_how_to_run_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_CACHE", str(tmp_path / "cache"))
    options = ("--policy", "static", "--trials", "8", "--longest", "20m", "--cases", "1", "--processes", "1")
    result = headgate("lab", "break", *options, "--out", str(tmp_path), "--json", str(tmp_path / "found.json"))
    assert result.exit_code == 0, result.output
    assert f"headgate lab run {tmp_path / 'static-1.yaml'}" in " ".join(result.stdout.split())
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["policy"], found["version"], len(found["cases"])) == ("static", 1, 1)
    assert read_experiment(tmp_path / "static-1.yaml").policies[0].policy == "static"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--policy", "hpaa"), "unknown policy 'hpaa', did you mean 'hpa'?"),
        (("--seek", "cheap"), "unknown --seek 'cheap'"),
        (("--longest", "5m"), "--longest 5m is not allowed; 20m to 24h are."),
        (("--objective", "latency p95 < 10s, cost < 5 per day"), "one of a single job without a cost limit is."),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], message: str) -> None:
    assert message in refused("lab", "break", *options)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("policy", "seek", "kind"),
    [
        ("planted-ignores-backlog", Seek.BOTH, "broken, others meet it"),
        ("planted-never-shrinks", Seek.COST, "dear"),
    ],
)
def test_planted_weaknesses_are_found_and_made_small_within_five_minutes(
    policy: str, seek: Seek, kind: str, tmp_path: Path
) -> None:
    plan = HuntPlan(AttackedPolicy(policy, OBJECTIVE), seek, seconds=290.0)
    with judging(plan.attacked, 1, tmp_path) as judge_all:
        result = hunt(plan, judge_all, lambda _: None)
    assert kind in {case.outcome.kind for case in result.found}
    assert complexity(plan.attacked.genes, result.found[0].genes)[0] <= 5
