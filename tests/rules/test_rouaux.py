"""The six simulated tests of rouaux §5.2, with its rates, thresholds and times; the outcome is queueing arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Decision, Observation
from headgate.policies.frame.base import Context
from headgate.rules import RulePolicy, Rules, policy, rule
from headgate.rules.fluent import FinishedRule
from headgate.runtime.loop import ControlLoop
from headgate.runtime.wiring import guards_around
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload
from headgate.workloads.contract import Workload
from headgate.workloads.steps import Steps

SAMPLING_S = 5.0
"""The document's own sampling period."""
OPERATOR = "SimpleStatelessOperator"


class Course:
    """What a run came to."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self.decisions: list[Decision] = []

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        assert observation is not None
        assert decision is not None
        self.observations.append(observation)
        self.decisions.append(decision)

    def changes(self, operator: str = OPERATOR) -> list[tuple[float, int, int]]:
        """When the size went from what to what."""
        verdicts = [(decision.at_s, decision.verdicts[operator]) for decision in self.decisions]
        return [(at_s, verdict.current, verdict.target) for at_s, verdict in verdicts if verdict.change]

    def backlog(self, at_s: float, operator: str = OPERATOR) -> float:
        (found,) = [one for one in self.observations if one.at_s == at_s]
        backlog = found.samples[operator].backlog
        assert backlog is not None
        return backlog

    def backlogs(self, operator: str = OPERATOR) -> list[float]:
        return [self.backlog(one.at_s, operator) for one in self.observations]

    def codes(self, operator: str = OPERATOR) -> set[str]:
        return {decision.verdicts[operator].code for decision in self.decisions}


def run(
    rules: RulePolicy,
    workload: str | Workload,
    service_rate_per_s: float | Mapping[str, float],
    seconds: float,
    *,
    topology: Topology | None = None,
    sampling_s: float = SAMPLING_S,
) -> Course:
    """Run rules on a query whose operators are queues, with all guards around them."""
    offered = parse_workload(workload) if isinstance(workload, str) else workload
    query = topology or Topology.single(OPERATOR)
    engine = SimulatedEngine(QueueNetwork(offered, service_rate_per_s, topology=query))
    made = Rules(rules).make(Context(parse_objective("latency p95 < 10s"), query))
    loop = ControlLoop(engine, made, guards_around(made), engine)
    course = Course()
    loop.watchers.append(course)
    for cycle in range(int(seconds / sampling_s) + 1):
        engine.advance(cycle * sampling_s)
        loop.tick()
    return course


def long_queue(by: int, never_above: int, operator: str = OPERATOR) -> FinishedRule:
    return (
        rule("Queue length is above 300 for 30 seconds")
        .scale_out(operator)
        .by(by)
        .never_above(never_above)
        .when("backlog")
        .above("300 tuples")
        .for_at_least(seconds=30)
        .with_no_scale_out_since(minutes=5)
    )


PEAKS = "periodic:base=10,peak=20,high=20s,low=40s"
"""40 seconds at the base rate, then 20 at the peak."""
FULL_QUEUE = (
    rule("Queue length is above 100 for 5 seconds")
    .scale_out(OPERATOR)
    .by(2)
    .never_above(3)
    .when("backlog")
    .above("100 tuples")
    .for_at_least(seconds=5)
)
EMPTY_QUEUE = (
    rule("Queue length is below 1 for 5 seconds")
    .scale_in(OPERATOR)
    .by(2)
    .never_below(1)
    .when("backlog")
    .below("1 tuple")
    .for_at_least(seconds=5)
)


@pytest.mark.parametrize("sampling_s", [1.0, 2.5, 5.0])
def test_5_2_2_single_operator_scale_out(sampling_s: float) -> None:
    """λ 10, μ 5: 300 at 60 s, one more instance at 90 s, and the queue stays as long as it is then."""
    course = run(policy(long_queue(by=1, never_above=2)), "constant:10", 5.0, 900, sampling_s=sampling_s)
    assert course.backlog(60.0) == pytest.approx(300.0)
    ((at_s, before, after),) = course.changes()
    assert (before, after) == (1, 2)
    assert 90.0 <= at_s <= 90.0 + sampling_s
    assert course.backlog(at_s) == pytest.approx(5 * at_s)
    assert course.backlogs()[-1] == pytest.approx(5 * at_s)
    # It still holds, for ever; first the guard time stops it, then its limit.
    assert {"guard-time", "at-limit"} <= course.codes()


def test_5_2_3_single_operator_scale_out_with_additional_capacity() -> None:
    """λ 10, μ 5: three instances serve 15, so what had gathered is gone after a fifth of it in seconds."""
    course = run(policy(long_queue(by=2, never_above=3)), "constant:10", 5.0, 600)
    ((at_s, before, after),) = course.changes()
    assert (before, after) == (1, 3)
    assert at_s == pytest.approx(90.0, abs=SAMPLING_S)
    gathered = 5 * at_s
    for elapsed_s in (10.0, 50.0, 90.0):
        assert course.backlog(at_s + elapsed_s) == pytest.approx(gathered - 5 * elapsed_s)
    assert course.backlog(at_s + gathered / 5) == 0
    assert course.backlogs()[-1] == 0


def test_5_2_4_multiple_operator_scale_out_with_additional_capacity() -> None:
    """μ₁ 20 has room to spare and μ₂ 5 has not: only the second operator is scaled, by the same rule."""
    first, second = f"{OPERATOR} (1)", f"{OPERATOR} (2)"
    course = run(
        policy(long_queue(2, 3, first), long_queue(2, 3, second)),
        "constant:10",
        {first: 20.0, second: 5.0},
        600,
        topology=Topology.of((first, second)),
    )
    assert course.changes(first) == []
    assert max(course.backlogs(first)) == 0
    ((at_s, before, after),) = course.changes(second)
    assert (before, after) == (1, 3)
    assert at_s == pytest.approx(90.0, abs=SAMPLING_S)
    assert course.backlogs(second)[-1] == 0


def test_5_2_5_single_operator_with_periodic_source_and_no_scale_out() -> None:
    """Peaks of 20 against μ 10 add 10 a second, however long they last, and never come near 10,000 for a minute."""
    patient = (
        rule("Queue length is above 10000 for 60 seconds")
        .scale_out(OPERATOR)
        .by(2)
        .never_above(3)
        .when("backlog")
        .above("10000 tuples")
        .for_at_least(seconds=60)
    )
    times_s, rates = [0.0], []
    # Peaks of 5 to 25 seconds, the first one as short as the document's.
    for base_s, peak_s in ((30, 5), (40, 15), (35, 25), (55, 10), (45, 20), (60, 5), (155, 0)):
        for rate, duration_s in ((10.0, base_s), (20.0, peak_s)):
            if duration_s:
                times_s.append(times_s[-1] + duration_s)
                rates.append(rate)
    course = run(policy(patient), Steps(times_s, rates), 10.0, 500)
    assert course.backlog(30.0) == 0
    assert course.backlog(35.0) == pytest.approx(50.0)
    assert max(course.backlogs()) == pytest.approx(10 * (5 + 15 + 25 + 10 + 20 + 5))
    assert course.changes() == []


@pytest.mark.parametrize("sampling_s", [1.0, 2.5, 5.0])
def test_5_2_6_single_operator_scale_out_and_scale_in_with_periodic_source(sampling_s: float) -> None:
    """The queue passes 100 ten seconds into a peak; three instances clear it; then one is enough until the next."""
    periods = 6
    course = run(policy(FULL_QUEUE, EMPTY_QUEUE), PEAKS, 10.0, periods * 60 + 20, sampling_s=sampling_s)
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
    reluctant = EMPTY_QUEUE.with_no_scale_out_since(minutes=5)
    course = run(policy(FULL_QUEUE, reluctant), PEAKS, 10.0, 720)
    (out_s, *out), (in_s, *in_), *_ = course.changes()
    assert (out, in_) == ([1, 3], [3, 1])
    assert 55.0 < out_s <= 55.0 + SAMPLING_S
    # Nothing waits from 70 s on, and yet the size is held for as long as the guard time says, not a sample longer.
    assert in_s == out_s + 300.0
    held = [decision.verdicts[OPERATOR] for decision in course.decisions if out_s < decision.at_s < in_s]
    assert {verdict.current for verdict in held} == {3}
    assert max(course.backlog(at_s) for at_s in range(75, 360, 5)) == 0
    stopped = [verdict for verdict in held if verdict.code == "guard-time"]
    assert "wants no scale-out for 5m" in stopped[-1].reason
