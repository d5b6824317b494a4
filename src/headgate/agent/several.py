"""Agents for all operators of one engine, such as the vertices of a Flink job: looked at once, and rescaled together.

A service knows operators one by one. Each has its agent here; what they are told is collected over a round and given to
the engine as one decision, for an engine that starts the job again at every change must not do so once per operator.
"""

from __future__ import annotations

from collections.abc import Collection

from headgate.agent.agent import Agent, Controller
from headgate.core.contracts import Engine, ReportsEvents, Subscribable
from headgate.core.errors import EngineError, EngineGoneError
from headgate.core.topology import Topology
from headgate.core.types import Answer, Decision, Event, Observation, Outcome, Receipt, Verdict


class SeveralAgents:
    """Reports for every operator of an engine, under its own name."""

    def __init__(self, engine: Engine, controller: Controller) -> None:
        self._engine = engine
        self._seen = engine.observe()
        self._subscribed: dict[str, frozenset[str]] = {}
        self._wanted: dict[str, int] = {}
        self._answers: dict[str, tuple[int, Answer]] = {}
        """What became of which size."""
        self._agents = [Agent(_OneOperator(self, name), name, controller) for name in engine.topology().operators]

    @property
    def has_joined(self) -> bool:
        return any(agent.has_joined for agent in self._agents)

    @property
    def wait_s(self) -> float:
        return max(agent.wait_s for agent in self._agents)

    def note(self, event: Event) -> None:
        """Have something told that happened to the job; once, whichever operator it is of."""
        self._agents[0].note(event)

    def tick(self) -> Observation:
        """Look once, report for all, and bring all to what the answers say."""
        self._seen = self._engine.observe()
        if isinstance(self._engine, ReportsEvents):
            for event in self._engine.take_events():
                self.note(event)
        self._wanted = {}
        for agent in self._agents:
            agent.tick()
        self._carry_out()
        return self._seen

    def leave(self) -> None:
        """Tell that these agents end; the job keeps its sizes."""
        for agent in self._agents:
            agent.leave()

    def _carry_out(self) -> None:
        if not self._wanted:
            return
        verdicts = {
            name: Verdict(name, size, size, size, "told", "the controller wants it")
            for name, size in self._wanted.items()
        }
        try:
            receipt = self._engine.apply(Decision(self._seen.at_s, "agent", verdicts))
        except EngineGoneError:
            raise
        except EngineError as error:
            answers = {name: Answer(Outcome.FAILED, size, str(error)) for name, size in self._wanted.items()}
        else:
            # What is refused is refused as a whole: then the others did not get theirs either.
            otherwise = Answer(Outcome.REFUSED, 0, receipt.detail)
            answers = {name: receipt.answers.get(name, otherwise) for name in self._wanted}
        self._answers = {name: (self._wanted[name], answer) for name, answer in answers.items()}

    # ----------------------------------------------------------------------------------------------- for one operator

    def seen_of(self, operator: str) -> Observation:
        seen = self._seen
        return Observation(
            seen.at_s,
            {name: one for name, one in seen.samples.items() if name == operator},
            {operator: seen.instances[operator]},
            {name: one for name, one in seen.startups.items() if name == operator},
        )

    def want(self, operator: str, size: int) -> Answer:
        """Have a size with the next change; gives what became of the one before, if that was the same."""
        self._wanted[operator] = size
        asked, answer = self._answers.get(operator, (None, Answer(Outcome.ACCEPTED, size)))
        return answer if asked == size else Answer(Outcome.ACCEPTED, size)

    @property
    def further_metrics(self) -> Collection[str]:
        return self._engine.further_metrics if isinstance(self._engine, Subscribable) else ()

    def subscribe(self, operator: str, keys: Collection[str]) -> None:
        """Collect what the service asks of any of them."""
        self._subscribed[operator] = frozenset(keys)
        if isinstance(self._engine, Subscribable):
            self._engine.subscribe(frozenset[str]().union(*self._subscribed.values()))


class _OneOperator:
    """One of them as an engine of its own, for its agent."""

    def __init__(self, all_: SeveralAgents, operator: str) -> None:
        self._all = all_
        self._operator = operator

    def topology(self) -> Topology:
        return Topology.single(self._operator)

    def observe(self) -> Observation:
        return self._all.seen_of(self._operator)

    def apply(self, decision: Decision) -> Receipt:
        return Receipt(decision.at_s, {name: self._all.want(name, size) for name, size in decision.targets.items()})

    def close(self) -> None:
        """The engine is everybody's."""

    @property
    def further_metrics(self) -> Collection[str]:
        return self._all.further_metrics

    def subscribe(self, keys: Collection[str]) -> None:
        self._all.subscribe(self._operator, keys)
