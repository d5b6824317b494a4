"""The live autoscaler over an engine that Headgate does not know: your own, or one that a package brings by name.

with headgate.autoscale_engine("half-cluster", "orders", objective="latency p95 < 10s", instances=(1, 8)):
    ...
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from headgate.core.contracts import Engine, ReportsEvents
from headgate.core.errors import InputError
from headgate.core.metrics import MetricSource
from headgate.core.objective import Objective, divided
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.topology import Topology
from headgate.core.types import JSON
from headgate.core.units import parse_duration_s
from headgate.engines.base import EngineBase, engine_class
from headgate.journal.contract import Journal
from headgate.journal.sqlite import SqliteJournal
from headgate.policies.frame.base import Context, PolicyMaker, policy_class
from headgate.rules.model import RulePolicy
from headgate.rules.rules_policy import load_constraints, require_rules
from headgate.runtime.autoscaler import DEFAULT_INTERVAL_S, Autoscaler, goal_of
from headgate.runtime.clock import Clock, SystemClock
from headgate.runtime.exposition.telling import tell_of
from headgate.runtime.loop import ControlLoop, EventWatcher, Watcher
from headgate.runtime.mode import Mode, mode_named
from headgate.runtime.model_file import policy_with_files
from headgate.runtime.switch import PolicySwitch
from headgate.runtime.wiring import wire


def autoscale_engine(  # noqa: PLR0913 - one keyword per thing that a user may say
    engine: str | Engine,
    target: str = "",
    objective: str | Objective | Mapping[str, JSON] | Path = "latency p95 < 10s",
    policy: str | PolicyMaker = DEFAULT_POLICY,
    instances: tuple[int, int] | None = None,
    *,
    price: float | None = None,
    job: str | None = None,
    settings: Mapping[str, object] | None = None,
    guards: Mapping[str, object] | None = None,
    constraints: str | Path | RulePolicy | None = None,
    metrics: Mapping[str, MetricSource] | None = None,
    interval: str | float = DEFAULT_INTERVAL_S,
    journal: str | Path | Journal | None = None,
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
    goal = goal_of(objective, instances, price)
    interval_s, chosen_mode = parse_duration_s(interval), mode_named(mode)
    time = SystemClock() if clock is None else clock
    with contextlib.ExitStack() as undone:
        opened: Engine = engine_class(engine)(target, time.now) if isinstance(engine, str) else engine
        undone.callback(opened.close)
        context = Context(_divided(goal, opened.topology(), policy), opened.topology(), seed)
        chosen = policy_with_files(policy, context, settings)
        require_rules(chosen)
        book = SqliteJournal(journal) if isinstance(journal, str | Path) else journal
        own_book = book if book is not journal else None
        if own_book is not None:
            undone.callback(own_book.close)
        limits = load_constraints(constraints, opened.topology())
        loop = wire(
            opened,
            chosen,
            time,
            engine_name=_name(opened),
            job=job or target or _name(opened),
            guards=guards,
            constraints=limits,
            metrics=metrics,
            journal=book,
            mode=chosen_mode,
            shadows=[
                policy_with_files(shadow, replace(context, objective=_divided(goal, opened.topology(), shadow)), None)
                for shadow in shadows
            ],
        )
        if isinstance(opened, ReportsEvents):
            loop.chores.append(partial(_note_events, loop, opened))
        loop.watchers += watchers
        loop.event_watchers += event_watchers
        telling = tell_of(loop, interval_s, book, metrics_port)
        undone.callback(telling.close)
        running = Autoscaler(loop, interval_s, own_book, PolicySwitch(loop, context, guards, limits))
        running.tell(telling)
        undone.pop_all()
    return running.start()


def _divided(goal: Objective, topology: Topology, policy: str | PolicyMaker) -> Objective:
    if len(topology.operators) < 2:
        return goal
    sees_graph = policy_class(policy).sees_graph if isinstance(policy, str) else False
    return divided(goal, topology, goal.operators, sees_graph=sees_graph)


def _note_events(loop: ControlLoop, engine: ReportsEvents) -> None:
    for event in engine.take_events():
        loop.note(event.kind, event.detail, at_s=event.at_s, numbers=event.numbers, severity=event.severity)


def _name(engine: Engine) -> str:
    if isinstance(engine, EngineBase):
        return engine.name
    named = getattr(engine, "name", type(engine).__name__)
    if not isinstance(named, str):
        raise InputError(f"engine name {named!r} is not allowed; it must be a text.")
    return named
