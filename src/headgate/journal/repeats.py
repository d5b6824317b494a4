"""Which entries only repeat the one before them, and may therefore be thinned, and which say something new.

New are: another size of an operator (seen or decided), a decision that changes one, an answer that differs from the
last, an event that does, and instances that were seen starting. What shadows decide is never applied, so nothing of it
has to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headgate.core.types import Decision, Event, Observation, Receipt, Role

Entry: TypeAlias = Observation | Decision | Receipt | Event


@dataclass(frozen=True, slots=True)
class Gist:
    """What is compared of an entry."""

    series: str
    """Only entries of the same kind and series can repeat each other."""
    says: object
    is_new: bool = False
    """It says something new whatever came before it."""


def gist_of(entry: Entry) -> Gist:
    """
    >>> gist_of(Event(5.0, "observe-failed", "no answer"))
    Gist(series='observe-failed', says='no answer', is_new=False)
    """
    match entry:
        case Observation(instances=instances, startups=startups):
            return Gist("", dict(instances), is_new=bool(startups))
        case Decision(role=Role.SHADOW):
            return Gist(entry.policy, None)
        case Decision(verdicts=verdicts):
            return Gist("", {name: (verdict.current, verdict.target) for name, verdict in verdicts.items()})
        case Receipt(answers=answers):
            return Gist("", {name: (answer.outcome, answer.requested) for name, answer in answers.items()})
        case Event(kind=kind, detail=detail):
            return Gist(kind, detail)
