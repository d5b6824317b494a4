"""Telling what happens to a managed query: to the journal, the log, and whoever asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from headgate.core.types import NO_NUMBERS, Event, Number, Severity
from headgate.runtime.clock import Clock
from headgate.runtime.loop import ControlLoop

logger = logging.getLogger("headgate")


class Telling:
    """Tells an event to the journal, the log, and whoever asked."""

    def __init__(self, clock: Clock, on_event: Callable[[Event], None] | None) -> None:
        self.loop: ControlLoop | None = None
        """Whose journal is written to; ``None`` where there is none."""
        self._clock = clock
        self._on_event = on_event

    def __call__(
        self,
        kind: str,
        detail: str,
        numbers: Mapping[str, Number] = NO_NUMBERS,
        severity: Severity = Severity.INFO,
    ) -> None:
        event = Event(self._clock.now(), kind, detail, numbers, severity)
        logger.log(logging.INFO if severity is Severity.INFO else logging.WARNING, "%s: %s", kind, detail)
        if self.loop is not None:
            self.loop.note(kind, detail, at_s=event.at_s, numbers=numbers, severity=severity)
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                logger.exception("who asked to be told of events failed; it goes on being told")
