"""An agent on a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from headgate.agent.failures import Failures
from headgate.core.contracts import Engine
from headgate.core.errors import EngineGoneError, HeadgateError, SupersededError, TokenRefusedError
from headgate.core.types import Event, Observation

logger = logging.getLogger("headgate")


class Reporting(Protocol):
    """An agent, or those of several operators of one engine."""

    @property
    def has_joined(self) -> bool:
        """Whether a report of it was ever taken."""
        ...

    @property
    def wait_s(self) -> float:
        """How long until it reports again."""
        ...

    def note(self, event: Event) -> None:
        """Have something told that happened to the job; from any thread."""
        ...

    def tick(self) -> Observation: ...

    def leave(self) -> None: ...


AgentT_co = TypeVar("AgentT_co", bound=Reporting, covariant=True)


class RunningAgent(Generic[AgentT_co]):
    """An agent on a thread of its own, until it is stopped, superseded, never let in, or its engine is gone.

    ``watcher`` is shown every observation that it makes. ``now`` are seconds of any clock. ``closes`` is called when it
    was stopped.
    """

    def __init__(
        self,
        agent: AgentT_co,
        engine: Engine,
        watcher: Callable[[Observation], None] | None = None,
        now: Callable[[], float] = time.monotonic,
        closes: Callable[[], None] = lambda: None,
    ) -> None:
        self.agent = agent
        self.refused: TokenRefusedError | None = None
        """Why it was never let in."""
        self._engine = engine
        self._watcher = watcher
        self._now = now
        self._failures = Failures()
        self._closes = closes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-agent", daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> RunningAgent[AgentT_co]:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop reporting; the job keeps its size. Twice is fine."""
        is_first, is_at_work = not self._stop.is_set(), self._thread.is_alive()
        self._stop.set()
        if is_at_work and threading.current_thread() is not self._thread:
            self._thread.join()
        if is_first and is_at_work:
            self.agent.leave()
        self._engine.close()
        self._closes()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                observation = self.agent.tick()
                if self._watcher is not None:
                    self._watcher(observation)
            except (EngineGoneError, SupersededError) as error:
                logger.warning("the agent ends: %s", error)
                return
            except HeadgateError as error:
                if isinstance(error, TokenRefusedError) and not self.agent.has_joined:
                    self.refused = error
                    logger.warning("the agent ends: %s", error)
                    return
                # It is told and tried again: a job must not lose its agent because it could not be looked at once.
                if self._failures.is_worth_a_word(str(error), self._now()):
                    logger.warning("the agent cannot report, and goes on trying: %s", error)
            else:
                if self._failures.ended():
                    logger.warning("the agent reports again")
            self._stop.wait(self.agent.wait_s)
