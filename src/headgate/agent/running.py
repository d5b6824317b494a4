"""An agent on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from headgate.core.contracts import Engine
from headgate.core.errors import EngineGoneError, HeadgateError, SupersededError
from headgate.core.types import Event, Observation

logger = logging.getLogger("headgate")


class Reporting(Protocol):
    """An agent, or those of several operators of one engine."""

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
    """An agent on a thread of its own, until it is stopped, superseded, or its engine is gone.

    ``watcher`` is shown every observation that it makes.
    """

    def __init__(self, agent: AgentT_co, engine: Engine, watcher: Callable[[Observation], None] | None = None) -> None:
        self.agent = agent
        self._engine = engine
        self._watcher = watcher
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

    def _run(self) -> None:
        told: str | None = None
        while not self._stop.is_set():
            try:
                observation = self.agent.tick()
                if self._watcher is not None:
                    self._watcher(observation)
                told = None
            except (EngineGoneError, SupersededError) as error:
                logger.warning("the agent ends: %s", error)
                return
            except HeadgateError as error:
                # It is told and tried again: a job must not lose its agent because it could not be looked at once.
                if str(error) != told:
                    told = str(error)
                    logger.warning("the agent could not report: %s", told)
            self._stop.wait(self.agent.wait_s)
