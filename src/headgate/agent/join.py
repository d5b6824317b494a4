"""Join a Spark job to the service that decides its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headgate.agent.agent import Agent
from headgate.agent.fallback import AFTER_S, Fallback
from headgate.agent.http import HttpController
from headgate.agent.running import RunningAgent
from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.types import Observation
from headgate.core.units import parse_duration_s
from headgate.policies.frame.base import AnyPolicy, PolicyMaker

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
    fallback: str | PolicyMaker | None = None,
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
      ``fallback_after``; without one the application keeps its size while the service is away
    - ``late_after_s``: records whose result comes later than this are counted
    - ``watcher``: is shown every observation on its way

    ``stop()`` lets go of the application, which keeps its size.
    """
    # Everything that can be wrong with the arguments is found out before the session is touched.
    policy = None if fallback is None else fallback_policy(fallback, objective, executors)
    after_s = parse_duration_s(fallback_after)
    from headgate.engines.spark import SparkEngine, application_name

    controller = HttpController(service, token, job or application_name(spark), certificate=certificate)
    engine = SparkEngine(spark, take_over=True, drain_timeout_s=drain_timeout_s, late_after_s=late_after_s)
    own = None if policy is None else Fallback(policy, engine, after_s=after_s)
    return RunningAgent(Agent(engine, operator, controller, own), engine, watcher, closes=controller.close).start()


def fallback_policy(
    fallback: str | PolicyMaker, objective: str | Objective | None, executors: tuple[int, int] | None
) -> AnyPolicy:
    """The policy of an agent's own; ``InputError`` where it cannot be made."""
    from headgate.runtime.autoscaler import goal_of, preview_policy

    if objective is None:
        raise InputError(f"fallback {fallback!r} needs an objective to decide by, such as 'latency p95 < 10s'.")
    return preview_policy(fallback, goal_of(objective, executors, None))
