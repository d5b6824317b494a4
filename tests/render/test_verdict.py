"""The verdict on a run: one sentence each on outcome, cost, fixed sizes, what limited it, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.objective import Objective, parse_objective
from headgate.core.types import Decision, GuardNote, Instances, Observation, Role, Sample
from headgate.render.verdict import FixedSizes, find_limit, judge_run
from headgate.runtime.summary import Summary
from tests.journal.entries import decision

OBJECTIVE = parse_objective("latency p95 < 10s, price 0.5").within(1, 4)
MET = Summary(3.0, 2.0, 99.0, 3.0, 10800.0, 2, 10.0, 1.0, 8.0, 9.0, 1.5)
MISSED = replace(MET, late_records_pct=30.0)


def run_of(*, planned: int, ready: int, latency_s: float = 30.0) -> list[Observation]:
    sizes = {"job": Instances(planned, planned, ready)}
    return [Observation(at_s, {"job": Sample("job", at_s, latency_s=latency_s)}, sizes) for at_s in (0.0, 60.0, 120.0)]


def stopped_by(guard: str) -> Decision:
    made = decision(0.0, 2, 2, proposed=4)
    verdict = replace(made.verdicts["job"], notes=(GuardNote(guard, 4, 2, "not now"),))
    return replace(made, verdicts={"job": verdict})


@pytest.mark.parametrize(
    ("planned", "ready", "decided", "cause", "advice"),
    [
        (4, 4, None, "capped", "What to do: allow more than 4 instances."),
        (3, 1, None, "starting", "What to do: raise the minimum, or make instances start faster."),
        (2, 2, stopped_by("step-limit"), "guard:step-limit", "loosen the guard step-limit"),
        (2, 2, decision(0.0, 2, 2, code="no-data"), "undecided", "with what an earlier run has learned."),
        (2, 2, decision(0.0, 2, 2), "held", "compare other policies on this load by headgate replay run.db."),
    ],
)
def test_what_limited_a_run_and_what_to_do(
    planned: int, ready: int, decided: Decision | None, cause: str, advice: str
) -> None:
    decisions = [] if decided is None else [decided]
    verdict = judge_run(run_of(planned=planned, ready=ready), decisions, OBJECTIVE, MISSED, journal="run.db")
    assert verdict.outcome == "Objective not met: 30 % of the records late, 5 % allowed."
    assert verdict.cause == cause
    assert verdict.limit.startswith("What limited it: in 2m of 2m in violation, ")
    assert advice in verdict.advice


def test_the_operator_that_was_late_for_longest_is_named_as_the_limit() -> None:
    seen = run_of(planned=4, ready=4)
    assert find_limit(seen, [], OBJECTIVE, ["job"]) is not None
    assert find_limit(run_of(planned=4, ready=4, latency_s=1.0), [], OBJECTIVE, ["job"]) is None


@pytest.mark.parametrize(
    ("objective", "summary", "is_met"),
    [
        (OBJECTIVE, MET, True),
        (OBJECTIVE, MISSED, False),
        (parse_objective("latency p95 < 10s by time"), replace(MISSED, slo_violation_pct=1.0), True),
        (parse_objective("latency p95 < 10s, cost < 1 per day, price 0.5"), replace(MET, cost=900.0), False),
        (OBJECTIVE, replace(MET, late_records_pct=None, slo_violation_pct=None), None),
    ],
)
def test_an_objective_is_met_not_met_or_unknown(objective: Objective, summary: Summary, is_met: bool | None) -> None:
    assert judge_run(run_of(planned=1, ready=1), [], objective, summary).is_met is is_met


def test_a_run_that_met_its_objective_names_a_cheaper_fixed_size() -> None:
    cheap = replace(MET, instance_seconds=7200.0, cost=1.0)
    verdict = judge_run(run_of(planned=2, ready=2), [], OBJECTIVE, MET, fixed=FixedSizes({1: MISSED, 2: cheap, 3: MET}))
    assert verdict.cheapest_fixed == 2
    assert list(verdict.met_sizes) == [2, 3]
    assert "is 2 instances: a cost of 1, 33 % less than this run (simulated under the same load)." in verdict.fixed
    assert verdict.advice == "What to do: this load hardly changes; a fixed size of 2 is cheaper."


def test_a_run_whose_decisions_were_only_recommended_is_not_graded_on_them() -> None:
    advice = replace(decision(0.0, 1, 3), role=Role.RECOMMENDED)
    verdict = judge_run(run_of(planned=1, ready=1), [advice], OBJECTIVE, MET)
    assert "These are the sizes that the job had: decisions were only recommended." in verdict.outcome
    assert verdict.advice == "What to do: compare the recommended sizes before acting."
