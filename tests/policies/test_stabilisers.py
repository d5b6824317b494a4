"""Guards are made from settings, always in one order."""

import pytest

from headgate.core.errors import InputError
from headgate.core.guards import Bounds, Strategy, StrategyKind
from headgate.core.objective import parse_objective
from headgate.policies import policy_class, policy_names
from headgate.policies.settings import make_settings
from headgate.policies.stabilisers import GuardSettings

OBJECTIVE = parse_objective("latency < 10s").within(2, 6)


def names(settings: GuardSettings) -> list[str]:
    return [type(guard).name for guard in settings.build(OBJECTIVE)]  # type: ignore[attr-defined]


def test_the_order_is_fixed() -> None:
    assert names(GuardSettings(monotonicity=True)) == [
        "bounds",
        "strategy",
        "step-limit",
        "hysteresis",
        "guard-times",
        "monotonicity",
        "pending",
        "recovering",
        "blind",
    ]


def test_monotonicity_is_only_there_when_asked_for() -> None:
    assert "monotonicity" not in names(GuardSettings())


def test_bounds_come_from_the_objective() -> None:
    guards = GuardSettings(strategy=StrategyKind.LINEAR, granularity=2).build(OBJECTIVE)
    assert guards[:2] == (Bounds(2, 6), Strategy(StrategyKind.LINEAR, 2, 2, 6))


def test_settings_of_guards_are_read_like_those_of_policies() -> None:
    made = make_settings(GuardSettings, "guards", {"strategy": "queue-aware", "in_after_out_s": "5m", "gain_in": 0.4})
    assert (made.strategy, made.in_after_out_s, made.gain_in) == (StrategyKind.QUEUE_AWARE, 300, 0.4)
    with pytest.raises(InputError, match="guards setting strategy 'eager' is not allowed"):
        make_settings(GuardSettings, "guards", {"strategy": "eager"})


@pytest.mark.parametrize("name", policy_names())
def test_no_policy_gives_up_bounds_or_the_rule_against_scaling_in_blind(name: str) -> None:
    own = names(policy_class(name).guards)
    assert own[0] == "bounds"
    assert own[-1] == "blind"
    assert policy_class(name).guards.stale_after_s <= 300
