"""The simulated engine: any kernel behind the engine contract, in virtual time.

It is its own clock: a loop that waits for a time makes the job run until then.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from headgate.core.course import Rows
from headgate.core.errors import EngineError, InputError
from headgate.core.topology import Topology
from headgate.core.types import (
    NO_STARTUPS,
    Answer,
    Decision,
    Instances,
    Instant,
    Observation,
    Outcome,
    Receipt,
    quickly,
)
from headgate.simulation.contract import Kernel
from headgate.simulation.fleet import SimulatedFleet

_observation, _receipt = quickly(Observation), quickly(Receipt)


class SimulatedEngine:
    """Runs a kernel with the instances that decisions request.

    - Instances present at time 0 are ready; later ones take ``startup_s``. With ``startup_spread``, that is the median
      and the spread is the standard deviation of the logarithm. ``first_startups_s`` gives the exact start-up times of
      the first new instances.
    - A leaving instance finishes its work, then takes ``drain_s`` to disappear, and is paid for until then.

    >>> from headgate.simulation.queue import QueueNetwork
    >>> from headgate.workloads import parse_workload
    >>> engine = SimulatedEngine(QueueNetwork(parse_workload("constant:10"), 5.0), startup_s=30.0)
    >>> engine.advance(60.0)
    >>> engine.observe().samples["job"].backlog
    300.0
    """

    name = "simulated"

    def __init__(
        self,
        kernel: Kernel,
        *,
        startup_s: float = 0.0,
        startup_spread: float = 0.0,
        first_startups_s: Sequence[float] = (),
        drain_s: float = 0.0,
        seed: int = 0,
    ) -> None:
        for startup in (startup_s, *first_startups_s):
            _require_duration("start-up time", startup)
        _require_duration("drain time", drain_s)
        if not 0 <= startup_spread < math.inf:
            raise InputError(f"startup spread {startup_spread} is not allowed; it must be finite and not negative.")
        self._kernel = kernel
        random = np.random.default_rng([seed, 1])

        known = iter(first_startups_s)

        def draw_startup_s() -> float:
            if (known_s := next(known, None)) is not None:
                return known_s
            return startup_s * float(random.lognormal(0.0, startup_spread)) if startup_spread else startup_s

        self._fleets = {
            name: SimulatedFleet(kernel.ready(name), draw_startup_s, drain_s) for name in kernel.topology.operators
        }
        self._sizes: Mapping[str, Instances] = {}
        """The last observed sizes, shared by equal observations to save memory in long runs."""
        self._lock = threading.RLock()
        self._closed = False
        self.reporting = True
        """Set to ``False`` to simulate metrics that stop while the job goes on."""

    def topology(self) -> Topology:
        return self._kernel.topology

    def now(self) -> Instant:
        return self._kernel.now_s

    def wait_until(self, at_s: Instant, stop: threading.Event) -> None:
        """Let time pass until then."""
        if not stop.is_set():
            self.advance(at_s)

    def advance(self, to_s: Instant) -> None:
        """Run the job until a time; starting instances become ready meanwhile."""
        with self._lock:
            if to_s < self._kernel.now_s:
                raise InputError(f"time cannot go back from {self._kernel.now_s} s to {to_s} s.")
            while (next_s := min([fleet.next_ready_s for fleet in self._fleets.values()])) <= to_s:
                self._kernel.advance(next_s)
                for name, fleet in self._fleets.items():
                    fleet.join(next_s)
                    self._tell_kernel(name)
            self._kernel.advance(to_s)

    def observe(self) -> Observation:
        with self._lock:
            self._require_open()
            kernel = self._kernel
            instances = {name: fleet.instances for name, fleet in self._fleets.items()}
            if instances != self._sizes:
                self._sizes = instances
            samples = kernel.samples() if self.reporting else {}
            now = kernel.now_s
            startups = {
                name: found
                for name, fleet in self._fleets.items()
                if (found := fleet.startups(now, kernel.warmed(name)))
            }
            return _observation(now, samples, self._sizes, startups or NO_STARTUPS)

    def apply(self, decision: Decision) -> Receipt:
        with self._lock:
            self._require_open()
            now, targets, answers = self._kernel.now_s, decision.targets, {}
            for name, target in targets.items():
                if name not in self._fleets or target < 0:
                    known = ", ".join(self._fleets)
                    detail = (
                        f"{target} instances of {name!r} are not possible; operators: {known}, at least 0 instances."
                    )
                    return Receipt(now, {name: Answer(Outcome.REFUSED, 0, detail)})
            for name, target in targets.items():
                if self._fleets[name].bring_to(target, now):
                    answers[name] = Answer(Outcome.ACCEPTED, target)
                    self._tell_kernel(name)
                else:
                    answers[name] = _unchanged(target)
            return _receipt(now, answers)

    def lose_instance(self, operator: str) -> None:
        """Simulate the death of a ready instance. The next decision that is applied, a hold too, replaces it."""
        with self._lock:
            fleet = self._fleets[operator]
            fleet.lose(self._kernel.now_s)
            self._kernel.resize(operator, fleet.ready, lost=True)

    def sizes(self, operator: str) -> Rows:
        """Return rows of start, end, ready instances and paid instances since time 0."""
        with self._lock:
            return self._fleets[operator].sizes(self._kernel.now_s)

    def close(self) -> None:
        """Close the engine; further calls have no effect."""
        with self._lock:
            self._closed = True

    def _tell_kernel(self, operator: str) -> None:
        fleet = self._fleets[operator]
        if fleet.ready != self._kernel.ready(operator):
            fleet.left(self._kernel.now_s, self._kernel.resize(operator, fleet.ready))

    def _require_open(self) -> None:
        if self._closed:
            raise EngineError("the simulated engine is closed.")


@lru_cache(maxsize=1024, typed=True)
def _unchanged(target: int) -> Answer:
    return Answer(Outcome.UNCHANGED, target)


def _require_duration(name: str, value_s: float) -> None:
    if not 0 <= value_s < math.inf:
        raise InputError(f"{name} {value_s} s is not allowed; it must be finite and not negative.")
