"""Let an agent decide by a policy of its own while no controller answers.

The policy sees every observation from the start, so that it knows the job when it is needed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from headgate.core.contracts import Engine, Subscribable
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instant, Observation, Receipt
from headgate.runtime.assembly import LoopSpec, open_loop
from headgate.runtime.loop import Mode

AFTER_S = 60.0
"""A service that is away for less than this costs nothing but new decisions."""
INTERVAL_S = 5.0


class Fallback:
    """A loop that decides once no controller has answered for ``after_s``, every ``interval_s`` at most."""

    def __init__(
        self,
        spec: LoopSpec,
        engine: Engine,
        *,
        after_s: float = AFTER_S,
        interval_s: float = INTERVAL_S,
        now: Callable[[], Instant] = time.time,
    ) -> None:
        self.after_s = after_s
        self._interval_s = interval_s
        self._decided_s: Instant | None = None
        self._observed = _ObservedEngine(engine, now)
        self._assembled = open_loop(spec, self._observed, self._observed, engine_name="agent")
        self.loop = self._assembled.loop

    def saw(self, observation: Observation) -> None:
        """Remember an observation while the controller decides."""
        self._decided_s = None
        self._remember(observation)

    def decide(self, observation: Observation) -> int:
        """The size that is planned after this observation, with a new decision if one is due."""
        (operator,) = observation.instances
        planned = observation.instances[operator].planned
        if self._decided_s is not None and observation.at_s - self._decided_s < self._interval_s:
            self._remember(observation)
            return planned
        self._decided_s = observation.at_s
        self._observed.observation = observation
        decision = self.loop.tick()
        return planned if decision is None or self.loop.mode is Mode.RECOMMEND else decision.targets[operator]

    def subscribe(self, keys: Collection[str]) -> None:
        """Have the engine collect the metrics that the controller needs, and those of the fallback."""
        self._observed.controller_keys = frozenset(keys)
        self._observed.subscribe(self._observed.own_keys)

    def close(self) -> None:
        """Save what was learned and close the journal if it was opened for this loop."""
        self.loop.save_state()
        self._assembled.close_journal()

    def _remember(self, observation: Observation) -> None:
        self._observed.observation = observation
        self.loop.observe()


class _ObservedEngine:
    """An engine that the agent has already observed, with the time of that observation as its clock."""

    def __init__(self, engine: Engine, now: Callable[[], Instant]) -> None:
        self._engine = engine
        self._now = now
        self.own_keys = self.controller_keys = frozenset[str]()
        self.observation: Observation | None = None

    def topology(self) -> Topology:
        return self._engine.topology()

    def observe(self) -> Observation:
        assert self.observation is not None, "the agent observes before the fallback decides"
        return self.observation

    def apply(self, decision: Decision) -> Receipt:
        return self._engine.apply(decision)

    @property
    def extra_metrics(self) -> Collection[str]:
        return self._engine.extra_metrics if isinstance(self._engine, Subscribable) else ()

    def subscribe(self, keys: Collection[str]) -> None:
        self.own_keys = frozenset(keys)
        if isinstance(self._engine, Subscribable):
            self._engine.subscribe(self.own_keys | self.controller_keys)

    def close(self) -> None:
        self._engine.close()

    def now(self) -> Instant:
        return self._now() if self.observation is None else self.observation.at_s

    def wait_until(self, at_s: Instant, stop: threading.Event) -> None:
        stop.wait(max(0.0, at_s - self.now()))
