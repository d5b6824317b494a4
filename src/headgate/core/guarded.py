"""What guards leave of a decision: those that look at one operator at a time are asked row by row.

Most of them have nothing to say of a decision that leaves the size as it is, which most decisions do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import ClassVar

from headgate.core.contracts import Guard
from headgate.core.types import Decision, GuardNote, Instant, Verdict
from headgate.core.window import Window


class EachOperator:
    """A guard that looks at one operator at a time."""

    __slots__ = ()
    name: ClassVar[str]
    lets_holds_pass: ClassVar[bool] = False
    """Whether it never alters a target that is the current size: then it need not be asked about one."""

    def __call__(self, window: Window, decision: Decision) -> Decision:
        return guarded((self,), window, decision)

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        """The target that is left, and why it differs (empty when it does not).

        What is in the verdict's notes are those up to the last guard that altered it.
        """
        raise NotImplementedError


def guarded(guards: Iterable[Guard], window: Window, decision: Decision) -> Decision:
    """What guards leave of a decision, each in turn."""
    row: list[EachOperator] = []
    for guard in guards:
        if isinstance(guard, EachOperator):
            row.append(guard)
            continue
        if row:
            decision = _after(row, window, decision)
            row = []
        decision = guard(window, decision)
    return _after(row, window, decision) if row else decision


def _after(row: Sequence[EachOperator], window: Window, decision: Decision) -> Decision:
    # Together, because a value for each guard of each operator would take longer than all that they look at.
    now = decision.at_s
    verdicts = {name: _noted(row, window, now, verdict) for name, verdict in decision.verdicts.items()}
    return Decision(now, decision.policy, verdicts, decision.role)


def _noted(row: Sequence[EachOperator], window: Window, now: Instant, verdict: Verdict) -> Verdict:
    notes = [*verdict.notes]
    for guard in row:
        before = verdict.target
        if guard.lets_holds_pass and before == verdict.current:
            notes.append(_let_pass(guard.name, before))
            continue
        target, why = guard.limit(window, now, verdict)
        if target == before and not why:
            notes.append(_let_pass(guard.name, before))
            continue
        notes.append(GuardNote(guard.name, before, target, why))
        verdict = _with_target(verdict, target, notes)
    return _with_target(verdict, verdict.target, notes)


def _with_target(verdict: Verdict, target: int, notes: Iterable[GuardNote]) -> Verdict:
    return Verdict(
        verdict.operator,
        verdict.current,
        verdict.proposed,
        target,
        verdict.code,
        verdict.reason,
        verdict.numbers,
        tuple(notes),
    )


@lru_cache(maxsize=4096, typed=True)
def _let_pass(guard: str, target: int) -> GuardNote:
    return GuardNote(guard, target, target)
