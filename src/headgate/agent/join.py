"""Join a Spark job to the service that decides its size."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from headgate.agent.agent import Agent, HttpController, LastAgents
from headgate.agent.fallback import AFTER_S, Fallback
from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.topology import Topology
from headgate.core.types import Observation
from headgate.core.units import parse_duration_s
from headgate.policies.frame.base import PolicyMaker
from headgate.runtime.assembly import LoopSpec, goal_of

if TYPE_CHECKING:
    from headgate.engines.spark import SparkSession


import logging
import threading
import time
from typing import Generic, Protocol, TypeVar

from headgate.core.contracts import Engine
from headgate.core.errors import EngineGoneError, HeadgateError, SupersededError, TokenRefusedError
from headgate.core.types import Event

FIRST_AGAIN_AFTER_S = 60.0
LAST_AGAIN_AFTER_S = 3600.0


class Failures:
    """What goes wrong in a row is worth a word when it begins or changes, and after that less and less often.

    >>> failures = Failures()
    >>> [failures.is_worth_a_word("no such job.", now_s) for now_s in (0.0, 1.0, 60.0, 119.0, 180.0)]
    [True, False, True, False, True]
    >>> failures.is_worth_a_word("no such operator.", 181.0), failures.ended(), failures.ended()
    (True, True, False)
    """

    def __init__(self) -> None:
        self._text = ""
        self._wait_s = FIRST_AGAIN_AFTER_S
        self._again_s = 0.0

    def is_worth_a_word(self, text: str, now_s: float) -> bool:
        is_other = text != self._text
        if not is_other and now_s < self._again_s:
            return False
        self._wait_s = FIRST_AGAIN_AFTER_S if is_other else min(LAST_AGAIN_AFTER_S, 2 * self._wait_s)
        self._text, self._again_s = text, now_s + self._wait_s
        return True

    def ended(self) -> bool:
        """Go on from a success; whether something had gone wrong before it."""
        had_failed, self._text = bool(self._text), ""
        return had_failed


logger = logging.getLogger("headgate")


class Reporting(Protocol):
    """An agent, or those of several operators of one engine."""

    @property
    def has_joined(self) -> bool:
        """Whether a report of it was ever taken."""
        ...

    @property
    def wait_s(self) -> float:
        """How long until it reports again."""
        ...

    def note(self, event: Event) -> None:
        """Report an event of the job; callable from any thread."""
        ...

    def tick(self) -> Observation: ...

    def leave(self) -> None: ...


AgentT_co = TypeVar("AgentT_co", bound=Reporting, covariant=True)


class RunningAgent(Generic[AgentT_co]):
    """An agent on a thread of its own, until it is stopped, superseded, never let in, or its engine is gone.

    ``watcher`` is shown every observation that it makes. ``now`` are seconds of any clock. ``closes`` is called when it
    was stopped.
    """

    def __init__(
        self,
        agent: AgentT_co,
        engine: Engine,
        watcher: Callable[[Observation], None] | None = None,
        now: Callable[[], float] = time.monotonic,
        closes: Callable[[], None] = lambda: None,
    ) -> None:
        self.agent = agent
        self.refused: TokenRefusedError | None = None
        """Why it was never let in."""
        self._engine = engine
        self._watcher = watcher
        self._now = now
        self._failures = Failures()
        self._closes = closes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-agent", daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> RunningAgent[AgentT_co]:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop reporting; the job keeps its size. Twice is fine."""
        is_first, is_at_work = not self._stop.is_set(), self._thread.is_alive()
        self._stop.set()
        if is_at_work and threading.current_thread() is not self._thread:
            self._thread.join()
        if is_first and is_at_work:
            self.agent.leave()
        self._engine.close()
        self._closes()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                observation = self.agent.tick()
                if self._watcher is not None:
                    self._watcher(observation)
            except (EngineGoneError, SupersededError) as error:
                logger.warning("the agent ends: %s", error)
                return
            except HeadgateError as error:
                if isinstance(error, TokenRefusedError) and not self.agent.has_joined:
                    self.refused = error
                    logger.warning("the agent ends: %s", error)
                    return
                # Logged and tried again: one failed reading must not cost the job its agent.
                if self._failures.is_worth_a_word(str(error), self._now()):
                    logger.warning("the agent cannot report, and goes on trying: %s", error)
            else:
                if self._failures.ended():
                    logger.warning("the agent reports again")
            self._stop.wait(self.agent.wait_s)


def join(  # noqa: PLR0913 - one keyword per thing that a user may say
    spark: SparkSession,
    *,
    service: str | Sequence[str],
    operator: str,
    token: str,
    job: str | None = None,
    certificate: str | None = None,
    fallback: str | PolicyMaker | LoopSpec | None = None,
    objective: str | Objective | None = None,
    executors: tuple[int, int] | None = None,
    fallback_after: str | float = AFTER_S,
    drain_timeout_s: float = 30.0,
    late_after_s: float | None = None,
    watcher: Callable[[Observation], None] | None = None,
) -> RunningAgent[Agent]:
    """Let the service at ``service`` decide how many executors this application has, as an operator of its graph.

    - ``service``: its address; of several that share a database all are given, and the one that leads is found
    - ``token``: the proof that it may report, made by ``headgate token``
    - ``job``: the name by which the service knows the job; the application's name where not given
    - ``certificate``: a file with the certificate of the service to trust, where it is not one that everybody does
    - ``fallback``: a policy that decides, by ``objective`` and within ``executors``, when nobody has answered for
      ``fallback_after``; without one the application keeps its size while the service is away. A ``LoopSpec`` of
      ``headgate.runtime.assembly`` says everything that ``autoscale`` can say, its objective and bounds included
    - ``late_after_s``: records whose result comes later than this are counted
    - ``watcher``: is shown every observation on its way

    ``stop()`` lets go of the application, which keeps its size.
    """
    from headgate.engines.spark import SPARK_METRICS, SparkEngine, application_name

    # Everything that can be wrong with the arguments is found before the session is touched.
    spec = None if fallback is None else fallback_spec(fallback, objective, executors, SPARK_METRICS)
    after_s = parse_duration_s(fallback_after)
    job = job or application_name(spark)
    controller = HttpController(service, token, job, certificate=certificate, last_agents=LastAgents(job))
    engine = SparkEngine(spark, take_over=True, drain_timeout_s=drain_timeout_s, late_after_s=late_after_s)
    own = None if spec is None else Fallback(spec, engine, after_s=after_s)

    def close() -> None:
        controller.close()
        if own is not None:
            own.close()

    return RunningAgent(Agent(engine, operator, controller, own), engine, watcher, closes=close).start()


def fallback_spec(
    fallback: str | PolicyMaker | LoopSpec,
    objective: str | Objective | None,
    executors: tuple[int, int] | None,
    offered: Collection[str] | None = None,
) -> LoopSpec:
    """The loop of an agent's own; ``InputError`` if it cannot be made."""
    if isinstance(fallback, LoopSpec):
        spec = fallback
    elif objective is None:
        raise InputError(f"fallback {fallback!r} needs an objective to decide by, such as 'latency p95 < 10s'.")
    else:
        spec = LoopSpec(objective=goal_of(objective, executors, None), policy=fallback)
    spec.parts(Topology.single(), offered)
    return spec
