"""Join a Spark job to the controller that decides its size."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.agent.agent import Agent
from headgate.agent.http import HttpController
from headgate.agent.running import RunningAgent
from headgate.core.types import Observation

if TYPE_CHECKING:
    from headgate.engines.spark import SparkSession


def join(
    spark: SparkSession,
    *,
    service: str,
    operator: str,
    token: str,
    job: str | None = None,
    drain_timeout_s: float = 30.0,
    late_after_s: float | None = None,
    watcher: Callable[[Observation], None] | None = None,
) -> RunningAgent:
    """Let the controller at ``service`` decide how many executors this application has, as an operator of its graph.

    ``job`` is the name by which the service knows the job; the application's name where not given.
    The application keeps its size while the controller is away. ``stop()`` lets go of it. Records whose
    result comes later than ``late_after_s`` are counted; ``watcher`` is shown every observation on its way.
    """
    from headgate.engines.spark import SparkEngine, application_name

    controller = HttpController(service, token, job or application_name(spark))
    engine = SparkEngine(spark, take_over=True, drain_timeout_s=drain_timeout_s, late_after_s=late_after_s)
    return RunningAgent(Agent(engine, operator, controller), engine, watcher).start()
