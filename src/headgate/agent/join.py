"""Join a Spark job to the service that decides its size."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from headgate.agent.agent import Agent
from headgate.agent.fallback import AFTER_S, Fallback
from headgate.agent.http import HttpController
from headgate.agent.running import RunningAgent
from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.topology import Topology
from headgate.core.types import Observation
from headgate.core.units import parse_duration_s
from headgate.policies.frame.base import PolicyMaker
from headgate.runtime.assembly import LoopSpec, goal_of

if TYPE_CHECKING:
    from headgate.engines.spark import SparkSession


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
    controller = HttpController(service, token, job or application_name(spark), certificate=certificate)
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
