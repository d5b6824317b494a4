"""When rules hold: by durations, at the present size, on all readings or on most; checked against a plain rescan."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instances, Observation, Sample, Target, Verdict
from headgate.core.window import History
from headgate.policies.frame.base import Context
from headgate.rules import RulePolicy, Rules, policy, rule
from headgate.rules.evaluate import Evaluator
from headgate.rules.fluent import ConditionStage
from headgate.rules.model import Comparison, Direction, ReadingsKind, Rule, Trigger
from headgate.rules.rules_policy import RulesPolicy
from headgate.testing import check_policy

ROUNDING_S = 1e-9


class Job:
    """A window that grows by hand."""

    def __init__(self, *operators: str, size: int = 1) -> None:
        self.topology = Topology(operators or ("job",))
        self.history = History(self.topology, retention_s=1e6)
        self.sizes = dict.fromkeys(self.topology.operators, size)
        self.now = 0.0

    def policy(self, rules: RulePolicy) -> RulesPolicy:
        return Rules(rules).make(Context(parse_objective("latency p95 < 10s"), self.topology))

    def read(self, at_s: float, *values: float | None) -> None:
        """One reading of the backlog of each operator."""
        self.now = at_s
        samples = {
            name: Sample(name, at_s, backlog=value)
            for name, value in zip(self.topology.operators, values, strict=False)
        }
        self.history.observe(Observation(at_s, samples, self._instances()))

    def resize(self, size: int, operator: str = "job") -> None:
        before, self.sizes[operator] = self.sizes[operator], size
        self.history.record(Decision(self.now, "test", {operator: Verdict(operator, before, size, size, "c", "r")}))
        # The new instances are seen before the next reading, so that this one is of the new size.
        self.now += 0.5
        self.history.observe(Observation(self.now, {}, self._instances()))

    def _instances(self) -> dict[str, Instances]:
        return {name: Instances(size, size, size) for name, size in self.sizes.items()}

    def decide(self, made: RulesPolicy, operator: str = "job") -> Target:
        return made.decide(self.now, self.history).targets[operator]


def above_300(seconds: float = 30.0, *, by: int = 2, never_above: int = 8, operator: str = "job") -> ConditionStage:
    start = rule(f"above 300 by {by}").scale_out(operator).by(by).never_above(never_above)
    return start.when("backlog").above(300).for_at_least(seconds=seconds)


def below_10(seconds: float = 30.0, *, by: int = 1, operator: str = "job") -> ConditionStage:
    return rule(f"below 10 by {by}").scale_in(operator).by(by).when("backlog").below(10).for_at_least(seconds=seconds)


def feed(job: Job, made: RulesPolicy, values: Sequence[float | None], every_s: float = 10.0) -> list[int]:
    """The sizes proposed reading by reading."""
    found = []
    for index, value in enumerate(values):
        job.read(job.now + (every_s if index or job.now else 0.0), value)
        found.append(job.decide(made).instances)
    return found


HIGH, LOW = 400.0, 5.0


def test_on_a_level_a_rule_ratchets_and_on_an_edge_it_waits_until_its_condition_was_not_met() -> None:
    """Alg. 4.2 of rouaux fires when a rule changes; a condition that stays met would reach the limit step by step."""
    sizes = {}
    for name, chosen in (("level", above_300(10, by=1)), ("edge", above_300(10, by=1).once_until_not_met())):
        job = Job()
        made = job.policy(policy(chosen))
        for value in [HIGH] * 8 + [LOW] + [HIGH] * 4:
            job.read(job.now + 10.0, value)
            wanted = job.decide(made).instances
            if wanted != job.sizes["job"]:
                job.resize(wanted)
        sizes[name] = job.sizes["job"]
    assert sizes == {"level": 7, "edge": 3}


def test_a_rule_on_an_edge_that_has_fired_explains_why_it_holds_also_after_a_restart() -> None:
    job = Job()
    rules = policy(above_300(10).once_until_not_met())
    made = job.policy(rules)
    assert feed(job, made, [HIGH, HIGH]) == [1, 3]
    resumed = job.policy(rules)
    resumed.restore(made.snapshot())
    for each in (made, resumed):
        target = each.decide(job.now, job.history).targets["job"]
        assert (target.instances, target.code) == (1, "has-fired")
        assert target.reason == "'above 300 by 2' has fired, and fires again after its conditions were not met"


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("all", [HIGH] * 5, [1, 1, 1, 3, 3]),
        ("all", [HIGH, HIGH, 300, HIGH, HIGH, HIGH, HIGH], [1, 1, 1, 1, 1, 1, 3]),
        ("all", [HIGH, None, HIGH, HIGH, HIGH], [1, 1, 1, 3, 3]),
        ("average", [HIGH, HIGH, 250, 250, HIGH], [1, 1, 1, 3, 3]),
        ("average", [HIGH, 100, 100, 100, HIGH], [1, 1, 1, 1, 1]),
        ("median", [HIGH, HIGH, 0, HIGH, HIGH], [1, 1, 1, 3, 3]),
        ("median", [HIGH, 0, 0, 0, HIGH], [1, 1, 1, 1, 1]),
        ("75", [HIGH, HIGH, 0, HIGH, HIGH], [1, 1, 1, 3, 3]),
        ("75", [HIGH, 0, 0, HIGH, HIGH], [1, 1, 1, 1, 1]),
    ],
)
def test_readings_must_span_the_whole_time(kind: str, values: list[float | None], expected: list[int]) -> None:
    condition = above_300()
    chosen = {
        "all": condition,
        "average": condition.on_average(),
        "median": condition.at_median(),
        "75": condition.tolerating(percent=25),
    }[kind]
    job = Job()
    assert feed(job, job.policy(policy(chosen)), values) == expected


@pytest.mark.parametrize("every_s", [0.5, 1.0, 7.0, 30.0, 45.0])
def test_time_counts_and_not_the_number_of_readings(every_s: float) -> None:
    job = Job()
    sizes = feed(job, job.policy(policy(above_300())), [HIGH] * 100, every_s)
    first = sizes.index(3)
    assert 30.0 <= first * every_s < 30.0 + every_s or (every_s > 30 and first == 1)


def test_a_missing_reading_ends_a_period_of_shrinking() -> None:
    for condition in (below_10(), below_10().on_average(), below_10().at_median(), below_10().tolerating(percent=50)):
        job = Job(size=3)
        sizes = feed(job, job.policy(policy(condition)), [LOW, LOW, None, LOW, LOW, LOW, LOW, LOW])
        assert sizes[:6] == [3] * 6
        assert sizes[-1] == 2


def test_after_a_change_readings_of_the_old_size_no_longer_count() -> None:
    job = Job()
    made = job.policy(policy(above_300()))
    assert feed(job, made, [HIGH] * 4)[-1] == 3
    job.resize(3)
    # Still above: it fires again, but only after another whole period at the new size.
    assert feed(job, made, [HIGH] * 5) == [3, 3, 3, 5, 5]


def test_a_gap_in_the_readings_breaks_a_period() -> None:
    job = Job(size=3)
    made = job.policy(policy(below_10(60)))
    feed(job, made, [LOW, LOW, LOW])
    job.read(1000.0, LOW)
    assert job.decide(made).instances == 3
    assert feed(job, made, [LOW] * 6)[-1] == 2


def test_rare_readings_are_no_gap() -> None:
    job = Job()
    assert feed(job, job.policy(policy(above_300(600))), [HIGH] * 3, 600.0) == [1, 3, 3]


def test_old_readings_tell_nothing_of_the_present() -> None:
    job = Job()
    made = job.policy(policy(above_300(), below_10()))
    feed(job, made, [HIGH] * 3)
    for now, code in ((300.0, "waiting"), (400.0, "no-data")):
        job.history.observe(Observation(now, {}, {"job": Instances(1, 1, 1)}))
        assert made.decide(now, job.history).targets["job"].code == code


def test_all_triggers_of_a_rule_must_hold() -> None:
    both = above_300().and_when("latency").above("5 s").for_at_least(seconds=10)
    job = Job()
    made = job.policy(policy(both))
    for at_s, latency_s, size in ((0, 1, 1), (10, 9, 1), (20, 1, 1), (30, 9, 1), (40, 9, 3)):
        sample = Sample("job", at_s, backlog=HIGH, latency_s=latency_s)
        job.history.observe(Observation(at_s, {"job": sample}, {"job": Instances(1, 1, 1)}))
        assert made.decide(at_s, job.history).targets["job"].instances == size


def test_rules_for_all_operators_are_added_to_those_of_one() -> None:
    job = Job("parse", "enrich")
    made = job.policy(policy(above_300(10, by=1, operator="*"), above_300(10, by=4, operator="enrich")))
    for at_s in (0.0, 10.0):
        job.read(at_s, HIGH, HIGH)
    targets = made.decide(10.0, job.history).targets
    assert (targets["parse"].instances, targets["enrich"].instances) == (2, 5)


def test_operators_are_scaled_each_by_its_own_readings() -> None:
    job = Job("parse", "enrich")
    made = job.policy(policy(above_300(10, operator="*")))
    for at_s in (0.0, 10.0):
        job.read(at_s, LOW, HIGH)
    targets = made.decide(10.0, job.history).targets
    assert (targets["parse"].instances, targets["enrich"].instances) == (1, 3)


@pytest.mark.parametrize(
    ("size", "rules", "expected", "overruled"),
    [
        (4, [("out", 1), ("in", 2)], 5, "in"),
        (4, [("in", 2), ("out", 1)], 5, "in"),
        (4, [("out", 1), ("out", 3), ("out", 2)], 7, "out 1, out 2"),
        (4, [("in", 3), ("in", 1)], 3, "in 3"),
        (8, [("out", 2), ("in", 1)], 8, "in"),
    ],
)
def test_the_largest_size_wins_and_the_overruled_are_named(
    size: int, rules: list[tuple[str, int]], expected: int, overruled: str
) -> None:
    made_rules = []
    for way, by in rules:
        name = f"{way} {by}" if len({w for w, _ in rules}) == 1 else way
        if way == "out":
            start = rule(name).scale_out("job").by(by).never_above(8)
        else:
            start = rule(name).scale_in("job").by(by).never_below(1)
        made_rules.append(start.when("backlog").above(1).for_at_least(seconds=0))
    job = Job(size=size)
    job.read(0.0, HIGH)
    target = job.decide(job.policy(policy(*made_rules)))
    assert target.instances == expected
    assert target.numbers["overruled"] == overruled
    assert all(repr(name) in target.reason for name in overruled.split(", "))


def test_a_scale_out_in_its_guard_time_still_forbids_a_scale_in() -> None:
    job = Job()
    out = above_300(0).with_no_scale_out_since(minutes=5)
    back = rule("back").scale_in("job").by(1).when("backlog").above(1).for_at_least(seconds=0)
    made = job.policy(policy(out, back))
    job.read(0.0, HIGH)
    job.resize(3)
    job.read(10.0, HIGH)
    target = job.decide(made)
    assert (target.instances, target.code) == (3, "guard-time")
    assert "it was scaled out 10s ago, and the rule wants no scale-out for 5m" in target.reason
    assert "overrules 'back' (scale in to 2)" in target.reason


def test_a_scale_in_in_its_guard_time_does_not_stop_another() -> None:
    job = Job(size=4)
    made = job.policy(policy(below_10(0, by=1).with_no_scale_in_since(minutes=5), below_10(0, by=2)))
    job.read(0.0, LOW)
    job.resize(4)
    job.history.record(Decision(0.0, "test", {"job": Verdict("job", 5, 4, 4, "c", "r")}))
    job.read(10.0, LOW)
    assert job.decide(made).instances == 2


@pytest.mark.parametrize(
    ("factor", "limit", "way", "start", "sizes"),
    [
        (2, 8, "out", 1, [3, 5, 7, 8, 8]),
        ("x2", "x6", "out", 2, [4, 8, 12, 12]),
        ("x1.5", 5, "out", 1, [2, 3, 5, 5]),
        (3, None, "in", 8, [5, 2, 1, 1]),
        ("x2", 2, "in", 9, [5, 3, 2, 2]),
        ("x2", "x0.5", "in", 6, [3, 3]),
        (1, 4, "out", 6, [6]),
    ],
)
def test_factors_and_limits(factor: int | str, limit: int | str | None, way: str, start: int, sizes: list[int]) -> None:
    if way == "out":
        assert limit is not None
        stage = rule("r").scale_out("job").by(factor).never_above(limit)
    else:
        inward = rule("r").scale_in("job").by(factor)
        stage = inward if limit is None else inward.never_below(limit)
    job = Job(size=start)
    made = job.policy(policy(stage.when("backlog").above(1).for_at_least(seconds=0)))
    found = []
    for index in range(len(sizes)):
        job.read(10.0 * index, HIGH)
        target = job.decide(made)
        found.append(target.instances)
        assert target.code == ("at-limit" if target.instances == job.sizes["job"] else f"rule-{way}")
        job.resize(target.instances)
    assert found == sizes


def test_the_original_size_is_the_first_that_was_observed_and_is_part_of_the_state() -> None:
    job = Job(size=2)
    rules = policy(rule("r").scale_out("job").by(9).never_above("x3").when("backlog").above(1).for_at_least(seconds=0))
    first = job.policy(rules)
    job.read(0.0, 0.0)
    job.decide(first)
    job.resize(5)
    job.read(10.0, HIGH)
    again = job.policy(rules)
    again.restore(first.snapshot())
    assert job.decide(again).instances == job.decide(first).instances == 6


def test_the_reason_says_since_when_a_condition_has_held() -> None:
    job = Job()
    made = job.policy(policy(above_300()))
    feed(job, made, [LOW, HIGH, HIGH])
    assert job.decide(made).code == "waiting"
    assert job.decide(made).reason == (
        "'above 300 by 2' waits: backlog 400 has been above 300 since +10s, for 10s, not yet for 30s"
    )
    feed(job, made, [HIGH, HIGH])
    target = job.decide(made)
    assert target.code == "rule-out"
    assert target.reason == "'above 300 by 2': backlog 400 has been above 300 since +10s, for 30s"
    assert target.numbers == {"rule": "above 300 by 2", "backlog": HIGH, "backlog_over": 300.0}


EVERY_KIND = policy(
    rule("out").scale_out("*").by(1).never_above(8).when("utilization").above("80 %").for_at_least(seconds=30),
    rule("more").scale_out("*").by("x2").never_above("x4").when("latency").above("5 s").for_at_least(seconds=20)
    .with_no_scale_out_since(minutes=1),
    rule("most").scale_out("*").by(2).never_above(6).when("backlog").above(50).for_at_least(seconds=60).at_median(),
    rule("in").scale_in("*").by(1).when("utilization").below("40 %").for_at_least(minutes=2).on_average()
    .and_when("backlog").below(1).for_at_least(seconds=30).with_no_scale_out_since(minutes=2),
    rule("fast in").scale_in("*").by("x2").when("backlog").below(5).for_at_least(minutes=3).tolerating(percent=20),
)  # fmt: skip


def test_rules_keep_the_contract_of_policies() -> None:
    check_policy(Rules(EVERY_KIND).make)


# ------------------------------------------------------------------------------- the fast evaluation and a plain rescan


@dataclass
class Rescan:
    """The expected result of the fast evaluation: every trigger is computed again from all readings of the window."""

    rules: Sequence[Rule]
    history: History

    def fired(self, now: float) -> set[tuple[str, str]]:
        return {
            (rule.name, operator)
            for rule in self.rules
            for operator in self.history.operators
            if rule.operator in ("*", operator)
            and all(self.holds(trigger, rule.direction, operator, now) for trigger in rule.triggers)
        }

    def holds(self, trigger: Trigger, direction: Direction, operator: str, now: float) -> bool:  # noqa: C901
        settled_s = self.history.settled_since_s(operator)
        counted = [
            (sample.at_s, sample.backlog)
            for sample in self.history.samples(operator)
            if settled_s is None or sample.at_s > settled_s
        ]
        known = [(at_s, value) for at_s, value in counted if value is not None]
        if not known or now - known[-1][0] > 300:
            return False
        end_s, needed_s = known[-1][0], trigger.for_at_least_s
        is_all = trigger.readings.kind is ReadingsKind.ALL
        if direction is Direction.IN:
            # Nothing may be missing, neither in the period nor after it.
            missed = [at_s for at_s, value in counted if value is None]
            if any(at_s > end_s or (not is_all and at_s >= end_s - needed_s) for at_s in missed):
                return False
        if is_all:
            run: list[float] = []
            for at_s, value in reversed(counted):
                if value is None and direction is Direction.OUT:
                    continue
                if value is None or not self.beyond(trigger, value):
                    break
                run.append(at_s)
            return bool(run) and end_s - run[-1] >= needed_s - ROUNDING_S
        if end_s - known[0][0] < needed_s - ROUNDING_S:
            return False
        values = [value for at_s, value in known if at_s >= end_s - needed_s - ROUNDING_S]
        if trigger.readings.kind is ReadingsKind.SHARE:
            share = sum(self.beyond(trigger, value) for value in values) / len(values)
            return 100 * share >= trigger.readings.percent - 1e-9
        if trigger.readings.kind is ReadingsKind.MEDIAN:
            return self.beyond(trigger, statistics.median(values))
        return self.beyond(trigger, math.fsum(values) / len(values))

    @staticmethod
    def beyond(trigger: Trigger, value: float) -> bool:
        limit = trigger.threshold.number
        return value > limit if trigger.comparison is Comparison.ABOVE else value < limit


CONDITIONS = st.tuples(
    st.sampled_from(["out", "in"]),
    st.sampled_from(["*", "a", "b"]),
    st.sampled_from(["above", "below"]),
    st.integers(1, 9),
    st.integers(0, 40),
    st.sampled_from(["all", "average", "median", "share"]),
)


@given(
    st.lists(CONDITIONS, min_size=1, max_size=6),
    st.lists(
        st.tuples(
            st.integers(1, 12),
            st.one_of(st.none(), st.integers(0, 10)),
            st.one_of(st.none(), st.integers(0, 10)),
            st.sampled_from(["", "", "", "", "a", "b", "forget"]),
        ),
        max_size=40,
    ),
)
@settings(max_examples=200)
def test_the_fast_evaluation_agrees_with_a_plain_rescan(
    conditions: list[tuple[str, str, str, int, int, str]],
    course: list[tuple[int, int | None, int | None, str]],
) -> None:
    rules = []
    for number, (way, operator, side, value, seconds, kind) in enumerate(conditions):
        start = rule(str(number))
        when = (
            start.scale_out(operator).by(1).never_above(9) if way == "out" else start.scale_in(operator).by(1)
        ).when("backlog")
        condition = (when.above(value) if side == "above" else when.below(value)).for_at_least(seconds=seconds)
        chosen = {
            "all": condition,
            "average": condition.on_average(),
            "median": condition.at_median(),
            "share": condition.tolerating(percent=30),
        }[kind]
        rules.append(chosen.build())
    job = Job("a", "b")
    evaluator = Evaluator(rules, job.topology.operators)
    rescan = Rescan(rules, job.history)
    for step_s, first, second, event in course:
        job.read(job.now + step_s, first, second)
        if event == "forget":
            evaluator = Evaluator(rules, job.topology.operators)  # As after a restart, or with changed rules.
        evaluator.update(job.history)
        pairs = evaluator.fired(evaluator.holding(job.now))
        fired = {
            (rules[evaluator.pairs[pair][0]].name, job.topology.operators[evaluator.pairs[pair][1]]) for pair in pairs
        }
        assert fired == rescan.fired(job.now)
        if event in ("a", "b"):
            job.resize(job.sizes[event] + 1, event)


def test_memory_is_bounded_by_the_longest_time() -> None:
    conditions = (above_300(60).on_average(), below_10(20).at_median(), rule("s").scale_in("job").by(1).when("backlog")
                  .below(3).for_at_least(seconds=40).tolerating(percent=5))  # fmt: skip
    job = Job()
    evaluator = Evaluator([condition.build() for condition in conditions], ("job",))
    for index in range(1000):
        job.read(float(index), HIGH)
        evaluator.update(job.history)
    rows = [row for _, row in evaluator._rows[0]]
    assert len(rows) == 1, "rules share the readings of a metric"
    assert len(rows[0].values) == 61
