"""The live autoscaler over an engine that Headgate does not know: your own, or one that a package brings by name.

with headgate.autoscale_engine("half-cluster", "orders", objective="latency p95 < 10s", instances=(1, 8)):
    ...
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headgate.core.contracts import Engine
from headgate.core.errors import InputError
from headgate.core.metrics import MetricSource
from headgate.core.objective import Objective
from headgate.core.types import JSON
from headgate.core.units import parse_duration_s
from headgate.engines.base import EngineBase, engine_class
from headgate.journal.contract import Journal
from headgate.policies.frame.base import PolicyMaker
from headgate.rules.model import RulePolicy
from headgate.runtime.assembly import LoopSpec, goal_of, open_loop
from headgate.runtime.autoscaler import DEFAULT_INTERVAL_S, Autoscaler
from headgate.runtime.clock import Clock, SystemClock
from headgate.runtime.loop import EventWatcher, Watcher
from headgate.runtime.mode import Mode, mode_named


def autoscale_engine(  # noqa: PLR0913 - one keyword per thing that a user may say
    engine: str | Engine,
    target: str = "",
    objective: str | Objective | Mapping[str, JSON] | Path = "latency p95 < 10s",
    policy: str | PolicyMaker | None = None,
    instances: tuple[int, int] | None = None,
    *,
    price: float | None = None,
    job: str | None = None,
    settings: Mapping[str, object] | str | Path | None = None,
    guards: Mapping[str, object] | None = None,
    constraints: str | Path | RulePolicy | None = None,
    metrics: Mapping[str, MetricSource] | None = None,
    interval: str | float = DEFAULT_INTERVAL_S,
    journal: str | Path | Journal | None = None,
    state: str | Path | None = None,
    shadows: Sequence[str | PolicyMaker] = (),
    mode: str = Mode.ACT,
    seed: int = 0,
    clock: Clock | None = None,
    metrics_port: int | None = None,
    watchers: Sequence[Watcher] = (),
    event_watchers: Sequence[EventWatcher] = (),
) -> Autoscaler:
    """Keep the operators of an engine at the sizes their objective needs, as ``autoscale`` does those of Spark.

    - ``engine``: a name from ``headgate engines``, or an engine that is open
    - ``target``: which job, in the words of an engine by name
    - ``instances``: fewest and most of each operator
    - ``job``: its name in the journal, by which it is known when it starts again; the target otherwise
    - ``clock``: where times come from; it must be the engine's own clock where the engine is open already
    - ``watchers``, ``event_watchers``: are shown every cycle, and told what happens to the loop and to the engine

    An objective from end to end is divided among several operators where the policy looks at one at a time.

    All else is as for ``autoscale``.
    """
    spec = LoopSpec(
        objective=goal_of(objective, instances, price),
        policy=policy,
        settings=settings,
        guards=guards,
        constraints=constraints,
        metrics=metrics,
        shadows=shadows,
        mode=mode_named(mode),
        state=state,
        journal=journal,
        seed=seed,
    )
    interval_s, time = parse_duration_s(interval), SystemClock() if clock is None else clock
    with contextlib.ExitStack() as undone:
        opened: Engine = engine_class(engine)(target, time.now) if isinstance(engine, str) else engine
        undone.callback(opened.close)
        name = _name(opened)
        assembled = open_loop(replace(spec, job=job or target or name), opened, time, engine_name=name)
        undone.callback(assembled.close_journal)
        assembled.loop.watchers += watchers
        assembled.loop.event_watchers += event_watchers
        running = Autoscaler.of(assembled, interval_s, metrics_port)
        undone.pop_all()
    return running.start()


def _name(engine: Engine) -> str:
    if isinstance(engine, EngineBase):
        return engine.name
    named = getattr(engine, "name", type(engine).__name__)
    if not isinstance(named, str):
        raise InputError(f"engine name {named!r} is not allowed; it must be a text.")
    return named
