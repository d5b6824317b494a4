"""russo's agents as processes: each knows its own operator, and at most one number of each other agent per slot.

An agent receives the level of its operator's rate and its size. To act together, agents send one another what their
best move would save; each adds up the same numbers, so that all come to the same answer without anybody in the middle.
"""

from __future__ import annotations

import json
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from headgate.core.errors import EngineError
from headgate.core.topology import Topology
from headgate.core.types import JSON
from headgate.policies.planning.agents import AgentsPlanner
from headgate.policies.planning.model import ApplicationModel, Levels, RateGrid, Sizes, SlotOutcome, Weights

_NUMBER = struct.Struct("<d")
ANSWER_WITHIN_S = 60.0
"""An agent that does not answer for so long is taken for dead."""


@dataclass(frozen=True)
class AgentPlan:
    """What one agent knows of the application from the start."""

    service_rate_per_s: float
    share: float
    bound_s: float
    sizes: tuple[int, int]
    """The fewest and the most instances."""
    weights: Weights
    grid: RateGrid
    target: float
    together: bool
    agents: int
    """How many there are."""

    def planner(self) -> AgentsPlanner:
        """Return the planner of its own operator alone."""
        fewest, most = self.sizes
        own = ApplicationModel(
            Topology.single(),
            (self.service_rate_per_s,),
            self.bound_s,
            most,
            fewest,
            (self.share,),
            self.weights,
        )
        return AgentsPlanner(own, (self.grid,), targets=(self.target,), together=self.together, agents=self.agents)


class SeparateAgents:
    """A planner whose agents are processes; they end with the block."""

    def __init__(self, application: ApplicationModel, grid: RateGrid, *, target: float, together: bool) -> None:
        self.inputs = len(application.operators)
        self.exchanged = 0
        """Numbers that agents sent one another."""
        self._together = together
        sizes = application.min_instances, application.max_instances
        self._plans = [
            AgentPlan(
                speed, share, application.bound_s, sizes, application.weights, grid, target, together, self.inputs
            )
            for speed, share in zip(application.service_rates_per_s, application.shares, strict=True)
        ]

    def __enter__(self) -> Self:
        context = get_context("spawn")
        count = self.inputs
        pairs = {(a, b): context.Pipe() for a in range(count) for b in range(a + 1, count)}
        own = [context.Pipe() for _ in range(count)]
        self._pipes = [ours for ours, _ in own]
        self._processes = []
        for index, plan in enumerate(self._plans):
            others = [pairs[a, b][index == b] for a, b in pairs if index in (a, b)]
            process = context.Process(target=run_agent, args=(plan, own[index][1], others), daemon=True)
            process.start()
            self._processes.append(process)
        for pipe in (*(theirs for _, theirs in own), *(end for pair in pairs.values() for end in pair)):
            pipe.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(ANSWER_WITHIN_S if error is None else 0)
            if process.is_alive():
                process.terminate()
                process.join()

    def choose(self, levels: Levels, sizes: Sizes) -> Sizes:
        for pipe, level, size in zip(self._pipes, levels, sizes, strict=True):
            _send(pipe, ["choose", level, size])
        self.exchanged += self.inputs * (self.inputs - 1) if self._together else 0
        return tuple(int(_received(pipe)) for pipe in self._pipes)

    def learn(self, levels: Levels, sizes: Sizes, next_levels: Levels, outcome: SlotOutcome) -> None:
        for pipe, level, size, after in zip(self._pipes, levels, sizes, next_levels, strict=True):
            _send(pipe, ["learn", level, size, after])

    def visits(self, levels: Levels) -> int:
        """Return 0: what agents have learned stays with them."""
        return 0

    def to_json(self) -> dict[str, JSON]:
        return {}

    def load(self, state: Mapping[str, JSON]) -> None:
        """Do nothing: what agents have learned stays with them."""


def run_agent(plan: AgentPlan, pipe: Connection, others: Sequence[Connection]) -> None:
    """Plan for one operator until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A terminal sends Ctrl-C to all; the parent ends the agents.
    planner = plan.planner()
    while True:
        try:
            kind, level, size, *after = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        if kind == "learn":
            planner.learn((level,), (size,), (after[0],), SlotOutcome())
            continue
        saved = 0.0
        if plan.together:
            own = _NUMBER.pack(planner.saving((level,), (size,)))
            for other in others:
                other.send_bytes(own)
            saved = sum(_NUMBER.unpack(other.recv_bytes())[0] for other in others)
        _send(pipe, planner.choose((level,), (size,), saved)[0])


def _send(pipe: Connection, message: JSON) -> None:
    pipe.send_bytes(json.dumps(message).encode())


def _received(pipe: Connection) -> JSON:
    try:
        if pipe.poll(ANSWER_WITHIN_S):
            return json.loads(pipe.recv_bytes())
    except (EOFError, OSError) as error:
        raise EngineError("an agent has ended.") from error
    raise EngineError(f"an agent has not answered for {ANSWER_WITHIN_S:g} s.")
