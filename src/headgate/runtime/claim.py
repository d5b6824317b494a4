"""One autoscaler per application: two would each undo what the other did."""

from __future__ import annotations

import logging
import threading
from typing import ClassVar, Protocol

from headgate.core.errors import InputError

logger = logging.getLogger("headgate")


class Stoppable(Protocol):
    def stop(self) -> None: ...


class Claim:
    """The right to scale one application of this process, until it is released."""

    _held: ClassVar[dict[str, Claim]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, application: str) -> None:
        self.application = application
        self.holder: Stoppable | None = None
        """Who is to be stopped when somebody takes over."""

    @classmethod
    def of(cls, application: str, *, take_over: bool = False) -> Claim:
        """Claim an application; with ``take_over``, an autoscaler that has it already is stopped first."""
        with cls._lock:
            held = cls._held.get(application)
            if held is None:
                claim = cls._held[application] = cls(application)
                return claim
        holder = held.holder
        if not take_over or holder is None:
            raise InputError(
                f"application {application} is scaled by another autoscaler of this process already; stop that one, or "
                "pass take_over=True to have it stopped."
            )
        logger.info("taking application %s over from another autoscaler", application)
        holder.stop()
        return cls.of(application)

    def release(self) -> None:
        """Let others scale the application; calling it twice is fine."""
        with self._lock:
            if self._held.get(self.application) is self:
                del self._held[self.application]
