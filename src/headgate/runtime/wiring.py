"""The one place that puts a control loop together: engine, policy, guards, clock, journal and what was there before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.core.contracts import Engine
from headgate.core.metrics import MetricSource
from headgate.core.step import Guards
from headgate.core.types import Run, Severity
from headgate.journal.contract import Journal
from headgate.policies.frame.base import AnyPolicy, guards_for
from headgate.rules.constraints import constrained
from headgate.rules.model import Constraint
from headgate.runtime.clock import Clock
from headgate.runtime.learned import budget_key, startup_key, state_key
from headgate.runtime.loop import ControlLoop
from headgate.runtime.mode import Mode
from headgate.runtime.recalling import Past, history_for, read_past
from headgate.runtime.shadows import Shadow, refuse_alike


def wire(  # noqa: PLR0913 - one keyword per part of a loop
    engine: Engine,
    policy: AnyPolicy,
    clock: Clock,
    *,
    engine_name: str,
    job: str = "job",
    guards: Mapping[str, object] | None = None,
    constraints: Sequence[Constraint] = (),
    metrics: Mapping[str, MetricSource] | None = None,
    journal: Journal | None = None,
    resumes: bool = True,
    mode: Mode = Mode.ACT,
    shadows: Sequence[AnyPolicy] = (),
    requires_journal: bool = False,
    past: Past | None = None,
) -> ControlLoop:
    """A loop over an engine, with a new run of the job in its journal.

    - ``guards``: what the user set instead of what suits the policy
    - ``resumes``: go on where an earlier run of the same job in this journal stopped. The policy begins with what it
      had learned, if that still fits; start-up times and error budgets go on. After a short break the loop also recalls
      what was seen and decided, and after any break the job gets back the size it had.
    - ``mode``: whether to act on what is decided
    - ``shadows``: policies that decide beside it and never act
    - ``requires_journal``: carry out nothing that could not be journalled, as where others may take the loop over
    - ``past``: what an earlier run left, where that is known already; it is read from the journal otherwise
    """
    refuse_alike(policy.name, [shadow.name for shadow in shadows])
    loop = ControlLoop(
        engine,
        policy,
        guards_around(policy, guards, constraints),
        clock,
        job=job,
        journal=journal,
        history=history_for(engine.topology(), policy, shadows) if past is None else past.history,
        metrics=metrics,
        mode=mode,
        shadows=[Shadow(shadow, guards_around(shadow, guards, constraints)) for shadow in shadows],
        requires_journal=requires_journal,
    )
    if journal is None:
        return loop
    operators = engine.topology().operators
    if past is None and resumes:
        past = read_past(journal, job, engine_name, loop.history, clock.now())
    refused: Sequence[str] = ()
    if past is not None:
        loop.history.restore_startup_times(past.state(startup_key(job)) or {})
        refused = loop.history.restore_budgets(past.state(budget_key(job)) or {})
    journal.begin(
        Run(
            started_s=clock.now(),
            policy=policy.name,
            settings=policy.settings.model_dump(mode="json"),
            objective=str(policy.objective),
            engine=engine_name,
            operators=operators,
            seed=policy.seed,
            job=job,
            bounds=_bounds(policy),
        )
    )
    for why in refused:
        loop.note("budget-anew", f"{why} It is counted anew.")
    if past is not None:
        if (learned := past.state(state_key(job, operators, policy))) is not None:
            loop.restore(learned)
        _restore_shadows(loop, past)
        if past.sizes and mode is Mode.ACT:
            loop.resume(past.sizes)
    return loop


def _bounds(policy: AnyPolicy) -> tuple[int, int] | None:
    asked = policy.objective
    return (asked.min_instances, asked.max_instances) if asked.bounded else None


def guards_around(
    policy: AnyPolicy, changes: Mapping[str, object] | None = None, constraints: Sequence[Constraint] = ()
) -> Guards:
    """The guards of a policy: the stabilisers that suit it, with what the user set instead, those it brings itself, and
    constraints that hold for any policy."""
    settings = guards_for(policy, changes)
    built = policy.guarded(settings.build(policy.objective, policy.topology))
    return Guards(constrained(built, constraints, policy.objective))


def _restore_shadows(loop: ControlLoop, past: Past) -> None:
    """Let each shadow go on with what it had learned, as a shadow or when it acted."""
    for shadow in loop.shadows:
        learned = past.state(state_key(loop.job, loop.history.operators, shadow.policy))
        if learned is not None and (why := shadow.restore(learned)):
            loop.note(
                "state-refused", f"{why} Shadow {shadow.policy.name} starts without it.", severity=Severity.WARNING
            )
