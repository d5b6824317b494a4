"""What of an agent's report is let in: an agent may be broken or hostile, and others must not suffer from it.

Events, batches and start-ups that one operator reports have an allowance; what exceeds it is left out, the oldest
first, and an event says so. Texts lose what could be a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from headgate.core.errors import InputError
from headgate.core.types import Event, Number, Severity
from headgate.engines.agents import Report
from headgate.service.store.tokens import redacted

T = TypeVar("T")
LONGEST_ID = 128
LONGEST_KIND = 64
LONGEST_DETAIL = 2000
MOST_NUMBERS = 32
MOST_METRICS = 200
"""Metrics of an agent, and the most that it may offer."""
EVENTS, BATCHES, STARTUPS = (100, 5.0), (10_000, 200.0), (2000, 50.0)
"""How many of each are taken at once, and per second."""


class Allowance:
    """
    >>> allowance = Allowance(3, 1.0, lambda: 0.0)
    >>> allowance.take(2), allowance.take(2)
    (2, 1)
    """

    def __init__(self, most: int, per_s: float, now: Callable[[], float]) -> None:
        self._most = float(most)
        self._per_s = per_s
        self._now = now
        self._left = self._most
        self._seen_s = now()

    def take(self, wanted: int) -> int:
        """Return how many of those wanted are allowed."""
        now_s = self._now()
        self._left = min(self._most, self._left + max(0.0, now_s - self._seen_s) * self._per_s)
        self._seen_s = now_s
        taken = min(wanted, int(self._left))
        self._left -= taken
        return taken


class ReportLimits:
    """The allowances of one operator, whichever agent reports for it."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._events, self._batches, self._startups = (
            Allowance(most, per_s, now) for most, per_s in (EVENTS, BATCHES, STARTUPS)
        )

    def admitted(self, report: Report) -> Report:
        """Return what is let in of a report; an ``InputError`` for an agent that cannot be named."""
        if not 0 < len(report.agent) <= LONGEST_ID or not report.agent.isprintable():
            raise InputError(f"the name of an agent must have 1 to {LONGEST_ID} printable characters.")
        if len(report.extra_metrics) > MOST_METRICS:
            raise InputError(f"an agent may offer {MOST_METRICS} metrics, not {len(report.extra_metrics)}.")
        sample = report.sample
        if sample is not None and len(sample.metrics) > MOST_METRICS:
            raise InputError(f"a reading may have {MOST_METRICS} metrics, not {len(sample.metrics)}.")
        startups, first_startup = _newest(report.startups, report.first_startup, self._startups)
        events, first_event = _newest(report.events, report.first_event, self._events)
        if events and (left_out := first_event - report.first_event):
            detail = f"{left_out + 1} events of the agent were left out: it reports too many"
            events = (Event(self._now(), "events-left-out", detail, severity=Severity.WARNING), *events[1:])
        first_batch = report.first_batch
        if sample is not None:
            batches, first_batch = _newest(sample.batches, report.first_batch, self._batches)
            sample = replace(sample, batches=batches)
        answer = report.answer
        return replace(
            report,
            sample=sample,
            first_batch=first_batch,
            startups=startups,
            first_startup=first_startup,
            events=tuple(_cut(event) for event in events),
            first_event=first_event,
            answer=None if answer is None else replace(answer, detail=redacted(answer.detail[:LONGEST_DETAIL])),
        )


def _newest(items: tuple[T, ...], first: int, allowance: Allowance) -> tuple[tuple[T, ...], int]:
    """Return the newest items that are allowed, and the number of the first of them."""
    left_out = len(items) - allowance.take(len(items))
    return items[left_out:], first + left_out


def _cut(event: Event) -> Event:
    numbers: dict[str, Number] = {
        name[:LONGEST_KIND]: redacted(value[:LONGEST_DETAIL]) if isinstance(value, str) else value
        for name, value in list(event.numbers.items())[:MOST_NUMBERS]
    }
    detail = redacted(event.detail[:LONGEST_DETAIL])
    return replace(event, kind=event.kind[:LONGEST_KIND], detail=detail, numbers=numbers)
