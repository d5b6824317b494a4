"""Policies are found by name, described by their declarations, and take back only their own state."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import headgate.policies
from headgate.core.errors import InputError, StateError, UnknownNameError
from headgate.core.objective import parse_objective
from headgate.core.types import Instances, Instant, Sample, Target
from headgate.core.window import Window
from headgate.policies import Context, policy_class, policy_names
from headgate.policies.frame.base import OperatorPolicy, PolicyBase, register
from headgate.policies.frame.settings import describe_settings
from headgate.policies.static import StaticSettings
from tests.core.building import JOB, history, policy, propose


def test_the_first_policies_are_there() -> None:
    assert {"static", "threshold", "spark-streaming-dra", "hpa", "reactive"} <= set(policy_names())


TOP = [module.name for module in pkgutil.iter_modules(headgate.policies.__path__) if not module.ispkg]


@pytest.mark.parametrize("name", TOP)
def test_what_lies_at_the_top_is_a_policy_and_not_something_that_policies_share(name: str) -> None:
    named = {registered.replace("-", "_") for registered in policy_names()}
    defined = {policy_class(registered).__module__ for registered in policy_names()}
    assert name in named or f"headgate.policies.{name}" in defined


def test_a_policy_that_is_requested_by_name_does_not_load_the_others() -> None:
    reason = "import sys; from headgate.policies import policy_class; policy_class('spark-dra'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", reason], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in TOP if f"headgate.policies.{name}" in loaded} == {"spark_dra"}


@pytest.mark.parametrize("name", policy_names())
def test_a_policy_is_described_in_one_line_and_so_is_each_of_its_settings(name: str) -> None:
    kind = policy_class(name)
    assert kind.name == name
    assert kind.summary.endswith(".")
    assert "\n" not in kind.summary
    assert ">>>" in (kind.__doc__ or ""), "the docstring has an example that runs"
    for row in describe_settings(kind.Settings):
        assert row["help"].endswith("."), row
        assert row["type"], row


@pytest.mark.parametrize("name", policy_names())
def test_a_policy_works_with_its_default_settings_and_refuses_unknown_ones(name: str) -> None:
    assert policy(name).name == name
    with pytest.raises(UnknownNameError, match=f"unknown setting of {name} 'colour'"):
        policy(name, colour="blue")


def test_a_misspelt_policy_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'reactive'"):
        policy("reactve")


def test_two_policies_cannot_have_one_name() -> None:
    class Impostor(PolicyBase[StaticSettings]):
        name = "static"

    with pytest.raises(ValueError, match="two policies are called 'static'"):
        register(Impostor)
    assert policy_class("static") is not Impostor


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("hpa", {}),
        ("hpa", {"recommended": None}),
        ("hpa", {"recommended": {"job": [[0]]}}),
        ("reactive", {"learned": {"job": ["many", 1, 2]}, "learned_s": {}}),
        ("reactive", {"learned": {"job": [10.0, 1, 99]}, "learned_s": {}}),
        ("spark-streaming-dra", {"looked_s": {"job": "noon"}}),
    ],
)
def test_damaged_state_is_refused_and_changes_nothing(name: str, state: dict[str, object]) -> None:
    chosen = policy(name)
    before = chosen.snapshot()
    with pytest.raises(StateError, match="damaged"):
        chosen.restore({"policy": name, "version": 1, **state})
    assert chosen.snapshot() == before


class Eager(OperatorPolicy[StaticSettings]):
    """Wants one more at every decision."""

    name = "eager"

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        return Target(instances.planned + 1, "eager", "more")


@pytest.mark.parametrize(("age_s", "code"), [(0, "eager"), (300, "eager"), (301, "no-data")])
def test_an_operator_is_only_sized_on_a_fresh_reading(age_s: float, code: str) -> None:
    eager = Eager(StaticSettings(), Context(parse_objective("latency < 10s"), JOB))
    assert propose(eager, history([Sample("job", 0)]), now=age_s).code == code


def test_settings_can_be_written_as_text() -> None:
    chosen = policy("threshold", upper_for_s="2m", add="3", upper="0.9")
    assert (chosen.settings.upper_for_s, chosen.settings.add, chosen.settings.upper) == (120, 3, 0.9)


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("threshold", {"add": 0}, "threshold setting add 0 is not allowed"),
        ("threshold", {"lower": 0.9}, "threshold settings do not go together: lower 0.9 must be below upper 0.8"),
        ("threshold", {"grace_period_s": "soon"}, "threshold setting grace_period_s 'soon' is not allowed"),
        ("spark-streaming-dra", {"down_ratio": 1}, "down_ratio 1 must be below up_ratio 0.9"),
        ("hpa", {"target": 0}, "hpa setting target 0 is not allowed"),
        ("hpa", {"tolerance": "200%"}, "hpa setting tolerance '200%' is not allowed"),
        ("reactive", {"headroom": 1.5}, "reactive setting headroom 1.5 is not allowed"),
        ("reactive", {"memory": "a lot"}, "reactive setting memory 'a lot' is not allowed"),
        ("static", {"instances": -1}, "static setting instances -1 is not allowed"),
    ],
)
def test_a_setting_that_cannot_be_used_is_reported_with_its_value(
    name: str, settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(InputError) as raised:
        policy(name, **settings)
    assert reason in str(raised.value)
    assert str(raised.value).endswith(".")
    assert "\n" not in str(raised.value)
