"""Guards are made from settings, always in one order."""

import pytest

from headgate.core.errors import InputError
from headgate.core.guards import Bounds, Strategy, StrategyKind
from headgate.core.objective import parse_objective
from headgate.policies import policy_class, policy_names
from headgate.policies.frame.base import GuardSettings
from headgate.policies.frame.settings import make_settings

OBJECTIVE = parse_objective("latency < 10s").within(2, 6)


def names(settings: GuardSettings) -> list[str]:
    return [type(guard).name for guard in settings.build(OBJECTIVE)]  # type: ignore[attr-defined]


ALL = GuardSettings(
    strategy=StrategyKind.LINEAR, max_in=1, gain_out=0.9, in_after_out_s=60, monotonicity=True, stale_after_s=30
)


def test_the_order_is_fixed() -> None:
    assert names(ALL) == [
        "bounds",
        "useful",
        "strategy",
        "step-limit",
        "hysteresis",
        "guard-times",
        "monotonicity",
        "pending",
        "recovering",
        "blind",
        "trusted",
        "attainable",
    ]


def test_by_default_only_those_are_in_use_that_every_policy_needs() -> None:
    assert names(GuardSettings()) == ["bounds", "useful", "pending", "recovering", "blind", "trusted", "attainable"]


@pytest.mark.parametrize(
    ("off", "left_out"),
    [
        ({"strategy": "as-proposed"}, "strategy"),
        ({"max_in": None}, "step-limit"),
        ({"gain_out": 1.0}, "hysteresis"),
        ({"in_after_out_s": 0}, "guard-times"),
        ({"monotonicity": False}, "monotonicity"),
        ({"recovery_timeout_s": 0}, "recovering"),
    ],
)
def test_a_guard_that_is_switched_off_is_left_out(off: dict[str, object], left_out: str) -> None:
    settings = make_settings(GuardSettings, "guards", ALL.model_dump() | off)
    assert [name for name in names(ALL) if name != left_out] == names(settings)


def test_who_does_not_wait_for_instances_gives_up_on_those_that_do_not_come_all_the_same() -> None:
    settings = make_settings(GuardSettings, "guards", ALL.model_dump() | {"pending_timeout_s": 0})
    assert {*names(ALL)} - {*names(settings)} == {"pending"}
    settings = make_settings(GuardSettings, "guards", ALL.model_dump() | {"attainable_after_s": 0})
    assert {*names(ALL)} - {*names(settings)} == {"attainable"}


@pytest.mark.parametrize("name", policy_names())
def test_no_policy_keeps_a_plan_that_the_cluster_does_not_fulfil(name: str) -> None:
    assert "attainable" in names(policy_class(name).guards)


def test_bounds_come_from_the_objective() -> None:
    guards = GuardSettings(strategy=StrategyKind.LINEAR, granularity=2).build(OBJECTIVE)
    assert (guards[0], guards[2]) == (Bounds(2, 6, objective=OBJECTIVE), Strategy(StrategyKind.LINEAR, 2, 2, 6))


def test_settings_of_guards_are_read_like_those_of_policies() -> None:
    made = make_settings(GuardSettings, "guards", {"strategy": "queue-aware", "in_after_out_s": "5m", "gain_in": 0.4})
    assert (made.strategy, made.in_after_out_s, made.gain_in) == (StrategyKind.QUEUE_AWARE, 300, 0.4)
    with pytest.raises(InputError, match="guards setting strategy 'eager' is not allowed"):
        make_settings(GuardSettings, "guards", {"strategy": "eager"})


@pytest.mark.parametrize("name", policy_names())
def test_no_policy_gives_up_bounds_or_the_rule_against_scaling_in_blind(name: str) -> None:
    own = names(policy_class(name).guards)
    assert own[0] == "bounds"
    assert {"blind", "trusted"} <= set(own)
    assert policy_class(name).guards.stale_after_s <= 300
