"""Settings in Spark's configuration: names as people write them, and what the program says wins."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.policies import Context, GuardSettings, make_policy
from headgate.policies.frame.settings import make_settings
from headgate.runtime.spark_settings import GivenSettings

CONTEXT = Context(parse_objective("latency p95 < 10s"), Topology.single())
TABLE_4_4 = {
    "minExecutors": "4",
    "maxExecutors": "24",
    "executorGranularity": "2",
    "maxLatency": "60s",
    "targetLatency": "30s",
    "latencyGranularity": "10s",
    "incomingMessageGranularity": "5",
    "windowSize": "2m",
    "learningFactor": "0.7",
    "discountFactor": "0.9",
    "initializationMode": "random",
    "epsilon": "0.3",
    "epsilonStep": "0.02",
    "valueIterationInitializationCount": "50",
    "valueIterationInitializationTime": "10m",
    "policy": "one-minus-epsilon",
    "reward": "latency-only",
    "decisionInterval": "1m",
    "executorStrategy": "linear",
    "seed": "7",
}
OF_RUN = {name: TABLE_4_4[name] for name in ("minExecutors", "maxExecutors", "seed")}


def conf(values: dict[str, str]) -> dict[str, str]:
    return {"spark.app.name": "plugs", **{f"spark.headgate.{name}": value for name, value in values.items()}}


def test_every_parameter_of_azimis_table_can_be_set_by_its_name_there() -> None:
    found = GivenSettings(policy="value-iteration").completed(conf(TABLE_4_4))
    assert (found.executors, found.seed) == ((4, 24), 7)
    assert isinstance(found.settings, dict)
    settings: Any = make_policy("value-iteration", CONTEXT, found.settings).settings
    assert (settings.target_latency_s, settings.max_latency_s, settings.latency_granularity_s) == (30, 60, 10)
    assert (settings.window_size_s, settings.decision_interval_s) == (120, 60)
    assert (settings.policy, settings.reward, settings.initialization_mode) == (
        "one-minus-epsilon",
        "latency-only",
        "random",
    )
    assert (settings.value_iteration_initialization_time_s, settings.value_iteration_initialization_count) == (600, 50)
    assert found.guards is not None
    guards = make_settings(GuardSettings, "guards", found.guards)
    assert (guards.granularity, guards.strategy) == (2, "linear")


def test_what_the_program_says_wins() -> None:
    given = GivenSettings("q-learning", {"epsilon": 0.1}, {"max_out": 2}, (2, 3), seed=5)
    found = given.completed(conf({"epsilon": "0.4", "guards.max_out": "9", "guards.gainOut": "0.5", **OF_RUN}))
    assert found.settings == {"epsilon": 0.1}
    assert found.guards == {"max_out": 2, "gain_out": "0.5"}
    assert (found.executors, found.seed) == ((2, 3), 5)


def test_without_any_nothing_changes() -> None:
    given = GivenSettings("q-learning", {"epsilon": 0.1})
    assert given.completed({"spark.app.name": "plugs"}) is given


@pytest.mark.parametrize(
    ("given", "values", "message"),
    [
        (
            GivenSettings("q-learning"),
            {"learningFaktor": "0.7"},
            r"'spark.headgate.learningFaktor', did you mean 'spark.headgate.learning_factor'\?",
        ),
        (GivenSettings(), {"guards.strateggy": "static"}, r"did you mean 'spark.headgate.strategy'\?"),
        (GivenSettings(), {"minExecutors": "two"}, "spark.headgate.minExecutors is 'two'; a whole number is needed"),
        (GivenSettings(settings="a.yaml", policy="hpa"), {"target": "0.5"}, "settings come from a.yaml and from"),
    ],
)
def test_what_is_wrong_is_one_sentence(given: GivenSettings, values: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        given.completed(conf(values))
