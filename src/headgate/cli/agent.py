"""headgate agent"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import options
from headgate.cli.common import argument, option, say
from headgate.core.errors import InputError

if TYPE_CHECKING:
    from headgate.agent.agent import HttpController
    from headgate.agent.join import Reporting
    from headgate.core.contracts import Engine
    from headgate.runtime.assembly import LoopSpec


def agent(  # noqa: PLR0913 - one option per thing that a user may say
    adaptor: Annotated[str, argument("ADAPTOR", "The adaptor's address; with --engine its target.")],
    *,
    service: Annotated[
        str, option("URL", "The service's address; of several that share a database, all, with commas.")
    ],
    job: Annotated[str, option("NAME", "The job, as the service knows it.")],
    operator: Annotated[str | None, option("NAME", "The operator of it that the adaptor stands for.")] = None,
    engine: Annotated[
        str | None,
        option(
            "NAME",
            "An engine of headgate engines in place of an adaptor; reports for all its operators by their names.",
        ),
    ] = None,
    token_file: options.TokenFile = None,
    certificate: options.Certificate = None,
    fallback: Annotated[
        str | None,
        option("POLICY", "Decides when the service has not answered for a minute; without it, the size stays."),
    ] = None,
    objective: Annotated[str | None, option("TEXT", "What the fallback decides by.")] = None,
    instances: Annotated[tuple[int, int] | None, option("FEWEST MOST", "What the fallback keeps within.")] = None,
) -> None:
    """Report for an engine that is not in Python, and bring it to the size that the service wants.

    The engine offers a small HTTP contract, the adaptor: GET /observe and POST /apply. The agent runs next to it until
    it is stopped or the job has ended.

    [bold]Examples[/bold]
      [cyan]headgate agent http://127.0.0.1:9000 --service http://127.0.0.1:8420 --job clicks --operator count[/cyan]
      [cyan]headgate agent http://127.0.0.1:8081#sum --engine flink --service http://127.0.0.1:8420 --job sum[/cyan]
    """
    from headgate.agent.agent import HttpController, LastAgents
    from headgate.agent.join import RunningAgent, fallback_spec
    from headgate.cli.app import WRONG_INPUT
    from headgate.cli.progress import stopped_by_signals

    if engine is None and operator is None:
        raise InputError("which operator the adaptor stands for is not said; write --operator NAME, or --engine NAME.")
    if engine is not None and (operator is not None or fallback is not None):
        raise InputError("--engine reports for all operators of the engine; leave --operator and --fallback out.")
    spec = None if fallback is None else fallback_spec(fallback, objective, instances)
    trusted = None if certificate is None else str(certificate)
    last_agents = LastAgents(job)
    controller = HttpController(service, _token(token_file), job, certificate=trusted, last_agents=last_agents)
    reporting, opened, named = (
        _of_adaptor(adaptor, str(operator), controller, spec)
        if engine is None
        else _of_engine(engine, adaptor, controller)
    )
    with controller, stopped_by_signals() as stop:
        running = RunningAgent(reporting, opened).start()
        for name in named:
            say(f"{job}/{name}: reporting for {adaptor}")
        while running.is_alive and not stop.wait(0.5):
            pass
        running.stop()
    if running.refused is not None:
        raise typer.Exit(WRONG_INPUT)


def _of_adaptor(
    adaptor: str, operator: str, controller: HttpController, spec: LoopSpec | None
) -> tuple[Reporting, Engine, tuple[str, ...]]:
    from headgate.agent.agent import Agent
    from headgate.agent.fallback import Fallback
    from headgate.engines.adaptor import AdaptorEngine

    engine = AdaptorEngine(adaptor)
    engine.observe()  # A wrong address is reported once, now.
    own = None if spec is None else Fallback(spec, engine)
    return Agent(engine, operator, controller, own), engine, (operator,)


def _of_engine(name: str, target: str, controller: HttpController) -> tuple[Reporting, Engine, tuple[str, ...]]:
    import time

    from headgate.agent.agent import SeveralAgents
    from headgate.engines.base import engine_class

    engine = engine_class(name)(target, time.time)
    return SeveralAgents(engine, controller), engine, engine.topology().operators


def _token(file: Path | None) -> str:
    from headgate.client.client import TOKEN_VARIABLE

    token = os.environ.get(TOKEN_VARIABLE, "").strip() if file is None else options.read_token(file)
    if not token:
        raise InputError(f"there is no token: give a file of it by --token-file, or set {TOKEN_VARIABLE}.")
    return token
