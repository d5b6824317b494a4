"""The search space that settings declare."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError, UnknownNameError
from headgate.lab.tuning.space import Space, search_space
from headgate.policies.frame.base import GuardSettings, policy_class, policy_names
from headgate.policies.frame.settings import make_settings


@pytest.mark.parametrize("policy", policy_names())
def test_each_default_lies_in_its_space_and_every_corner_is_a_value_that_may_be_set(policy: str) -> None:
    space = search_space(policy, guards=True)
    kind = policy_class(policy)
    assert space.holds_defaults()
    for dimension in space.dimensions:
        for place in (0.0, 0.3, 1.0):
            values, guards = space.split({dimension.name: dimension.at(place)})
            try:
                make_settings(kind.Settings, policy, values)
                make_settings(GuardSettings, "guards", guards)
            except InputError as error:
                assert "do not go together" in str(error)  # noqa: PT017 - any other error is of the value itself
    declared = set(kind.Settings.model_fields) | {f"guards.{name}" for name in GuardSettings.model_fields}
    assert {dimension.name for dimension in space.dimensions} | space.left_out.keys() == declared


def dimension_in_words(space: Space) -> dict[str, str]:
    return {dimension.name: dimension.describe() for dimension in space.dimensions}


def test_a_range_follows_from_type_bounds_unit_and_default() -> None:
    assert dimension_in_words(search_space("hpa")) == {
        "tolerance": "0 to 1",
        "scale_in_window_s": "37.5 to 2400, by factors",
        "out_instances": "1 to 32, by factors",
        "out_share": "0.125 to 8, by factors",
        "out_period_s": "1.875 to 120, by factors",
        "target": "0.0875 to 5.6, by factors",
    }
    assert search_space("hpa").left_out == {"metric": "a text"}
    learned = dimension_in_words(search_space("q-learning"))
    assert learned["update"] == "sarsa, q"
    assert learned["discount_factor"] == "0 to 0.999"
    assert learned["epsilon_step"] == "0.00125 to 0.08, by factors"
    assert dimension_in_words(search_space("ds2"))["activation_s"] == "0 to 300"


def test_what_is_named_alone_is_searched_and_what_is_fixed_stays() -> None:
    space = search_space("hpa", only=["target"], fix={"tolerance": "5%"}, ranges={"out_period_s": "10s..1m"})
    assert dimension_in_words(space) == {"out_period_s": "10 to 60", "target": "0.0875 to 5.6, by factors"}
    assert space.split({"target": 0.5}) == ({"tolerance": "5%", "target": "0.5"}, {})
    assert [dimension.name for dimension in search_space("autopilot", only=["guards.gain_in"]).dimensions] == [
        "guards.gain_in"
    ]
    assert search_space("hpa", only=["guards.max_out"], ranges={"guards.max_out": "1..4"}).split(
        {"guards.max_out": 3}
    ) == ({}, {"max_out": "3"})


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"only": ["targt"]}, "did you mean 'target'"),
        ({"only": ["metric"]}, "metric of hpa cannot be searched: it is a text."),
        ({"only": ["target"], "fix": {"target": "1"}}, "target is both fixed and searched"),
        ({"ranges": {"target": "1"}}, "--range target=1 is not understood"),
        ({"ranges": {"target": "2..1"}}, "--range target=2..1 is not understood"),
        ({"ranges": {"tolerance": "0..2"}}, "goes beyond what the setting allows, with 2"),
        ({"ranges": {"metric": "0..2"}}, "is of a setting that is no number"),
    ],
)
def test_what_cannot_be_searched_is_refused(given_: dict[str, object], message: str) -> None:
    with pytest.raises((InputError, UnknownNameError)) as raised:
        search_space("hpa", **given_)  # type: ignore[arg-type]
    assert message in str(raised.value)


def test_a_policy_without_settings_is_refused() -> None:
    with pytest.raises(InputError, match="static has no setting that can be searched"):
        search_space("static")


@given(st.floats(0, 1))
def test_any_place_is_a_value_within_the_range(place: float) -> None:
    for dimension in search_space("proactive").dimensions:
        assert dimension.holds(dimension.at(place))
