"""One control cycle, pure: the policy proposes, each guard in turn has its say, and what is left is the decision.

This is the whole of it; everything else in Headgate feeds this function or carries out what it returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import ClassVar, Self

from headgate.core.contracts import Guard, Policy
from headgate.core.types import Decision, GuardNote, Instant, Proposal, Target, Verdict, quickly
from headgate.core.window import Window

_verdict, _decision = quickly(Verdict), quickly(Decision)


class EachOperator:
    """A guard that looks at one operator at a time."""

    __slots__ = ()
    name: ClassVar[str]
    lets_holds_pass: ClassVar[bool] = False
    """Whether it never alters a target that is the current size: then it is not called for one."""

    def __call__(self, window: Window, decision: Decision) -> Decision:
        return guarded((self,), window, decision)

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        """The target that is left, and why it differs (empty when it does not).

        What is in the verdict's notes are those up to the last guard that altered it.
        """
        raise NotImplementedError


class Guards(tuple[Guard, ...]):
    """Guards in their order, put into rows once and not at every decision."""

    rows: tuple[Guard, ...]

    def __new__(cls, guards: Iterable[Guard] = ()) -> Self:
        made = super().__new__(cls, guards)
        made.rows = tuple(_in_rows(made))
        return made


def guarded(guards: Iterable[Guard], window: Window, decision: Decision) -> Decision:
    """What guards leave of a decision, each in turn."""
    for row in guards.rows if isinstance(guards, Guards) else _in_rows(guards):
        decision = row(window, decision)
    return decision


def _in_rows(guards: Iterable[Guard]) -> list[Guard]:
    found: list[Guard] = []
    row: list[EachOperator] = []
    for guard in guards:
        if isinstance(guard, EachOperator):
            row.append(guard)
            continue
        if row:
            found.append(_GuardRow(row))
            row = []
        found.append(guard)
    return [*found, _GuardRow(row)] if row else found


class _GuardRow:
    """Guards that look at one operator at a time, one after the other.

    Together, because a value for each guard of each operator would take longer than all that they look at.
    """

    __slots__ = ("_checks_holds", "_guards", "_passed")

    def __init__(self, guards: Sequence[EachOperator]) -> None:
        self._guards = tuple(guards)
        self._checks_holds = tuple(guard for guard in guards if not guard.lets_holds_pass)
        self._passed: dict[tuple[type, int], tuple[GuardNote, ...]] = {}
        """The notes of targets that all of them let pass: they are made once, for most decisions are alike."""

    def __call__(self, window: Window, decision: Decision) -> Decision:
        now = decision.at_s
        verdicts = {name: self._noted(window, now, verdict) for name, verdict in decision.verdicts.items()}
        return _decision(now, decision.policy, verdicts, decision.role)

    def _noted(self, window: Window, now: Instant, verdict: Verdict) -> Verdict:
        if verdict.target == verdict.current and self._lets_pass(window, now, verdict):
            return _with_target(verdict, verdict.target, (*verdict.notes, *self._passed_notes(verdict.target)))
        notes = [*verdict.notes]
        for guard in self._guards:
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

    def _lets_pass(self, window: Window, now: Instant, hold: Verdict) -> bool:
        """Whether none has anything to say of a target that is the current size."""
        for guard in self._checks_holds:
            target, why = guard.limit(window, now, hold)
            if target != hold.target or why:
                return False
        return True

    def _passed_notes(self, target: int) -> tuple[GuardNote, ...]:
        # By its type as well: 1 and True are equal, and do not read the same in a journal.
        key = (type(target), target)
        notes = self._passed.get(key)
        if notes is None:
            notes = self._passed[key] = tuple(_let_pass(guard.name, target) for guard in self._guards)
        return notes


def _with_target(verdict: Verdict, target: int, notes: Iterable[GuardNote]) -> Verdict:
    return _verdict(
        verdict.operator,
        verdict.current,
        verdict.proposed,
        target,
        verdict.code,
        verdict.reason,
        verdict.numbers,
        tuple(notes),
        verdict.alternatives,
    )


@lru_cache(maxsize=4096, typed=True)
def _let_pass(guard: str, target: int) -> GuardNote:
    return GuardNote(guard, target, target)


def step(policy: Policy, guards: Sequence[Guard], now: Instant, window: Window) -> Decision:
    """What to do now, with the reason, the numbers behind it and what each guard did."""
    return guarded(guards, window, _unguarded(policy.name, now, window, policy.decide(now, window)))


def hold(policy_name: str, now: Instant, window: Window, code: str, reason: str) -> Decision:
    """The decision to leave every operator as it is, for one reason."""
    targets = {
        name: Target(instances.planned, code, reason)
        for name in window.operators
        if (instances := window.instances(name)) is not None
    }
    return _unguarded(policy_name, now, window, Proposal(targets))


def _unguarded(policy_name: str, now: Instant, window: Window, proposal: Proposal) -> Decision:
    verdicts = {}
    for name in window.operators:
        instances = window.instances(name)
        if instances is None:
            continue  # An operator of unknown size cannot be resized; the loop reports that it was not observed.
        target = proposal.targets.get(name) or Target(
            instances.planned, "no-opinion", f"{policy_name} has no opinion on {name}"
        )
        size = target.instances
        verdicts[name] = _verdict(
            name,
            instances.planned,
            size,
            size,
            target.code,
            target.reason,
            target.numbers,
            alternatives=target.alternatives,
        )
    return _decision(now, policy_name, verdicts)
