"""Metrics by subscription: what rules refer to is collected, from an engine or a callable, and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

from headgate.core.errors import InputError
from headgate.core.metrics import Aggregation, Observed, aggregate, metric_key, split_key
from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instances, Observation, Receipt, Sample
from headgate.policies.frame.base import Context
from headgate.rules import Rules, policy, rule
from headgate.runtime.loop import ControlLoop
from headgate.runtime.simulate import simulate
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload

OBJECTIVE = parse_objective("latency p95 < 10s")


class Listed(SimulatedEngine):
    """A simulated engine that can collect two metrics more, and records subscriptions."""

    def __init__(self) -> None:
        super().__init__(QueueNetwork(parse_workload("constant:10"), 20.0))
        self.subscribed: list[frozenset[str]] = []

    @property
    def extra_metrics(self) -> Collection[str]:
        return ("memory_share", "active_tasks")

    def subscribe(self, keys: Collection[str]) -> None:
        self.subscribed.append(frozenset(keys))


def loop_of(engine: SimulatedEngine, rules: Rules) -> ControlLoop:
    made = rules.make(Context(OBJECTIVE, engine.topology()))
    return ControlLoop(engine, made, (), engine, metrics=rules.metrics)


def when(metric: str, name: str = "r") -> Rules:
    condition = rule(name).scale_out("job").by(1).never_above(5).when(metric).above(0.5).for_at_least(seconds=0)
    return Rules(policy(condition))


def test_an_engine_collects_only_what_rules_refer_to() -> None:
    engine = Listed()
    loop_of(engine, when("backlog"))
    loop_of(engine, when("memory_share"))
    largest = rule("r").scale_in("*").by(1).when("active_tasks").below(1).for_at_least(seconds=0).over_instances("max")
    loop_of(engine, Rules(policy(largest)))
    assert engine.subscribed == [frozenset(), {"memory_share"}, {"active_tasks:max"}]


def test_changed_rules_change_the_subscription() -> None:
    engine = Listed()
    loop = loop_of(engine, when("memory_share"))
    made = when("active_tasks").make(Context(OBJECTIVE, engine.topology()))
    loop.change(made, ())
    loop.tick()
    assert engine.subscribed == [{"memory_share"}, {"active_tasks"}]


def test_a_metric_that_the_engine_cannot_give_is_refused() -> None:
    with pytest.raises(InputError, match="unknown metric for this engine 'gc_share'"):
        loop_of(Listed(), when("gc_share"))
    with pytest.raises(InputError, match=r"metrics=\{'memory_share': …\}"):
        simulate(
            when("memory_share"),
            parse_workload("constant:1"),
            objective=OBJECTIVE,
            service_rate_per_s=1.0,
            seconds=10.0,
        )


def test_a_metric_of_your_own_is_a_callable() -> None:
    operators: list[str] = []

    def fraud(operator: str) -> float:
        operators.append(operator)
        return 0.1 if len(operators) < 4 else 0.9

    rules = Rules.from_yaml(
        "rules: [{name: fraud, scale_out: '*', by: 1, never_above: 2,"
        " when: {metric: fraud, above: 50 %, for_at_least: 0s}}]",
        metrics={"fraud": fraud},
    )
    result = simulate(rules, parse_workload("constant:1"), objective=OBJECTIVE, service_rate_per_s=5.0, seconds=60.0)
    (change,) = [decision for decision in result.decisions if not decision.is_hold]
    assert change.at_s == 15.0
    assert "fraud 0.9 has been above 50 %" in change.verdicts["job"].reason
    assert set(operators) == {"job"}
    assert result.observations[0].samples["job"].metrics == {"fraud": 0.1}


def test_a_callable_may_give_one_value_per_instance() -> None:
    largest = rule("r").scale_in("*").by(1).when("heap").below(0.5).for_at_least(seconds=0).over_instances("max")
    rules = Rules(policy(largest, metrics=["heap"]), metrics={"heap": lambda operator: [0.2, 0.9, 0.4]})
    engine = Listed()
    loop = loop_of(engine, rules)
    loop.tick()
    assert engine.subscribed == [frozenset()]
    sample = loop.history.sample("job")
    assert sample is not None
    assert sample.metrics == {"heap:max": 0.9}


def test_a_callable_that_fails_costs_its_reading_and_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: Iterator[object] = iter([0.9, "?", RuntimeError("down"), None, [], 0.9, 0.9])

    def flaky(operator: str) -> float:
        answer = next(answers)
        if isinstance(answer, RuntimeError):
            raise answer
        return answer  # type: ignore[return-value]

    patient = rule("r").scale_out("*").by(1).never_above(5).when("flaky").above(0.5).for_at_least(seconds=99)
    rules = Rules(policy(patient, metrics=["flaky"]), metrics={"flaky": flaky})
    engine = Listed()
    loop = loop_of(engine, rules)
    for cycle in range(7):
        engine.advance(5.0 * cycle)
        loop.tick()
    found = [sample.metrics["flaky"] for sample in loop.history.samples("job")]
    assert found == [0.9, None, None, None, None, 0.9, 0.9]
    assert len([record for record in caplog.records if "metric flaky of job cannot be read" in record.message]) == 1


def test_threshold_and_hpa_subscribe_too() -> None:
    from headgate.policies import make_policy

    for name in ("threshold", "hpa"):
        context = Context(OBJECTIVE, Topology.single())
        assert make_policy(name, context, {"metric": "fraud"}).subscriptions == {"fraud"}
        assert make_policy(name, context).subscriptions == frozenset()


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [(Aggregation.MEAN, 10.5), (Aggregation.MAX, 20.0), (Aggregation.MIN, 1.0), (Aggregation.P95, 19.0)],
)
def test_readings_of_instances_become_one(aggregation: Aggregation, expected: float) -> None:
    assert aggregate([float(value) for value in range(20, 0, -1)], aggregation) == expected
    assert aggregate([], aggregation) is None
    assert split_key(metric_key("a:b", aggregation)) == ("a:b", aggregation)


def test_the_metrics_of_a_spark_job() -> None:
    pytest.importorskip("pyspark")
    from headgate.engines.spark.engine import SPARK_METRICS, SparkMetrics, observed_in
    from headgate.engines.spark.snapshots import Executor

    def executor(name: str, used: int, *, active: bool = True) -> Executor:
        return Executor(name, active, 1, 2, 5, 0, 1000, 0, None, memory=100, memory_used=used, gc_ms=50, failed_tasks=1)

    metrics = SparkMetrics({"errors": Observed("quality", "errors")})
    assert metrics.names == SPARK_METRICS | {"errors"}
    executors = [executor("1", 20), executor("2", 60), executor("3", 99, active=False)]
    assert metrics.collect(executors, {}) == {}
    metrics.subscribe({"memory_share", "memory_share:max", "gc_share", "failed_tasks", "active_tasks:min", "errors"})
    observed = observed_in({"observedMetrics": {"quality": {"errors": 3, "text": "x"}, "other": None}})
    assert metrics.collect(executors, observed) == {
        "memory_share": pytest.approx(0.4),
        "memory_share:max": 0.6,
        "gc_share": 0.05,
        "failed_tasks": 1.0,
        "active_tasks:min": 2.0,
        "errors": 3.0,
    }
    assert metrics.collect([], {})["errors"] is None


def test_a_plain_engine_needs_no_subscription() -> None:
    class Plain:
        """The least that an engine is."""

        def topology(self) -> Topology:
            return Topology.single()

        def observe(self) -> Observation:
            return Observation(0.0, {"job": Sample("job", 0.0, backlog=1.0)}, {"job": Instances(1, 1, 1)})

        def apply(self, decision: Decision) -> Receipt:
            raise NotImplementedError

        def close(self) -> None:
            return None

    from headgate.testing import FakeClock

    engine = Plain()
    made = when("backlog").make(Context(OBJECTIVE, engine.topology()))
    assert ControlLoop(engine, made, (), FakeClock()).tick() is not None
