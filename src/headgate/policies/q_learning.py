"""q-learning: learn by trial which action is best in which state of the job (azimi §4.1.1 and §4.2, Alg. 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from headgate.core.errors import InputError, StateError
from headgate.core.guards import StrategyKind
from headgate.core.objective import LatencySlo
from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import format_duration, plain
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.frame.base import Context, GuardSettings, OperatorPolicy, StateTable, hold, register
from headgate.policies.frame.settings import NameOf, PositiveSeconds, Settings, Share
from headgate.policies.q_values.agent import (
    EXPLORATIONS,
    REWARDS,
    ActionResult,
    Choice,
    Experience,
    Exploration,
    QAgent,
    Reward,
    region_table,
)
from headgate.policies.q_values.table import (
    INITIALISERS,
    Action,
    Grid,
    Initialiser,
    QState,
    QTable,
    Region,
    best_action,
    feasible_actions,
)

Positive = Annotated[float, Field(gt=0)]
Factor = Annotated[float, Field(gt=0, le=1)]


class Update(StrEnum):
    """Whose value of the next state is learned from."""

    SARSA = "sarsa"
    Q = "q"


class QLearningSettings(Settings):
    target_latency_s: PositiveSeconds | None = None
    """The latency that is acceptable; without it, the bound of the objective."""
    max_latency_s: PositiveSeconds | None = None
    """Longer latencies are all the same state; without it, twice the target."""
    latency_granularity_s: PositiveSeconds | None = None
    """The width of a bucket of latencies; without it, a third of the target."""
    incoming_message_granularity: Positive = 1.0
    """Loads that differ by less than this many records per second count as equal; the load then goes on rising or
    falling, as it did before."""
    window_size_s: PositiveSeconds = 120.0
    """The history whose mean latency and mean load make a state."""
    decision_interval_s: PositiveSeconds = 60.0
    """Time between two decisions of the agent."""
    learning_factor: Factor = 0.7
    """α: how much a new experience counts against what is known."""
    discount_factor: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """γ: how much the reward to come counts against the one at hand."""
    initialization_mode: Annotated[str, NameOf(INITIALISERS)] = Initialiser.OPTIMIZED
    """What the table holds at first."""
    update: Update = Update.SARSA
    """``sarsa`` learns from the value of the action that is chosen next, as the document does; ``q`` from the best."""
    policy: Annotated[str, NameOf(EXPLORATIONS)] = Exploration.GREEDY
    """``greedy`` takes the best action; the others a random one with probability epsilon."""
    epsilon: Share = 0.2
    """The probability of a random action; not used by ``greedy``."""
    epsilon_step: Share = 0.01
    """What ``decreasing-one-minus-epsilon`` takes off epsilon at each decision."""
    reward: Annotated[str, NameOf(REWARDS)] = Reward.PREFER_SCALE_IN
    """Which rules an action is judged by."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        longest_s, granule_s = self.max_latency_s, self.latency_granularity_s
        if longest_s is not None and granule_s is not None and longest_s < granule_s:
            raise ValueError(f"max_latency_s {longest_s:g} must be at least latency_granularity_s {granule_s:g}")
        return self


POSTPONED_S = 30.0
"""How long a decision waits for a reading that is not doubted."""
MOST_BUCKETS = 10_000
"""More states are never all visited, and their table does not fit into memory."""


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The state that an agent is in, and the means that make it."""

    state: QState
    region: Region
    latency_s: float
    rate_per_s: float | None
    instances: int
    """Planned."""


@register
class QLearning(OperatorPolicy[QLearningSettings]):
    """Once per decision interval, judges what it did, learns from it and takes the best action of its table.

    A state is the bucket of the mean latency over the history window, and whether the load rises against the window
    before. Latency is the document's: scheduling delay plus processing time, without the wait for the trigger. The
    action that is learned from is the one that was carried out: a scale-out that a guard stopped was none.
    After a reading that is suspect or was refused in part it waits for the next; if that lasts, it decides without a
    trial, and nothing is learned.
    How many instances an action adds or removes is the strategy's business (``--guard strategy=…``), as are the
    bounds: ``minExecutors``, ``maxExecutors`` and ``seed`` of the document's Table 4.4 are the objective's and the
    run's, ``executorGranularity`` and ``executorStrategy`` are ``granularity`` and ``strategy`` of the guards.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> readings = [Sample("job", at_s, latency_s=27, input_rate_per_s=100) for at_s in (0, 30, 60)]
    >>> target = last_target("q-learning", "latency < 30s", 4, *readings)
    >>> target.instances, target.reason
    (5, 'latency 27 s and a rising load (region 1): scale out is worth 0.833, no action 0.167, scale in 0')
    """

    name = "q-learning"
    summary = "Learns by trial what to do at which latency, while the load rises or falls."
    Settings = QLearningSettings
    # The decision interval is the wait for what a change of size brings.
    guards = GuardSettings(strategy=StrategyKind.QUEUE_AWARE, pending_timeout_s=0, recovery_timeout_s=0)

    def __init__(self, settings: QLearningSettings, context: Context) -> None:
        super().__init__(settings, context)
        self.grid = self._grid()
        self.lookback_s = max(DEFAULT_RETENTION_S, 2 * settings.window_size_s + settings.decision_interval_s)
        self._agents: dict[str, QAgent] = {}

    def _grid(self) -> Grid:
        target_s = self.settings.target_latency_s
        if not target_s:
            if not isinstance(self.objective.slo, LatencySlo):
                raise InputError(
                    f"{self.name} needs a latency to aim for and the objective is {str(self.objective)!r}; "
                    "set target_latency_s, or an objective such as 'latency p95 < 10s'."
                )
            target_s = self.objective.slo.bound_s
        grid = Grid(
            target_s, self.settings.latency_granularity_s or target_s / 3, self.settings.max_latency_s or 2 * target_s
        )
        if grid.buckets > MOST_BUCKETS:
            raise InputError(
                f"max_latency_s {grid.max_s:g} in steps of {grid.granularity_s:g} s makes {grid.buckets:,} states; "
                f"at most {MOST_BUCKETS:,} are allowed: set latency_granularity_s."
            )
        return grid

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        agent = self._agent(operator)
        # State that was saved on another clock may lie ahead of this one.
        agent.checked_s = now if agent.checked_s is None else min(agent.checked_s, now)
        next_s = agent.checked_s + self.settings.decision_interval_s
        if now < next_s:
            every = format_duration(self.settings.decision_interval_s)
            reason = f"decides every {every}, next in {format_duration(next_s - now)}"
            return hold(instances, "between-decisions", reason)
        doubted_s = window.doubted_s(operator)
        is_doubted = window.is_doubted(operator)
        if is_doubted and now - next_s < POSTPONED_S:
            return hold(
                instances, "doubted", "the newest reading is suspect or was refused in part: waiting for the next"
            )
        seen = self._see(now, window, operator, instances, sample)
        if seen is None:
            agent.last = None
            return hold(instances, "no-data", "the latency of the job is not known: holding")
        # A decision that a doubt postponed does not postpone those that follow.
        is_postponed = doubted_s is not None and doubted_s >= next_s
        agent.checked_s = now - (now - next_s) % self.settings.decision_interval_s if is_postponed else now
        if is_doubted:
            agent.last = None
        return self._act(now, window, operator, instances, agent, seen, is_doubted=is_doubted)

    def _agent(self, operator: str) -> QAgent:
        if operator not in self._agents:
            random = np.random.default_rng([self.seed, self.topology.operators.index(operator)])
            table = QTable(self.grid, self.settings.initialization_mode, random)
            self._agents[operator] = QAgent(table, random, self.settings.epsilon)
        return self._agents[operator]

    def _see(
        self, now: Instant, window: Window, operator: str, instances: Instances, newest: Sample
    ) -> ObservedState | None:
        width_s = self.settings.window_size_s
        readings = window.samples(operator, now - 2 * width_s)
        recent = [reading for reading in readings if reading.at_s >= now - width_s]
        latency_s = _mean(reading.total_latency_s for reading in recent)
        if latency_s is None or newest.total_latency_s is None:
            return None
        agent = self._agent(operator)
        rate_per_s = _mean(reading.input_rate_per_s for reading in recent)
        before_per_s = _mean(reading.input_rate_per_s for reading in readings if reading.at_s < now - width_s)
        if rate_per_s is not None and before_per_s is not None:
            grown_per_s = rate_per_s - before_per_s
            if abs(grown_per_s) >= self.settings.incoming_message_granularity:
                agent.rising = bool(grown_per_s > 0)
        region = Region.of(latency_s / self.grid.target_s, rising=agent.rising)
        state = agent.table.state(latency_s, rising=agent.rising)
        known_per_s = rate_per_s if newest.input_rate_per_s is not None else None
        return ObservedState(state, region, latency_s, known_per_s, instances.planned)

    def _act(
        self,
        now: Instant,
        window: Window,
        operator: str,
        instances: Instances,
        agent: QAgent,
        seen: ObservedState,
        *,
        is_doubted: bool,
    ) -> Target:
        last = self._last(now, agent)
        done = None if last is None else _carried_out(window, operator, last)
        barred = self._barred(window, operator, instances, seen)
        values = agent.table.values(seen.state)
        best_value = max(values[action] for action in Action if action not in barred)
        monotone = feasible_actions(done, None if last is None else last.latency_s, seen.latency_s)
        barred = {action: "by what the last action brought" for action in Action if action not in monotone} | barred
        feasible = tuple(action for action in Action if action not in barred)
        action, explored = best_action(values, feasible), False
        if not is_doubted:
            action, explored = self._choose(operator, values, feasible)
        numbers = self._numbers(operator, seen, values, action)
        if last is not None and done is not None:
            numbers |= {
                "last_action": str(done),
                "last_reward": self._learn(
                    operator, last, done, seen, chosen_value=values[action], best_value=best_value
                ),
            }
        agent.last = None if is_doubted else Experience(now, seen.state, seen.latency_s, action)
        reason = _reason(seen, values, action, barred, explored=explored)
        code = "exploring" if explored else ("scale-out", "no-action", "scale-in")[action]
        return Target(instances.planned + action.direction, code, reason, numbers)

    def _barred(self, window: Window, operator: str, instances: Instances, seen: ObservedState) -> dict[Action, str]:
        """Actions that are not to be had, and why.

        One that could change nothing would be credited as no action, so that its own value is never learned: an agent
        would stay at its largest size for ever, choosing to grow.
        """
        barred = {}
        lowest, highest = self.objective.bounds_of(operator, self.topology)
        sample = window.sample(operator)
        useful = None if sample is None else sample.useful_instances
        if instances.planned >= highest:
            barred[Action.OUT] = f"at the most of {highest} instances"
        elif useful is not None and instances.planned >= useful:
            barred[Action.OUT] = f"as no more than {useful} instances would find work"
        if instances.planned <= lowest:
            barred[Action.IN] = f"at the least of {lowest}"
        elif seen.rate_per_s is None:
            barred[Action.IN] = "as long as the load is not known"
        return barred

    def _last(self, now: Instant, agent: QAgent) -> Experience | None:
        """Return the last experience if its result can be observed now: not after a pause or on another clock."""
        last = agent.last
        if last is None or not 0 < now - last.at_s <= 2 * self.settings.decision_interval_s:
            return None
        return last

    def _choose(
        self, operator: str, values: tuple[float, float, float], feasible: tuple[Action, ...]
    ) -> tuple[Action, bool]:
        """The action, and whether it was drawn at random."""
        agent = self._agent(operator)
        choice = Choice(values, feasible, agent.epsilon, self.settings.epsilon_step, agent.random)
        tried, agent.epsilon = EXPLORATIONS[self._exploration(operator)](choice)
        return (best_action(values, feasible), False) if tried is None else (tried, True)

    def _exploration(self, operator: str) -> str:
        return self.settings.policy

    def _reward(self, last: Experience, done: Action, seen: ObservedState) -> float:
        return REWARDS[self.settings.reward](
            ActionResult(
                done,
                latency_share=seen.latency_s / self.grid.target_s,
                rising=seen.state.rising,
                latency_rose=seen.latency_s > last.latency_s,
                instances=seen.instances,
            )
        )

    def _learn(
        self,
        operator: str,
        last: Experience,
        done: Action,
        seen: ObservedState,
        *,
        chosen_value: float,
        best_value: float,
    ) -> float:
        """Take one experience into the table, with the values of what is done next and of the best; its reward."""
        settings = self.settings
        reward = self._reward(last, done, seen)
        self._agent(operator).table.learn(
            last.state,
            done,
            reward=reward,
            next_value=chosen_value if settings.update is Update.SARSA else best_value,
            learning_factor=settings.learning_factor,
            discount_factor=settings.discount_factor,
        )
        return reward

    def _numbers(
        self, operator: str, seen: ObservedState, values: tuple[float, float, float], action: Action
    ) -> dict[str, Number]:
        from_s, _ = self.grid.bounds_s(seen.state.bucket)
        return {
            "latency_s": seen.latency_s,
            "target_s": self.grid.target_s,
            "rate_per_s": seen.rate_per_s,
            "bucket_from_s": from_s,
            "load": "rising" if seen.state.rising else "falling",
            "region": seen.region.value,
            "q_out": values[Action.OUT],
            "q_none": values[Action.NONE],
            "q_in": values[Action.IN],
            "action": str(action),
            "epsilon": None if self._exploration(operator) == Exploration.GREEDY else self._agent(operator).epsilon,
        }

    def _state(self) -> dict[str, JSON]:
        return {"agents": {name: agent.to_json() for name, agent in self._agents.items()}}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        agents = {str(name): QAgent.from_json(saved) for name, saved in state["agents"].items()}
        for agent in agents.values():
            if agent.table.grid != self.grid:
                raise StateError(f"saved tables are for {agent.table.grid}; {self.grid} is needed.")
        self._agents = agents

    @classmethod
    def state_tables(cls, state: Mapping[str, JSON]) -> list[StateTable]:
        """The table of each operator, by region."""
        return [
            region_table(str(operator), QTable.from_json(saved["table"]), region)
            for operator, saved in state["agents"].items()
            for region in Region
        ]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _carried_out(window: Window, operator: str, last: Experience) -> Action:
    """What became of an action: guards may have stopped it, and somebody else may have changed the size."""
    changes = [
        decision.verdicts[operator].change
        for decision in takewhile(lambda decision: decision.at_s >= last.at_s, reversed(window.decisions))
        if operator in decision.verdicts
    ]
    return Action.of(sum(changes)) if changes else last.action


def _reason(
    seen: ObservedState,
    values: tuple[float, float, float],
    action: Action,
    barred: Mapping[Action, str],
    *,
    explored: bool,
) -> str:
    load = "rising" if seen.state.rising else "falling"
    reason = f"latency {plain(seen.latency_s)} s and a {load} load (region {seen.region.value})"
    others = ", ".join(f"{other} {plain(values[other])}" for other in Action if other is not action)
    worth = f"{action} is worth {plain(values[action])}, {others}"
    reason = f"{reason}: {action} by chance; {worth}" if explored else f"{reason}: {worth}"
    ruled_out = "; ".join(f"{other} ruled out {barred[other]}" for other in Action if other in barred)
    return f"{reason}; {ruled_out}" if ruled_out else reason
