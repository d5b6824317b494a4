"""How far a run has come, concluded from what its controller tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from headgate.core.types import JSON

QUIET_S = 8.0
"""When nothing has been waiting for so long, no more comes."""


class Progress:
    """Takes in the controller's state again and again; ``jobs`` are the names of all of them."""

    def __init__(self, jobs: tuple[str, ...], now: Callable[[], float] = time.monotonic) -> None:
        self._jobs = jobs
        self._now = now
        self._state: Mapping[str, JSON] = {}
        self._waited_s = now()
        """When something was last seen to wait."""

    def take(self, state: Mapping[str, JSON]) -> None:
        self._state = state
        if any(sample.get("backlog", 1.0) for sample in self._samples()):
            self._waited_s = self._now()

    def expect_more(self) -> None:
        """Something is on its way from now on, though it does not wait anywhere yet."""
        self._waited_s = self._now()

    @property
    def end_to_end(self) -> Mapping[str, JSON]:
        """What came out so far."""
        found: Mapping[str, JSON] = self._state.get("end_to_end", {})
        return found

    @property
    def missing(self) -> list[str]:
        """The jobs that have not joined."""
        joined = set(self._state.get("joined", ()))
        return [name for name in self._jobs if name not in joined]

    def is_warm(self) -> bool:
        """Whether every job has got something done; or no more comes, because a job leaves records out."""
        done = [bool(sample.get("done")) for sample in self._samples()]
        return any(done) and self.is_quiet(0.0 if all(done) else QUIET_S)

    def has_given(self, sent: int) -> bool:
        """Whether every record has come out, or nothing has been waiting anywhere for a while."""
        return bool(self.end_to_end.get("distinct", 0) >= sent) or self.is_quiet(QUIET_S)

    def is_quiet(self, for_s: float) -> bool:
        """Whether nothing has been waiting at any job for so long."""
        waits = any(sample.get("backlog", 1.0) for sample in self._samples())
        return not waits and self._now() - self._waited_s >= for_s

    def _samples(self) -> list[Mapping[str, JSON]]:
        """What was read of each job last."""
        seen = (self._state.get("observation") or {}).get("samples", {})
        return [seen.get(name, {}) for name in self._jobs]
