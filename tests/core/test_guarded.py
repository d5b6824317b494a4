"""Guards that are called together have the same result as one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.contracts import Guard
from headgate.core.guards import Attainable, Bounds, Hysteresis, StepLimit, Useful
from headgate.core.step import EachOperator, Guards, guarded
from headgate.core.topology import Topology
from headgate.core.types import Decision, GuardNote, Instances, Instant, Observation, Verdict
from headgate.core.window import History, Window


@dataclass(frozen=True, slots=True)
class OneMore(EachOperator):
    name: ClassVar[str] = "one-more"

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        return verdict.target + 1, "one more"


@dataclass(frozen=True, slots=True)
class Noted(EachOperator):
    """Lets everything pass, with a reason."""

    name: ClassVar[str] = "noted"

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        return verdict.target, "seen"


@dataclass(frozen=True, slots=True)
class NoChange(EachOperator):
    name: ClassVar[str] = "no-change"
    lets_holds_pass: ClassVar[bool] = True

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        if verdict.change == 0:
            raise AssertionError("called for a hold")
        return verdict.current, "no change"


def everything(window: Window, decision: Decision) -> Decision:
    """A guard that is a plain function."""
    verdicts = {
        name: Verdict(
            verdict.operator,
            verdict.current,
            verdict.proposed,
            9,
            verdict.code,
            verdict.reason,
            verdict.numbers,
            (GuardNote("nine", 0, 9),),
        )
        for name, verdict in decision.verdicts.items()
    }
    return Decision(decision.at_s, decision.policy, verdicts, decision.role)


def history(*operators: str) -> History:
    made = History(Topology(operators))
    made.observe(Observation(0.0, {}, {name: Instances(3, 3, 3) for name in operators}))
    return made


def decision(**targets: int) -> Decision:
    verdicts = {
        name: Verdict(name, 3, target, target, "need", "a reason", {"size": target}) for name, target in targets.items()
    }
    return Decision(60.0, "test", verdicts)


GUARDS: tuple[Guard, ...] = (
    Bounds(2, 8),
    Useful(),
    StepLimit(3, 1),
    OneMore(),
    everything,
    Noted(),
    Hysteresis(0.5, 0.5),
    Attainable(120.0, 600.0),
    NoChange(),
)


@given(
    guards=st.lists(st.sampled_from(GUARDS), max_size=12).map(tuple),
    first=st.integers(0, 12),
    second=st.integers(0, 12),
)
def test_a_row_of_guards_leaves_what_they_leave_one_by_one(guards: tuple[Guard, ...], first: int, second: int) -> None:
    window, start = history("first", "second"), decision(first=first, second=second)
    one_by_one = start
    for guard in guards:
        one_by_one = guard(window, one_by_one)
    assert guarded(guards, window, start) == one_by_one
    in_rows = Guards(guards)
    assert in_rows == guards
    # Twice, because notes are made once.
    assert [guarded(in_rows, window, start) for _ in range(2)] == [one_by_one, one_by_one]


def test_a_guard_that_lets_holds_pass_is_not_called_for_one_and_leaves_its_note() -> None:
    verdict = guarded((NoChange(),), history("job"), decision(job=3)).verdicts["job"]
    assert verdict.target == 3
    assert verdict.notes == (GuardNote("no-change", 3, 3),)


def test_each_guard_of_a_row_sees_what_the_one_before_it_left() -> None:
    verdict = guarded((OneMore(), OneMore(), Noted(), NoChange()), history("job"), decision(job=3)).verdicts["job"]
    assert verdict.target == 3
    assert verdict.notes == (
        GuardNote("one-more", 3, 4, "one more"),
        GuardNote("one-more", 4, 5, "one more"),
        GuardNote("noted", 5, 5, "seen"),
        GuardNote("no-change", 5, 3, "no change"),
    )


@pytest.mark.parametrize("guards", [(), (everything,)])
def test_without_guards_of_single_operators_nothing_is_noted_for_them(guards: tuple[Guard, ...]) -> None:
    verdict = guarded(guards, history("job"), decision(job=5)).verdicts["job"]
    assert [note.guard for note in verdict.notes] == ["nine"] * len(guards)
