"""Asking a cluster for executors, with a limit to how long the loop waits for the answer.

A cluster manager that hangs does not answer for minutes, and Spark notes the new number before it has. So a request is
made on a thread of its own, and only one that was answered with yes counts as confirmed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from headgate.core.errors import EngineError, EngineGoneError
from headgate.core.types import Answer, Outcome
from headgate.core.units import format_duration

ANSWER_WITHIN_S = 5.0


class _Request(threading.Thread):
    def __init__(self, ask: Callable[[int], bool], executors: int) -> None:
        super().__init__(name="headgate-request", daemon=True)
        self._ask = ask
        self.executors = executors
        self.taken: bool | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.taken = self._ask(self.executors)
        except Exception as error:  # noqa: BLE001 - raised again where the answer is taken
            self.error = error


class Requests:
    """The requests of one application, one at a time."""

    def __init__(
        self, ask: Callable[[int], bool], *, confirmed: int | None = None, answer_within_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._ask = ask
        self._answer_within_s = answer_within_s
        self._open: _Request | None = None
        self.confirmed = confirmed
        """What the cluster has agreed to keep; ``None`` before anything was asked of it."""

    def ask(self, executors: int) -> Answer | None:
        """Ask for a total; ``None`` when the cluster agreed, otherwise what is to be told."""
        if self._open is not None and not self._finish(self._open):
            detail = f"the cluster has not answered the request for {self._open.executors} executors yet"
            return Answer(Outcome.FAILED, executors, detail)
        if self.confirmed == executors:
            return None
        request = self._open = _Request(self._ask, executors)
        request.start()
        if not self._finish(request, self._answer_within_s):
            waited = format_duration(self._answer_within_s)
            detail = f"the cluster has not answered a request for {executors} executors within {waited}"
            return Answer(Outcome.FAILED, executors, detail)
        if isinstance(request.error, EngineGoneError):
            raise request.error
        if request.error is not None:
            return Answer(Outcome.FAILED, executors, _told(request.error))
        if not request.taken:
            return Answer(Outcome.REFUSED, executors, f"the cluster did not take a request for {executors} executors")
        return None

    def _finish(self, request: _Request, timeout_s: float = 0.0) -> bool:
        """Whether a request was answered; what it was answered is then known."""
        request.join(timeout_s)
        if request.is_alive():
            return False
        self._open = None
        if request.taken:
            self.confirmed = request.executors
        return True


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
