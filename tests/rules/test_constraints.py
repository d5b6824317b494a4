"""Constraint rules: bounds and forbidden scaling, always or in periods, around every policy."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.core.objective import Objective, parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instances, Observation, Sample, Verdict
from headgate.core.window import History
from headgate.policies import policy_names
from headgate.policies.frame.base import GuardSettings
from headgate.rules import Rules, constraint, policy, rule
from headgate.rules.constraints import constrained
from headgate.rules.fluent import ConstraintStage
from headgate.rules.rules_policy import load_constraints
from headgate.rules.schedule import Schedule, time_zone
from headgate.runtime.simulate import simulate
from headgate.workloads import parse_workload

BERLIN = ZoneInfo("Europe/Berlin")
OBJECTIVE = parse_objective("latency p95 < 10s").within(1, 10)


def at(text: str, zone: ZoneInfo = BERLIN) -> float:
    """Seconds since the epoch of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


# ------------------------------------------------------------------------------------------------------------- periods


@pytest.mark.parametrize(
    ("period", "inside", "outside"),
    [
        ("* 8-17 * * mon-fri", ["2026-03-02 08:00", "2026-03-06 17:59"], ["2026-03-02 07:59", "2026-03-07 12:00"]),
        ("* 22-5 * * *", ["2026-03-02 22:00", "2026-03-03 05:59"], ["2026-03-02 06:00", "2026-03-02 21:59"]),
        ("*/15 * * * *", ["2026-03-02 10:45"], ["2026-03-02 10:44"]),
        ("0-29 3 * * *", ["2026-03-02 03:29"], ["2026-03-02 03:30"]),
        ("* * 24,31 dec *", ["2026-12-24 00:00", "2026-12-31 23:59"], ["2026-12-25 00:00"]),
        ("* * * * fri-mon", ["2026-03-06 12:00", "2026-03-08 12:00", "2026-03-09 12:00"], ["2026-03-10 12:00"]),
        ("* * * * 7", ["2026-03-08 12:00"], ["2026-03-09 12:00"]),
        ("* * * nov-feb *", ["2026-01-15 12:00", "2026-11-15 12:00"], ["2026-03-15 12:00"]),
        ("10/20 * * * *", ["2026-03-02 10:10", "2026-03-02 10:50"], ["2026-03-02 10:20"]),
    ],
)
def test_periods_are_of_the_local_time(period: str, inside: list[str], outside: list[str]) -> None:
    schedule = Schedule(period)
    assert all(schedule.covers(at(text), BERLIN) for text in inside)
    assert not any(schedule.covers(at(text), BERLIN) for text in outside)


def test_a_period_follows_summer_time() -> None:
    office = Schedule("* 8-17 * * *")
    for day in ("2026-01-15", "2026-07-15"):
        assert office.covers(at(f"{day} 08:00"), BERLIN)
        assert not office.covers(at(f"{day} 07:59"), BERLIN)
    assert at("2026-01-15 08:00") % 86400 != at("2026-07-15 08:00") % 86400


@given(st.floats(0, 4e9), st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]))
def test_every_moment_is_in_the_period_of_all_minutes(at_s: float, zone: str) -> None:
    assert Schedule("* * * * *").covers(at_s, time_zone(zone))


# -------------------------------------------------------------------------------------------------------------- guards


def guarded(
    stage: ConstraintStage, current: int, wanted: int, at_s: float = 1000.0, *, objective: Objective = OBJECTIVE
) -> tuple[int, str]:
    """What is left of a change after all guards, and the note of the one that altered it."""
    return guarded_by([stage], current, wanted, at_s, objective=objective)


def guarded_by(
    stages: list[ConstraintStage],
    current: int,
    wanted: int,
    at_s: float = 1000.0,
    *,
    objective: Objective = OBJECTIVE,
    guards: GuardSettings | None = None,
) -> tuple[int, str]:
    history = History(Topology.single())
    for time_s in (at_s - 200, at_s):
        sample = Sample("job", time_s, latency_s=1.0)
        history.observe(Observation(time_s, {"job": sample}, {"job": Instances(current, current, current)}))
    decision = Decision(at_s, "any", {"job": Verdict("job", current, wanted, wanted, "c", "r")})
    settings = guards or GuardSettings()
    for guard in constrained(settings.build(objective), [stage.build() for stage in stages], objective):
        decision = guard(history, decision)
    verdict = decision.verdicts["job"]
    return verdict.target, next((note.why for note in verdict.notes if note.before != note.after), "")


OFFICE = "* 8-17 * * mon-fri"
NOON, NIGHT = at("2026-03-02 12:00"), at("2026-03-02 23:00")


@pytest.mark.parametrize(
    ("stage", "current", "wanted", "at_s", "expected", "why"),
    [
        (constraint("c").at_most(4), 2, 8, NOON, 4, "'c' allows at most 4"),
        (constraint("c").at_least(4), 6, 2, NOON, 4, "'c' asks for at least 4"),
        (constraint("c").at_least(4), 2, 2, NOON, 4, "'c' asks for at least 4"),
        (constraint("c").at_most(4), 6, 6, NOON, 4, "'c' allows at most 4"),
        (constraint("c").of("job").at_most(4), 2, 8, NOON, 4, "'c' allows at most 4"),
        (constraint("c").of("other").at_most(4), 2, 8, NOON, 8, ""),
        (constraint("c").at_most(4).during(OFFICE, time_zone="Europe/Berlin"), 2, 8, NOON, 4, "'c' allows at most 4"),
        (constraint("c").at_most(4).during(OFFICE, time_zone="Europe/Berlin"), 2, 8, NIGHT, 8, ""),
        (constraint("c").forbid_scale_in(), 6, 2, NOON, 6, "'c' forbids scale in now"),
        (constraint("c").forbid_scale_in(), 2, 6, NOON, 6, ""),
        (constraint("c").forbid_any_scaling(), 2, 6, NOON, 2, "'c' forbids any scaling now"),
        (constraint("c").forbid_any_scaling().during("* 22-5 * * *"), 2, 6, NIGHT, 2, "'c' forbids any scaling now"),
        (constraint("c").forbid_any_scaling().during("* 22-5 * * *"), 2, 6, NOON, 6, ""),
        (constraint("c").at_least(50), 2, 2, NOON, 10, "'c' asks for at least 50"),
        (constraint("c").at_least(6).forbid_any_scaling(), 2, 2, NOON, 2, "'c' asks for at least 6"),
    ],
)
def test_a_constraint_alters_a_decision_and_says_so(
    stage: ConstraintStage, current: int, wanted: int, at_s: float, expected: int, why: str
) -> None:
    assert guarded(stage, current, wanted, at_s) == (expected, why)


def test_where_constraints_contradict_each_other_the_larger_size_wins() -> None:
    assert guarded_by([constraint("many").at_least(6), constraint("few").at_most(3)], 4, 4)[0] == 6


def test_the_objective_has_the_last_word() -> None:
    assert guarded(constraint("c").at_most(2), 5, 5, objective=OBJECTIVE.within(4, 8))[0] == 4


def test_no_other_guard_leads_out_of_the_bounds_of_a_constraint() -> None:
    settings = GuardSettings.model_validate({"strategy": "static", "granularity": 4})
    assert guarded_by([constraint("c").at_most(6)], 5, 6, guards=settings)[0] == 6


@pytest.mark.parametrize("name", policy_names())
def test_constraints_hold_for_every_policy(name: str) -> None:
    limits = policy(constraints=[constraint("small").at_most(2), constraint("keep").forbid_scale_in()])
    result = simulate(
        name,
        parse_workload("spike:base=5,peak=90,at=120s,width=300s"),
        objective=OBJECTIVE,
        constraints=limits,
        service_rate_per_s=10.0,
        seconds=900.0,
    )
    sizes = [observation.instances["job"].planned for observation in result.observations]
    assert max(sizes) <= 2
    assert sizes == sorted(sizes)


def test_a_constraint_of_a_rule_file_bounds_its_rules() -> None:
    hungry = rule("hungry").scale_out("job").by(9).never_above(10).when("backlog").above(1).for_at_least(seconds=0)
    limited = Rules(policy(hungry, constraints=[constraint("first ten minutes").at_most(3).during("0-9 0 1 1 *")]))
    result = simulate(
        limited, parse_workload("constant:50"), objective=OBJECTIVE, service_rate_per_s=2.0, seconds=1200.0
    )
    sizes = {observation.at_s: observation.instances["job"].planned for observation in result.observations}
    assert max(size for at_s, size in sizes.items() if at_s <= 600) == 3
    assert sizes[1200.0] == 10


def test_a_file_of_constraints_has_no_rules(tmp_path: Path) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text("constraints:\n  - {name: small, at_most: 2}\n")
    assert load_constraints(path, Topology.single())[0].at_most == 2
    path.write_text("constraints:\n  - {name: small, operator: jobb, at_most: 2}\n")
    with pytest.raises(InputError, match=r"limits\.yaml:2:29: operator: unknown operator 'jobb', did you mean 'job'"):
        load_constraints(path, Topology.single())
    path.write_text(
        "rules:\n  - {name: r, scale_in: '*', by: 1, when: {metric: backlog, below: 1, for_at_least: 1m}}\n"
    )
    with pytest.raises(InputError, match="only constraints go with another policy"):
        load_constraints(path, Topology.single())
