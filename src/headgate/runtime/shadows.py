"""Policies that decide beside the acting one, on what it sees, and never act.

A shadow has its own guards and learns as it would if it acted. It decides from the size that the job really has, so
what it tells is what it would do next, not where it would be by now. Whatever a shadow raises costs its own decision
only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headgate.core.contracts import Guard
from headgate.core.errors import InputError, StateError
from headgate.core.step import step
from headgate.core.types import JSON, Decision, Event, Instant, Role, Severity
from headgate.core.window import Window
from headgate.policies.frame.base import AnyPolicy
from headgate.runtime.interrupts import raise_if_interrupted

logger = logging.getLogger("headgate")


@dataclass(slots=True)
class Shadow:
    """One policy that never acts."""

    policy: AnyPolicy
    guards: Sequence[Guard]
    failure: str = ""
    """What it failed with last time; it is said once, not at every tick."""

    def decide(self, now: Instant, window: Window) -> Decision:
        return replace(step(self.policy, self.guards, now, window), role=Role.SHADOW)

    def restore(self, state: Mapping[str, JSON]) -> str:
        """Go on with what was learned before; gives why, where that cannot be."""
        before = self.policy.snapshot()
        try:
            self.policy.restore(state)
        except StateError as error:
            self.policy.restore(before)
            return str(error)
        return ""


class Shadows:
    """All shadows of a loop."""

    def __init__(self, shadows: Sequence[Shadow] = ()) -> None:
        self._shadows = tuple(shadows)

    def __iter__(self) -> Iterator[Shadow]:
        return iter(self._shadows)

    def __len__(self) -> int:
        return len(self._shadows)

    @property
    def subscriptions(self) -> frozenset[str]:
        """Keys of the metrics that they need beyond the basic ones."""
        return frozenset(key for shadow in self for key in shadow.policy.subscriptions)

    def decide(self, now: Instant, window: Window, note: Callable[[Event], None]) -> list[Decision]:
        """What each of them would do; ``note`` is told of failures and of what happened to them."""
        decided = []
        for shadow in self:
            name = shadow.policy.name
            try:
                decided.append(shadow.decide(now, window))
                events: Sequence[Event] = getattr(shadow.policy, "take_events", tuple)()
            except Exception as error:  # noqa: BLE001 - a policy is a plug-in: nothing it raises may harm the acting one
                raise_if_interrupted(error)
                message = f"{type(error).__name__}: {error}"
                if message != shadow.failure:
                    logger.warning("shadow %s failed: %s", name, message)
                    detail = f"shadow {name} failed with {message}; the acting policy continues"
                    note(Event(now, "shadow-failed", detail, severity=Severity.ERROR))
                shadow.failure = message
                continue
            shadow.failure = ""
            for event in events:
                note(replace(event, kind=f"shadow-{event.kind}", detail=f"shadow {name}: {event.detail}"))
        return decided


def refuse_duplicates(acting: str, shadows: Sequence[str]) -> None:
    """Each policy decides once: one that acts, or is a shadow already, cannot be another shadow."""
    for index, name in enumerate(shadows):
        if name == acting:
            raise InputError(f"shadow {name!r} is the acting policy; name others as shadows.")
        if name in shadows[:index]:
            raise InputError(f"shadow {name!r} is named twice; once is allowed.")
