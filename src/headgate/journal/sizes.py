"""The size that each operator of a job had last, for a job that starts again with the size it had."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing

from headgate.core.types import Decision, Observation, Outcome, Receipt, Role
from headgate.journal.contract import ReadableJournal

CLOCKS_AGREE_S = 0.05
"""The loop and the engine may each have their own clock, so an answer can seem a little older than its question."""

_LAST = 50
"""Newest decisions to look at: shadows decide beside the acting policy."""


def last_sizes(
    journal: ReadableJournal, job: str, newest_first: Callable[[int], Generator[Observation]]
) -> dict[str, int]:
    """The newest known planned size of each operator; ``newest_first`` gives the observations of a run backwards."""
    runs = journal.runs(job=job)
    wanted = list(runs[-1][1].operators) if runs else []
    sizes: dict[str, int] = {}
    for number, _ in reversed(runs):
        missing = [operator for operator in wanted if operator not in sizes]
        if not missing:
            break
        decisions = [decision for decision in journal.decisions(run=number, last=_LAST) if decision.role is Role.ACTING]
        decision = decisions[-1] if decisions else None
        since_s = None if decision is None else decision.at_s - CLOCKS_AGREE_S
        receipts = journal.receipts(run=number, since_s=since_s) if decision is not None else []
        with closing(newest_first(number)) as observations:
            seen = _seen(missing, observations)
        for operator in missing:
            size = size_after(operator, seen.get(operator), decision, receipts)
            if size is not None:
                sizes[operator] = size
    return {operator: sizes[operator] for operator in wanted if operator in sizes}


def _seen(operators: Sequence[str], newest_first: Iterable[Observation]) -> dict[str, int]:
    found: dict[str, int] = {}
    for observation in newest_first:
        for operator in operators:
            if operator in observation.instances:
                found.setdefault(operator, observation.instances[operator].planned)
        if len(found) == len(operators):
            break
    return found


def size_after(operator: str, seen: int | None, decision: Decision | None, receipts: Sequence[Receipt]) -> int | None:
    """The size that was seen last, unless the last decision is newer and was taken; ``receipts`` came after it."""
    verdict = None if decision is None else decision.verdicts.get(operator)
    # A decision starts from the size that was seen just before it; another size was seen after it.
    if verdict is None or (seen is not None and seen != verdict.current):
        return seen
    answers = [receipt.answers[operator] for receipt in receipts if operator in receipt.answers]
    outcome = answers[-1].outcome if answers else Outcome.UNCHANGED
    return verdict.target if outcome.is_taken else verdict.current
