"""A policy of an agent's own, which decides while nobody else does.

It sees every observation from the start, so that it knows the job when it is needed, and decides on the engine itself.
"""

from __future__ import annotations

import threading

from headgate.core.contracts import Engine
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instant, Observation, Receipt
from headgate.policies.frame.base import AnyPolicy
from headgate.runtime.wiring import wire

AFTER_S = 60.0
"""A service that is away for less than this costs nothing but new decisions."""
INTERVAL_S = 5.0


class Fallback:
    """Decides by a policy when nobody has answered for ``after_s``, every ``interval_s`` at most."""

    def __init__(
        self, policy: AnyPolicy, engine: Engine, *, after_s: float = AFTER_S, interval_s: float = INTERVAL_S
    ) -> None:
        self.after_s = after_s
        self._interval_s = interval_s
        self._decided_s: Instant | None = None
        self._seen = _Seen(engine)
        self._loop = wire(self._seen, policy, self._seen, engine_name="agent")

    def saw(self, observation: Observation) -> None:
        """Look at what is observed while somebody else decides."""
        self._seen.observation = observation
        self._loop.history.observe(observation)
        self._decided_s = None

    def decide(self, observation: Observation) -> int:
        """Decide, or wait for the next time to; gives the size that is planned then."""
        (operator,) = observation.instances
        self._seen.observation = observation
        if self._decided_s is not None and observation.at_s - self._decided_s < self._interval_s:
            self._loop.history.observe(observation)
            return observation.instances[operator].planned
        self._decided_s = observation.at_s
        decision = self._loop.tick()
        return observation.instances[operator].planned if decision is None else decision.targets[operator]


class _Seen:
    """An engine that was observed already, and the clock by which it was."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.observation: Observation | None = None

    def topology(self) -> Topology:
        return self._engine.topology()

    def observe(self) -> Observation:
        assert self.observation is not None, "it decides on what it was shown"
        return self.observation

    def apply(self, decision: Decision) -> Receipt:
        return self._engine.apply(decision)

    def close(self) -> None:
        self._engine.close()

    def now(self) -> Instant:
        return 0.0 if self.observation is None else self.observation.at_s

    def wait_until(self, at_s: Instant, stop: threading.Event) -> None:
        stop.wait(max(0.0, at_s - self.now()))
