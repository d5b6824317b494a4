"""ds2: size every operator at once from how fast its instances really are (Kalavri et al., OSDI 2018).

Source: "Three steps is all you need: fast, accurate, automatic scaling decisions for distributed streaming dataflows",
and the scaling manager that its authors published (strymon-system/ds2). There the interval and the warm-up have to be
set, and have defaults here only; the other defaults are its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median_high
from typing import Annotated

from pydantic import Field

from headgate.core.types import JSON, Instances, Instant, Number, Proposal, Target
from headgate.core.units import format_duration, plain
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.frame.base import Context, PolicyBase, hold, register
from headgate.policies.frame.readings import Flow, carried_on, flow_over
from headgate.policies.frame.recommendations import Recommendations
from headgate.policies.frame.settings import PositiveSeconds, Seconds, Settings

STALE_AFTER_S = 300.0
"""A newest reading older than this counts as none."""


class Ds2Settings(Settings):
    policy_interval_s: PositiveSeconds = 10.0
    """How often it decides, by what was measured since (``policy_interval``); at least two trigger intervals of a job
    with batches count."""
    warm_up_s: Seconds = 20.0
    """How long nothing is decided after the start and after a change of size (``warm_up_time``)."""
    activation_s: Seconds = 0.0
    """The median of the sizes found within this time is taken; 0 takes the newest (``activation_time`` of 1)."""
    target_rate_ratio: Annotated[float, Field(ge=1)] | None = None
    """Sizes that should be enough are enlarged when more arrives at sources than they get done, by more than this
    factor; without it, never."""
    scaling_factor: Annotated[float, Field(ge=0)] = 0.0
    """Share of instances beyond those that are just enough."""
    scale_in_window_s: Seconds = 0.0
    """Shrink to the largest size that was found within this time; 0, as in the source, to the newest."""


@dataclass(slots=True)
class _FoundSizes:
    """The sizes found for one operator lately."""

    lately: Recommendations = field(default_factory=Recommendations)
    active: list[tuple[Instant, int]] = field(default_factory=list)

    def activated(self, now: Instant, activation_s: float, needed: int) -> int:
        """The median of the sizes found within the activation time, the newest one included."""
        self.active = [(at_s, size) for at_s, size in self.active if now - activation_s < at_s < now] + [(now, needed)]
        return median_high([size for _, size in self.active])


@register
class Ds2(PolicyBase[Ds2Settings]):
    """Goes to the size at which every operator just keeps up with the sources, in one step.

    - The *true* rate of an operator is what its instances get through while they are busy.
    - In one pass from the sources, the input rate of an operator is the output rate of its upstream operators if they
      keep up: their own input rate times the records they emit per record.
    - Each operator needs its rate over the true rate of one instance.
    - Operators are resized together, and only if one of them grows or loses more than one instance.

    Backlogs play no part: with ``scaling_factor`` 0 a job keeps up, and what waits goes on waiting.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> readings = [
    ...     Sample("job", at_s, input_rate_per_s=410, processed_rate_per_s=176, backlog=900)
    ...     for at_s in (0, 10, 20)
    ... ]
    >>> target = last_target("ds2", "latency < 10s", 2, *readings)
    >>> target.instances, target.reason
    (5, '410 records/s over 88/s of an instance that is busy need 5')
    """

    name = "ds2"
    summary = "Sizes all operators at once by what a busy instance gets through."
    Settings = Ds2Settings

    def __init__(self, settings: Ds2Settings, context: Context) -> None:
        super().__init__(settings, context)
        self.lookback_s = max(DEFAULT_RETENTION_S, 2 * settings.policy_interval_s, 2 * settings.warm_up_s)
        self._decided_s: Instant | None = None
        self._found: dict[str, _FoundSizes] = {}

    def decide(self, now: Instant, window: Window) -> Proposal:
        known = {name: instances for name in window.operators if (instances := window.instances(name)) is not None}
        # State that was saved on another clock may lie ahead of this one.
        decided_s = self._decided_s = now if self._decided_s is None else min(self._decided_s, now)
        next_s = decided_s + self.settings.policy_interval_s
        if now < next_s:
            every, left = format_duration(self.settings.policy_interval_s), format_duration(next_s - now)
            reason = f"decides every {every}, next in {left}"
            return Proposal({name: hold(instances, "between-decisions", reason) for name, instances in known.items()})
        self._decided_s = now
        flows = {name: self._flow(now, window, name, instances) for name, instances in known.items()}
        offered = {name: flows[name].arrived_per_s for name in window.topology.sources if name in flows}
        rates = carried_on(window.topology, flows, offered)
        ratio = self._shortfall(flows, offered)
        targets = {}
        for name, instances in known.items():
            waiting = self._warming_up(now, window, name, instances)
            targets[name] = waiting or self._size(now, name, instances, flows[name], rates[name], ratio)
        return Proposal({name: self._if_significant(window, name, known, targets) for name in targets})

    @staticmethod
    def _if_significant(
        window: Window, operator: str, known: Mapping[str, Instances], targets: Mapping[str, Target]
    ) -> Target:
        """Return the target, or a hold where no operator that is resized with it grows or loses more than one."""
        target, planned = targets[operator], known[operator].planned
        group = [name for name in window.topology.rescaled_with(operator) if name in targets]
        changes = [targets[name].instances - known[name].planned for name in group]
        if target.instances == planned or any(change > 0 or change < -1 for change in changes):
            return target
        return hold(
            known[operator],
            "insignificant",
            f"{target.reason}; fewer by one alone is no reason to rescale",
            target.numbers,
        )

    def _flow(self, now: Instant, window: Window, operator: str, instances: Instances) -> Flow:
        newest = window.sample(operator)
        if newest is None or newest.input_rate_per_s is None or now - newest.at_s > STALE_AFTER_S:
            return Flow()
        span_s = max(self.settings.policy_interval_s, 2 * (newest.trigger_interval_s or 0.0))
        settled_s = window.settled_since_s(operator)
        since_s = now - span_s if settled_s is None else max(now - span_s, settled_s)
        return flow_over(window, operator, instances, since_s)

    def _shortfall(self, flows: Mapping[str, Flow], offered: Mapping[str, float | None]) -> float:
        """By what factor sources get less done than arrives, if that is more than is put up with; else 1."""
        allowed = self.settings.target_rate_ratio
        if allowed is None:
            return 1.0
        done = {name: flows[name].done_per_s for name in offered}
        ratios = [rate / done_per_s for name, rate in offered.items() if rate and (done_per_s := done[name])]
        worst = max(ratios, default=1.0)
        return worst if worst > allowed else 1.0

    def _warming_up(self, now: Instant, window: Window, operator: str, instances: Instances) -> Target | None:
        settled_s = max(
            (at_s for name in window.topology.rescaled_with(operator) if (at_s := window.settled_since_s(name))),
            default=None,
        )
        since_s = window.observations[0].at_s if settled_s is None else settled_s
        if now - since_s >= self.settings.warm_up_s:
            return None
        what = "it has just started" if settled_s is None else "the size has just changed"
        left = format_duration(since_s + self.settings.warm_up_s - now)
        return hold(instances, "warming-up", f"{what}: deciding in {left}")

    def _size(
        self, now: Instant, operator: str, instances: Instances, flow: Flow, rate: float | None, shortfall: float
    ) -> Target:
        true = flow.true_per_s
        numbers: dict[str, Number] = {"rate_per_s": rate, "true_rate_per_s": true}
        if rate is None or flow.arrived_per_s is None:
            reason = "what arrives, here or at an operator before, is not known: holding"
            return hold(instances, "no-data", reason, numbers)
        if true is None and rate > 0:
            reason = "no instance was seen busy since the last decision, so its true rate is not known: holding"
            return hold(instances, "no-data", reason, numbers)
        exact = rate / true if true else 0.0
        needed = max(1, math.ceil(round(exact * (1 + self.settings.scaling_factor), 9)))
        reason = (
            f"{plain(rate)} records/s over {plain(true)}/s of an instance that is busy need {needed}" if true else ""
        )
        if needed <= instances.planned and shortfall > 1:
            needed = math.ceil(round(needed * shortfall, 9))
            reason = f"{reason}; sources get {plain(1 / shortfall)} of what arrives done, so {needed}"
        reason = reason or "nothing arrives"
        found = self._found.setdefault(operator, _FoundSizes())
        taken = found.activated(now, self.settings.activation_s, needed)
        within_s = self.settings.scale_in_window_s
        largest = min(instances.planned, found.lately.largest(now, within_s, taken, instances.planned))
        numbers |= {"needed": needed, "taken": taken}
        if taken > instances.planned:
            return Target(taken, "falls-behind", reason, numbers)
        if taken == instances.planned:
            return hold(instances, "keeps-up", reason, numbers)
        if largest > taken:
            reason = f"{reason}; {largest} were needed within the last {format_duration(within_s)}"
        if largest == instances.planned:
            return hold(instances, "needed-lately", reason, numbers)
        return Target(largest, "fewer-keep-up", reason, numbers)

    def _state(self) -> dict[str, JSON]:
        return {
            "decided_s": self._decided_s,
            "found": {
                name: [found.lately.to_json(), [list(entry) for entry in found.active]]
                for name, found in self._found.items()
            },
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        found = {
            str(name): _FoundSizes(
                Recommendations.from_json(lately), [(float(at_s), int(size)) for at_s, size in active]
            )
            for name, (lately, active) in state["found"].items()
        }
        self._decided_s = None if state["decided_s"] is None else float(state["decided_s"])
        self._found = found
