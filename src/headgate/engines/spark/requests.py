"""Asking a cluster for executors, or to end some, with a limit to how long the loop waits for the answer.

A cluster manager that hangs does not answer for minutes, and Spark notes the new number before it has. So a request is
made on a thread of its own, and only one that was answered with yes counts as confirmed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from headgate.core.errors import EngineError, EngineGoneError
from headgate.core.types import Answer, Outcome
from headgate.core.units import format_duration

ANSWER_WITHIN_S = 5.0


class _Call(threading.Thread):
    """Something that is asked of the cluster, whose answer may take its time."""

    def __init__(self, ask: Callable[[], object]) -> None:
        super().__init__(name="headgate-request", daemon=True)
        self._ask = ask
        self.answer: object = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.answer = self._ask()
        except Exception as error:  # noqa: BLE001 - raised again where the answer is taken
            self.error = error

    def answered_within(self, timeout_s: float) -> bool:
        self.join(timeout_s)
        return not self.is_alive()


class Kills:
    """Ends executors, which the cluster is asked for too."""

    def __init__(self, kill: Callable[[Sequence[str]], None], *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self._kill = kill
        self._answer_within_s = answer_within_s
        self._open: _Call | None = None

    def end(self, executors: Sequence[str]) -> str:
        """Have executors ended; gives what is to be told. They are asked for again as long as they are there."""
        names = ", ".join(executors)
        if self._open is not None and self._open.is_alive():
            return f"the cluster has not answered yet that executor {names} is to be killed"
        call = self._open = _Call(lambda: self._kill(executors))
        call.start()
        if not call.answered_within(self._answer_within_s):
            waited = format_duration(self._answer_within_s)
            return f"the cluster has not answered within {waited} that executor {names} is to be killed"
        if call.error is not None:
            raise call.error
        return f"killed executor {names}"


class Requests:
    """The requests of one application, one at a time."""

    def __init__(
        self, ask: Callable[[int], bool], *, confirmed: int | None = None, answer_within_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._ask = ask
        self._answer_within_s = answer_within_s
        self._open: _Call | None = None
        self._asked_for = 0
        self.confirmed = confirmed
        """What the cluster has agreed to keep; ``None`` before anything was asked of it."""

    def ask(self, executors: int) -> Answer | None:
        """Ask for a total; ``None`` when the cluster agreed, otherwise what is to be told."""
        if self._open is not None and not self._finish(self._open):
            detail = f"the cluster has not answered the request for {self._asked_for} executors yet"
            return Answer(Outcome.FAILED, executors, detail)
        if self.confirmed == executors:
            return None
        request = self._open = _Call(lambda: self._ask(executors))
        self._asked_for = executors
        request.start()
        if not self._finish(request, self._answer_within_s):
            waited = format_duration(self._answer_within_s)
            detail = f"the cluster has not answered a request for {executors} executors within {waited}"
            return Answer(Outcome.FAILED, executors, detail)
        if isinstance(request.error, EngineGoneError):
            raise request.error
        if request.error is not None:
            return Answer(Outcome.FAILED, executors, _told(request.error))
        if not request.answer:
            return Answer(Outcome.REFUSED, executors, f"the cluster did not take a request for {executors} executors")
        return None

    def _finish(self, request: _Call, timeout_s: float = 0.0) -> bool:
        """Whether a request was answered; what it was answered is then known."""
        if not request.answered_within(timeout_s):
            return False
        self._open = None
        if request.answer:
            self.confirmed = self._asked_for
        return True


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
