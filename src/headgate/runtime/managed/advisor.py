"""Whether a managed query should go on with another plan: asked at each look, with what the control loop saw last."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from headgate.core.query_plan import Plan
from headgate.core.types import Batch, Decision, Instant, Observation, Sample
from headgate.runtime.managed.batch_cap import cap_for, learn_times
from headgate.runtime.managed.supervisor import PlanChange

BATCHES_KEPT = 40
NOTABLE = 1.25
"""A limit is changed when it is off by more than this factor."""
CAP_REST_S = 15.0
"""After a change of the limit, or a start, so long nothing is changed of it: a few batches should tell first."""


class Advisor:
    """Follows what is observed of one operator, on the loop's thread, and is asked on the supervisor's."""

    def __init__(self, now: Callable[[], Instant], bound_s: float, *, caps: bool, operator: str = "job") -> None:
        self._now = now
        self._bound_s = bound_s
        self._caps = caps
        self._operator = operator
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque(maxlen=BATCHES_KEPT)
        self._sample: Sample | None = None
        self._ready = 0
        self._cap_since_s = now()

    def watch(self, observation: Observation | None, decision: Decision | None) -> None:
        """Take in what one tick saw."""
        if observation is None or (sample := observation.samples.get(self._operator)) is None:
            return
        with self._lock:
            self._batches.extend(sample.batches)
            self._sample = sample
            self._ready = observation.instances[self._operator].ready

    def started(self, at_s: Instant) -> None:
        """The query was started: what was learned of its batches stays, but the first ones are cold."""
        self._cap_since_s = at_s

    def __call__(self, plan: Plan) -> PlanChange | None:
        with self._lock:
            return self._other_cap(plan)

    def _other_cap(self, plan: Plan) -> PlanChange | None:
        now = self._now()
        if not self._caps or self._sample is None or now - self._cap_since_s < CAP_REST_S:
            return None
        useful = self._sample.useful_instances
        times = learn_times(self._batches, useful)
        if times is None or self._ready < 1:
            return None
        instances = min(self._ready, useful or self._ready)
        cap, before = cap_for(times, instances, self._bound_s), plan.max_records_per_batch
        if before is not None and 1 / NOTABLE < cap / before < NOTABLE:
            return None
        self._cap_since_s = now
        took_s = times.seconds(cap, instances)
        was = "without a limit" if before is None else f"instead of {before}"
        reason = (
            f"at most {cap} records a batch {was}: they take about {took_s:.1f} s on {instances} of its instances, and "
            f"a record waits for one batch and goes through another, within {self._bound_s:g} s"
        )
        return PlanChange(replace(plan, max_records_per_batch=cap), reason)
