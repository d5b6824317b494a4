"""Decide whether a managed query needs another plan, from the newest observations of the control loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import Batch, Decision, Instances, Instant, Observation, Sample
from headgate.core.units import format_duration, instances_in_words
from headgate.engines.spark.query_plan import Plan, StageWork
from headgate.runtime.managed.batch_cap import cap_for, cautious_cap, learn_times
from headgate.runtime.managed.contracts import Pauses, PlanChange

PAYS_WITHIN_S = 600.0
"""Faster batches must save the pause within this time …"""
PAYS_TIMES = 2.0
"""… so many times over, because the expectation is uncertain."""
LEAST_FASTER = 0.1
"""Batches that become faster by a smaller share are not worth a restart."""
THREATENED = 0.5
"""From this share of the objective on, a policy would add instances if they could help."""
BUSY = 0.6
"""From this share of the time on, a query counts as busy."""


@dataclass(frozen=True, slots=True)
class Strain:
    """The load of a query and what it runs on."""

    partitions: int
    """Of its state."""
    slots: int
    """Tasks that its instances can run at once."""
    most_slots: int
    """Tasks that the most instances allowed could run at once."""
    work: StageWork
    busy_share: float
    """The share of recent time in which a batch ran."""
    pressure: float | None
    """The used share of the objective: 1 is its bound; ``None`` if it is unknown."""


@dataclass(frozen=True, slots=True)
class Growth:
    """More state partitions, and their benefit."""

    partitions: int
    slots: int
    """Slots that are then useful."""
    faster: float
    """The saved share of a batch's time."""
    saves_s: float
    """Within ``PAYS_WITHIN_S``."""


def worthwhile(strain: Strain, most_partitions: int, pause_s: float) -> Growth | None:
    """The number of state partitions to restart with, or ``None`` if more would not pay for the pause.

    A stage that keeps state has one task per partition. With more slots than that, some slots idle while the stage
    runs, and more executors cannot help.

    >>> strain = Strain(2, slots=2, most_slots=8, work=StageWork(2, 9.0, 2, 1.0), busy_share=1.0, pressure=1.2)
    >>> growth = worthwhile(strain, most_partitions=16, pause_s=10.0)
    >>> growth.partitions, round(growth.faster, 2)
    (8, 0.68)
    >>> worthwhile(strain, most_partitions=16, pause_s=300.0) is None
    True
    """
    threatened = strain.pressure is not None and strain.pressure >= THREATENED and strain.busy_share >= BUSY
    slots = strain.most_slots if threatened else strain.slots
    wanted = strain.partitions
    while wanted < slots:
        wanted *= 2
    wanted = min(wanted, most_partitions)
    if wanted <= strain.partitions:
        return None
    share = strain.work.state_share(strain.slots)
    # The gain of the other stages from more instances needs no restart, so it does not count.
    faster = share * (1 - min(strain.partitions, slots) / min(wanted, slots))
    saves_s = faster * strain.busy_share * PAYS_WITHIN_S
    if faster < LEAST_FASTER or saves_s < PAYS_TIMES * pause_s:
        return None
    return Growth(wanted, min(wanted, slots), faster, saves_s)


RETAINED_BATCHES = 40
NOTABLE = 1.25
"""A limit is changed when it is off by more than this factor."""
NOTABLE_WITH_RESTART = 2.0
"""The same, where a change takes a restart."""
CAP_REST_S = 5.0
"""How long the limit stays after it was changed, or after a start."""
BOUND_WITHOUT_ONE_S = 10.0
"""The latency bound for limits of batches if the objective has none."""
BUSY_OVER_S = 60.0
PENDING_FOR_S = 30.0
"""How long instances that are to come or go are waited for: a full cluster may never provide them."""
SETTLED_BATCHES = 3
"""Batches that must have ended since a start before the query is stopped again."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What may be changed."""

    objective: Objective
    slots_per_instance: int = 1
    caps: bool = True
    """Whether the limit on the records of a batch is chosen."""
    knows_cap: bool = False
    """Whether an earlier driver learned the first limit."""
    most_partitions: int | None = None
    """``None``: the number of state partitions stays."""
    rest_s: float = 300.0
    """How long no change is made after a change that took a restart."""
    held_for_s: float = 15.0
    """How long a query must have been limited by its state partitions."""

    @property
    def bound_s(self) -> float:
        slo = self.objective.slo
        return slo.bound_s if isinstance(slo, LatencySlo) else BOUND_WITHOUT_ONE_S


class Advisor:
    """Follows the observations of one operator on the loop's thread, and advises on the supervisor's.

    ``work`` returns the stages in which the newest batches did their work, for a number of state partitions.
    """

    def __init__(
        self,
        now: Callable[[], Instant],
        wishes: Wishes,
        pauses: Pauses,
        work: Callable[[int], StageWork | None],
        operator: str = "job",
    ) -> None:
        self._now = now
        self._wishes = wishes
        self._pauses = pauses
        self._work = work
        self._operator = operator
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque(maxlen=RETAINED_BATCHES)
        self._sample: Sample | None = None
        self._instances: Instances | None = None
        self._same_since_s = now()
        """Since when the number of instances that are to come, or to go, is the same."""
        self._has_new_sample = False
        self._seen_s = now()
        self._started_s = now()
        self._restarted_s: Instant | None = None
        self._cap_since_s = now()
        self._held_since_s: Instant | None = None
        self._cap_takes_restart = False
        self._knows_cap = wishes.knows_cap

    def watch(self, observation: Observation | None, decision: Decision | None) -> None:
        """Take in the observation of one tick."""
        if observation is None or (sample := observation.samples.get(self._operator)) is None:
            return
        with self._lock:
            self._batches.extend(sample.batches)
            self._sample, self._has_new_sample = sample, True
            instances = observation.instances[self._operator]
            if self._instances is None or instances.pending != self._instances.pending:
                self._same_since_s = observation.at_s
            self._instances = instances
            self._seen_s = observation.at_s

    def started(self, at_s: Instant) -> None:
        """The query was started: what was learned from its batches stays, but the first ones are cold."""
        with self._lock:
            self._started_s = self._cap_since_s = at_s
            self._held_since_s = None
            self._sample = None

    def cap_refused(self) -> None:
        """The limit of a running query cannot be changed here."""
        self._cap_takes_restart = True

    def partitions_refused(self) -> None:
        """State partitions stay as they are from now on: another try would cost another pause."""
        self._wishes = replace(self._wishes, most_partitions=None)

    def advise(self, plan: Plan) -> PlanChange | None:
        """Another plan, if one is wanted now."""
        with self._lock:
            sample, instances = self._sample, self._instances
            if sample is None or instances is None or not self._has_new_sample:
                return None
            self._has_new_sample = False  # It is called more often than samples arrive, and reading stages is costly.
            return self._more_partitions(plan, sample, instances) or self._other_cap(plan, sample, instances)

    # ------------------------------------------------------------------------------------------------ state partitions

    def _more_partitions(self, plan: Plan, sample: Sample, instances: Instances) -> PlanChange | None:
        growth = self._growth(plan, sample, instances)
        now = self._now()
        if growth is None:
            self._held_since_s = None
            return None
        if self._held_since_s is None:
            self._held_since_s = now
        if now - self._held_since_s < self._wishes.held_for_s:
            return None
        self._held_since_s, self._restarted_s = None, now
        reason = (
            f"{growth.partitions} state partitions instead of {plan.state_partitions}: with them {growth.slots} tasks "
            f"can keep state side by side, and batches are to take {growth.faster:.0%} less time, which saves "
            f"{format_duration(growth.saves_s)} in {format_duration(PAYS_WITHIN_S)}"
        )
        expected_s = self._pauses.expected_s(repartitions=True)
        return PlanChange(replace(plan, state_partitions=growth.partitions), reason, expected_s)

    def _growth(self, plan: Plan, sample: Sample, instances: Instances) -> Growth | None:
        wishes, partitions = self._wishes, plan.state_partitions
        if wishes.most_partitions is None or partitions is None or partitions >= wishes.most_partitions:
            return None
        if self._rests() or self._is_moving(instances) or self._settled_batches() < SETTLED_BATCHES:
            return None  # While the size changes, or just after a start, measurements are not typical.
        work = self._work(partitions)
        if work is None or work.state_task_s <= 0:
            return None  # It keeps no state.
        slots = wishes.slots_per_instance
        strain = Strain(
            partitions,
            slots=slots * max(1, instances.ready),
            most_slots=slots * wishes.objective.max_instances,
            work=work,
            busy_share=self._busy_share(),
            pressure=wishes.objective.slo.pressure(sample),
        )
        return worthwhile(strain, wishes.most_partitions, self._pauses.expected_s(repartitions=True))

    def _is_moving(self, instances: Instances) -> bool:
        return instances.pending != 0 and self._seen_s - self._same_since_s < PENDING_FOR_S

    def _rests(self) -> bool:
        return self._restarted_s is not None and self._now() - self._restarted_s < self._wishes.rest_s

    def _settled_batches(self) -> int:
        return sum(batch.started_s >= self._started_s and batch.records > 0 for batch in self._batches)

    def _busy_share(self) -> float:
        """Return the share of recent time, since the start at most, in which batches ran."""
        since_s = max(self._started_s, self._seen_s - BUSY_OVER_S)
        ran_s = sum(max(0.0, batch.ended_s - max(batch.started_s, since_s)) for batch in self._batches)
        running_s = 0.0 if self._sample is None else self._sample.running_s or 0.0
        return min(1.0, (ran_s + running_s) / max(1e-9, self._seen_s - since_s))

    # ------------------------------------------------------------------------------------------- the limit of a batch

    def _other_cap(self, plan: Plan, sample: Sample, instances: Instances) -> PlanChange | None:
        now, before = self._now(), plan.max_records_per_batch
        restarts = self._cap_takes_restart
        rests = self._rests() if restarts else now - self._cap_since_s < CAP_REST_S
        if not self._wishes.caps or rests or instances.ready < 1:
            return None
        useful = sample.useful_instances
        times = learn_times(self._batches, useful)
        if times is None:
            return None if restarts or self._knows_cap else self._cautious(plan)
        sharing = min(instances.ready, useful or instances.ready)
        cap = cap_for(times, sharing, self._wishes.bound_s)
        notable = NOTABLE_WITH_RESTART if restarts else NOTABLE
        if before is not None and 1 / notable < cap / before < notable:
            return None
        self._cap_since_s, self._knows_cap = now, True
        if restarts:
            self._restarted_s = now
        was = "without a limit" if before is None else f"instead of {before}"
        reason = (
            f"at most {cap} records a batch, {was}: on {instances_in_words(sharing)} they take about "
            f"{times.seconds(cap, sharing):.1f} s, {times.overhead_s:.1f} s of which any batch takes; a record waits "
            f"for one batch and goes through another, within {self._wishes.bound_s:g} s if that can be"
        )
        expected_s = self._pauses.expected_s(repartitions=False) if restarts else 0.0
        return PlanChange(replace(plan, max_records_per_batch=cap), reason, expected_s)

    def _cautious(self, plan: Plan) -> PlanChange | None:
        """Return a lower limit if a batch took too long while too little is known, which costs little."""
        usable = [batch for batch in self._batches if batch.records > 0 and batch.ended_s > self._cap_since_s]
        if not usable:
            return None
        batch, before = usable[-1], plan.max_records_per_batch
        cap = cautious_cap(batch, self._wishes.bound_s)
        if cap * NOTABLE > (batch.records if before is None else before):
            return None
        # A batch that is slow because of a restart says nothing about its records.
        self._cap_since_s, self._knows_cap = self._now(), True
        reason = (
            f"at most {cap} records a batch, for now: the last one had {batch.records:.0f}, and took "
            f"{format_duration(batch.processing_time_s)}"
        )
        return PlanChange(replace(plan, max_records_per_batch=cap), reason)
