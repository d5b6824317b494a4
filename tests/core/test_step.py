"""One control cycle."""

from collections.abc import Mapping

from headgate.core.guards import Bounds, StepLimit
from headgate.core.step import hold, step
from headgate.core.topology import Topology
from headgate.core.types import JSON, GuardNote, Instances, Instant, Observation, Proposal, Target
from headgate.core.window import History, Window

PAIR = Topology.of(("parse", "enrich"))


class Wanting:
    """A policy that always wants the same."""

    name = "wanting"

    def __init__(self, **targets: int) -> None:
        self._targets = targets

    def decide(self, now: Instant, window: Window) -> Proposal:
        return Proposal(
            {name: Target(count, "wanted", "it wants so", {"now": now}) for name, count in self._targets.items()}
        )

    def snapshot(self) -> Mapping[str, JSON]:
        return {}

    def restore(self, state: Mapping[str, JSON]) -> None:
        return None


def seen(**planned: int) -> History:
    window = History(PAIR)
    window.observe(Observation(0, {}, {name: Instances(count, count, count) for name, count in planned.items()}))
    return window


def test_a_decision_carries_what_was_proposed_and_why() -> None:
    decision = step(Wanting(parse=3), (), 7.0, seen(parse=2))
    verdict = decision.verdicts["parse"]
    assert (decision.at_s, decision.policy) == (7.0, "wanting")
    assert (verdict.current, verdict.proposed, verdict.target) == (2, 3, 3)
    assert (verdict.code, verdict.reason, verdict.numbers) == ("wanted", "it wants so", {"now": 7.0})


def test_every_guard_has_its_say_in_turn_and_leaves_a_note() -> None:
    verdict = step(Wanting(parse=20), (Bounds(1, 8), StepLimit(2, None)), 0, seen(parse=2)).verdicts["parse"]
    assert (verdict.proposed, verdict.target) == (20, 4)
    assert verdict.notes == (
        GuardNote("bounds", 20, 8, "at most 8 instances"),
        GuardNote("step-limit", 8, 4, "at most 2 more at a time"),
    )


def test_an_operator_the_policy_says_nothing_about_is_held() -> None:
    verdict = step(Wanting(parse=3), (), 0, seen(parse=2, enrich=5)).verdicts["enrich"]
    assert (verdict.target, verdict.code) == (5, "no-opinion")
    assert "wanting has no opinion on enrich" in verdict.reason


def test_an_operator_of_unknown_size_is_left_out() -> None:
    assert step(Wanting(parse=3, enrich=3), (), 0, seen(parse=2)).targets == {"parse": 3}


def test_a_target_for_what_is_no_operator_is_left_out() -> None:
    assert step(Wanting(parse=3, sink=3), (), 0, seen(parse=2)).targets == {"parse": 3}


def test_nothing_is_decided_before_anything_was_observed() -> None:
    assert step(Wanting(parse=3), (Bounds(1, 8),), 0, History(PAIR)).verdicts == {}


def test_holding_leaves_every_operator_as_planned_for_one_reason() -> None:
    decision = hold("wanting", 3.0, seen(parse=2, enrich=5), "policy-failed", "it failed")
    assert decision.targets == {"parse": 2, "enrich": 5}
    assert decision.is_hold
    assert {(verdict.code, verdict.reason) for verdict in decision.verdicts.values()} == {
        ("policy-failed", "it failed")
    }
