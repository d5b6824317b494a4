"""committee: several policies, one decision that names who wanted what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.core.errors import InputError, StateError
from headgate.core.types import Sample
from tests.core.building import history, policy, propose


def fixed(*sizes: int) -> dict[str, str]:
    """A committee of static policies called a, b, c …, each of which wants one size."""
    names = "abcdefgh"[: len(sizes)]
    return {
        "members": ", ".join(f"{name}=static" for name in names),
        "member_settings": ", ".join(f"{name}.instances={size}" for name, size in zip(names, sizes, strict=True)),
    }


@pytest.mark.parametrize(
    ("combine", "sizes", "expected"),
    [
        ("largest", (3, 4, 7), 7),
        ("largest", (2, 3, 1), 3),
        ("median", (3, 4, 7), 4),
        ("median", (3, 4, 7, 9), 7),
        ("median", (1, 2), 2),
        ("majority", (5, 7, 4), 7),
        ("majority", (5, 6, 7, 4), 6),
        ("majority", (5, 6, 4, 4), 4),
        ("majority", (5, 3, 4), 4),
        ("majority", (3, 2, 4), 3),
        ("majority", (3, 2, 1, 4, 5), 2),
        ("weights", (4, 8), 6),
        ("weights", (4, 5), 5),
    ],
)
def test_how_sizes_are_combined_around_four_planned_instances(
    combine: str, sizes: tuple[int, ...], expected: int
) -> None:
    target = propose(policy("committee", combine=combine, **fixed(*sizes)), history([Sample("job", 0)], planned=4))
    assert target.instances == expected


@pytest.mark.parametrize(("weights", "expected"), [("a=3", 5), ("a=0", 8), ("a=1, b=3", 7)])
def test_weights(weights: str, expected: int) -> None:
    chosen = policy("committee", combine="weights", weights=weights, **fixed(4, 8))
    assert propose(chosen, history([Sample("job", 0)])).instances == expected


def test_the_decision_names_who_wanted_what() -> None:
    target = propose(policy("committee", **fixed(3, 6)), history([Sample("job", 0)], planned=4))
    assert target.reason == "a wants 3 (static), b wants 6 (static): the largest is 6"
    assert (target.numbers, target.code) == ({"a": 3, "b": 6}, "agreed-on-out")


def test_a_member_without_data_abstains() -> None:
    chosen = policy("committee", members="hpa, threshold", combine="median", member_settings="threshold.upper_for_s=0")
    target = propose(chosen, history([Sample("job", 0, processing_time_s=9, trigger_interval_s=10)], planned=4))
    assert target.instances == 5
    assert "hpa abstains" in target.reason
    assert propose(chosen, history([Sample("job", 0)], planned=4)).code == "no-data"


def test_members_are_set_and_checked_back_for_on_their_own() -> None:
    chosen = policy(
        "committee",
        members="fast=threshold, slow=threshold",
        member_settings="fast.lower_for_s=1m, slow.lower_for_s=5h",
    )
    assert chosen.lookback_s >= 5 * 3600


def test_it_subscribes_to_what_its_members_look_at() -> None:
    chosen = policy("committee", members="hpa, threshold", member_settings="hpa.metric=heap, threshold.metric=lag")
    assert chosen.subscriptions == {"heap", "lag"}


def test_its_state_holds_that_of_its_members() -> None:
    settings = {"members": "hpa, spark-dra"}
    chosen = policy("committee", **settings)
    seen = history([Sample("job", at_s, utilization=1.0) for at_s in (0.0, 10.0)], planned=4)
    propose(chosen, seen, 0.0)
    saved = json.loads(json.dumps(chosen.snapshot()))
    assert set(saved["members"]) == {"hpa", "spark-dra"}
    again = policy("committee", **settings)
    again.restore(saved)
    assert propose(again, seen) == propose(chosen, seen)
    with pytest.raises(StateError, match="hpa, spark-dra instead of hpa"):
        policy("committee", members="hpa").restore(saved)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"members": "hpa, committee"}, "'committee' of a committee is a committee"),
        ({"members": "hpa, treshold"}, "did you mean 'threshold'"),
        ({"members": " , "}, "names no policy"),
        ({"members": "hpa, hpa"}, "names 'hpa' twice"),
        ({"weights": "hpaa=2"}, "'hpaa', which is not a member"),
        ({"weights": "hpa=many"}, "many"),
        ({"weights": "hpa=-1"}, "must be finite and not negative"),
        ({"combine": "weights", "members": "hpa", "weights": "hpa=0"}, "weights are all 0"),
        ({"member_settings": "hpa.targett=1"}, "did you mean 'target'"),
        ({"member_settings": "target=1"}, "write MEMBER.SETTING"),
    ],
)
def test_what_cannot_be_a_committee_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        policy("committee", **settings)
