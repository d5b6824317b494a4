"""Assemble a control loop: a description of what it is to do, and the one function that opens it on an engine.

Every entry point (``autoscale``, ``autoscale_engine``, ``simulate``, the fallback of an agent, a job of the service)
fills in a :class:`LoopSpec` and calls :func:`open_loop`, so that what works in one of them works in all.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headgate.core.contracts import Engine, Guard
from headgate.core.errors import InputError
from headgate.core.guards import Trusted
from headgate.core.metrics import MetricSource
from headgate.core.objective import Objective, divided, objective_from
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.step import Guards
from headgate.core.topology import Topology
from headgate.core.types import JSON, Run, Severity
from headgate.journal.contract import Journal, budget_key, startup_key, state_key
from headgate.journal.writer import SqliteJournal
from headgate.policies.frame.base import AnyPolicy, Context, PolicyMaker, guards_for, policy_class
from headgate.rules.constraints import constrained
from headgate.rules.model import Constraint, Named, RulePolicy
from headgate.rules.rules_policy import Rules, RulesPolicy, load_constraints, require_rules
from headgate.runtime.loop import Clock, ControlLoop, Mode, Shadow, mode_named, refuse_duplicates, require_metrics
from headgate.runtime.model_file import policy_with_files
from headgate.runtime.objective_file import read_objective
from headgate.runtime.past import Past, history_for, read_past, read_state
from headgate.runtime.settings_file import with_settings_file

logger = logging.getLogger("headgate")

FALLBACKS = ("reactive", "hpa")
"""The first of these that is not the acting policy decides while that fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSpec:
    """Describes a control loop, apart from the engine and the clock that it runs on.

    - ``objective``: end to end, with the bounds; it is divided among several operators if the policy needs that
    - ``policy``: a name or a policy that is set up; the one of a settings file, or autopilot, if ``None``
    - ``settings``: of a policy by name, or the path of a settings file, which also names the policy
    - ``guards``: settings of the guards instead of those that suit the policy
    - ``constraints``: a rule file that has only constraints, or the constraints themselves
    - ``metrics``: sources of custom metrics; ``Rules`` may bring more
    - ``shadows``: policies that decide on the same window and never act
    - ``state``: learned state to start from, a snapshot or a file; newer state in the journal takes precedence
    - ``resumes``: continue where an earlier run of the same job in this journal stopped
    - ``closes_journal``: the journal was opened for this loop, and is closed with it
    - ``requires_journal``: apply nothing that could not be journalled, because another loop may take over
    - ``requires_rules``: refuse the policy ``rules`` if it has no rules
    - ``watches_files``: pick up edits of a rule file
    - ``last_guards``: guards of the acting policy that come after all others
    - ``starts_at_s``: when the loop's clock was 0, in seconds since the Unix epoch
    """

    objective: Objective
    policy: str | PolicyMaker | None = None
    settings: Mapping[str, object] | str | Path | None = None
    guards: Mapping[str, object] | None = None
    constraints: str | Path | RulePolicy | tuple[Constraint, ...] | None = None
    metrics: Mapping[str, MetricSource] | None = None
    shadows: Sequence[str | PolicyMaker] = ()
    mode: str = Mode.ACT
    state: str | Path | Mapping[str, JSON] | None = None
    journal: str | Path | Journal | None = None
    job: str = "job"
    seed: int = 0
    resumes: bool = True
    closes_journal: bool = False
    requires_journal: bool = False
    requires_rules: bool = True
    watches_files: bool = True
    last_guards: tuple[Guard, ...] = ()
    starts_at_s: float = 0.0

    def parts(self, topology: Topology, offered: Collection[str] | None = None) -> LoopParts:
        """Make everything that needs no engine; an ``InputError`` reports whatever is wrong with the description.

        ``offered``: the further metrics of the engine, if they are known before it is open.
        """
        policy, settings, guards = with_settings_file(self.policy, self.settings, self.guards)
        makers = (DEFAULT_POLICY if policy is None else policy, *self.shadows)
        acting = self.made(makers[0], topology, settings)
        guards_for(acting, guards)
        mode = mode_named(self.mode)
        shadows = tuple(self.made(shadow, topology) for shadow in self.shadows)
        refuse_duplicates(acting.name, [shadow.name for shadow in shadows])
        if self.requires_rules:
            for made in (acting, *shadows):
                require_rules(made)
        metrics: dict[str, MetricSource] = {}
        for maker in reversed(makers):
            metrics |= maker.metrics if isinstance(maker, Rules) else {}
        metrics |= self.metrics or {}
        if offered is not None:
            for made in (acting, *shadows):
                require_metrics(made.subscriptions, metrics, offered)
        if self.state is not None:
            state = self.state
            acting.restore(state if isinstance(state, Mapping) else read_state(state, acting.name))
        if not isinstance(constraints := self.constraints, tuple):
            constraints = load_constraints(constraints, topology)
        spec = replace(
            self,
            policy=makers[0],
            settings=settings,
            guards=guards,
            constraints=constraints,
            metrics=metrics,
            mode=mode,
        )
        return LoopParts(spec, topology, acting, shadows, constraints, metrics, mode)

    def with_open_journal(self) -> LoopSpec:
        """The same, with a journal that is opened for it if only its path is given."""
        if not isinstance(self.journal, str | Path):
            return self
        return replace(self, journal=SqliteJournal(self.journal), closes_journal=True)

    def close_journal(self) -> None:
        """Close the journal if it was opened for this loop."""
        if self.closes_journal and self.journal is not None and not isinstance(self.journal, str | Path):
            self.journal.close()

    def made(
        self, policy: str | PolicyMaker, topology: Topology, settings: Mapping[str, object] | None = None
    ) -> AnyPolicy:
        objective = self.objective
        if len(topology.operators) > 1:
            sees_graph = policy_class(policy).sees_graph if isinstance(policy, str) else False
            objective = divided(objective, topology, objective.operators, sees_graph=sees_graph)
        return policy_with_files(policy, Context(objective, topology, self.seed), settings)


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The parts of a loop that need no engine; ``spec`` has the contents of the files that were named."""

    spec: LoopSpec
    topology: Topology
    policy: AnyPolicy
    shadows: tuple[AnyPolicy, ...]
    constraints: tuple[Constraint, ...]
    metrics: Mapping[str, MetricSource]
    mode: Mode

    @property
    def journal(self) -> Journal | None:
        """The journal, once it is open."""
        return None if isinstance(self.spec.journal, str | Path) else self.spec.journal

    @property
    def guards(self) -> Guards:
        """All guards of the acting policy."""
        guards = guards_around(self.policy, self.spec.guards, self.constraints)
        return Guards((*guards, *self.spec.last_guards)) if self.spec.last_guards else guards

    def fallback(self) -> tuple[AnyPolicy, Guards]:
        """Return the policy that decides while the acting one fails, with its guards."""
        name = next(name for name in FALLBACKS if name != self.policy.name)
        policy = replace(self.spec, policy=name).made(name, self.topology)
        return policy, Guards((*guards_around(policy, None, self.constraints), *self.spec.last_guards))


@dataclass(slots=True)
class AssembledLoop:
    """A loop on its engine, whose policy can be changed from any thread while it runs."""

    loop: ControlLoop
    parts: LoopParts
    _rule_file: RuleFileWatch | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._watch_rule_file()

    def change_policy(
        self, policy: str | PolicyMaker, settings: Mapping[str, object] | None = None, text: str = ""
    ) -> None:
        """Decide by another policy from the next decision on; refuse one that cannot be used with an ``InputError``."""
        try:
            self.reconfigure(replace(self.parts.spec, policy=policy, settings=settings), text)
        except InputError as error:
            self.loop.note("policy-refused", f"{error} The policy in force stays.", severity=Severity.WARNING)
            raise

    def reconfigure(self, spec: LoopSpec, text: str = "") -> None:
        """Decide by the policy, the guards and the constraints of another description; ``text`` is for the journal.

        The rest of the loop stays: history, shadows, metrics, mode and journal.
        """
        before = self.parts.spec
        spec = replace(spec, state=None, shadows=(), journal=before.journal, closes_journal=before.closes_journal)
        made = spec.parts(self.parts.topology)
        self.loop.change(made.policy, made.guards, text)
        self.parts = replace(made, shadows=self.parts.shadows)
        self.loop.make_fallback = self.parts.fallback
        self._watch_rule_file()

    def close_journal(self) -> None:
        """Close the journal if it was opened for this loop."""
        if self.parts.spec.closes_journal:
            self.loop.forget_journal()
            self.parts.spec.close_journal()

    def _watch_rule_file(self) -> None:
        policy, before = self.parts.policy, self._rule_file
        self._rule_file = None
        if not self.parts.spec.watches_files or not isinstance(policy, RulesPolicy) or policy.settings.file is None:
            return
        path = Path(policy.settings.file)
        if self._check_rule_file not in self.loop.chores:
            self.loop.chores.append(self._check_rule_file)
        if before is not None and before.path == path:
            # The same watch goes on, so that no edit is missed between two of them.
            before.in_force, self._rule_file = policy.policy, before
        else:
            self._rule_file = RuleFileWatch(path, policy.policy, self.parts.metrics)

    def _check_rule_file(self) -> None:
        watch = self._rule_file
        if watch is None:
            return
        try:
            if (changed := watch.changed()) is None:
                return
        except InputError as error:
            self.loop.note("policy-refused", f"{error} The rules in force stay.", severity=Severity.WARNING)
            logger.warning("changed rules are refused: %s", error)
            return
        rules, text = changed
        try:
            self.change_policy(rules, text=text)
        except InputError as error:
            logger.warning("changed rules are refused: %s", error)


def open_loop(
    spec: LoopSpec, engine: Engine, clock: Clock, *, engine_name: str, past: Past | None = None
) -> AssembledLoop:
    """Open the described loop on an engine, with a new run of the job in its journal.

    ``past``: what an earlier run left, if that is known; the journal is read for it otherwise.
    """
    parts = spec.parts(engine.topology())
    parts = replace(parts, spec=parts.spec.with_open_journal())
    with contextlib.ExitStack() as undone:
        undone.callback(parts.spec.close_journal)
        loop = wire(
            engine,
            parts.policy,
            clock,
            engine_name=engine_name,
            job=spec.job,
            guards=parts.spec.guards,
            constraints=parts.constraints,
            last_guards=spec.last_guards,
            metrics=parts.metrics,
            journal=parts.journal,
            resumes=spec.resumes,
            mode=parts.mode,
            shadows=parts.shadows,
            requires_journal=spec.requires_journal,
            past=past,
            starts_at_s=spec.starts_at_s,
        )
        loop.make_fallback = parts.fallback
        undone.pop_all()
    return AssembledLoop(loop, parts)


def wire(  # noqa: PLR0913 - one keyword per part of a loop
    engine: Engine,
    policy: AnyPolicy,
    clock: Clock,
    *,
    engine_name: str,
    job: str = "job",
    guards: Mapping[str, object] | None = None,
    constraints: Sequence[Constraint] = (),
    last_guards: Sequence[Guard] = (),
    metrics: Mapping[str, MetricSource] | None = None,
    journal: Journal | None = None,
    resumes: bool = True,
    mode: Mode = Mode.ACT,
    shadows: Sequence[AnyPolicy] = (),
    requires_journal: bool = False,
    past: Past | None = None,
    starts_at_s: float = 0.0,
) -> ControlLoop:
    """Connect an engine, policies that are made and a journal to a loop; the keywords are those of ``LoopSpec``.

    A loop that resumes starts with what its policy had learned, if that still fits, with start-up times and error
    budgets. After a short break it also recalls observations and decisions, and after any break the job gets back the
    size it had.
    """
    refuse_duplicates(policy.name, [shadow.name for shadow in shadows])
    loop = ControlLoop(
        engine,
        policy,
        Guards((*guards_around(policy, guards, constraints), *last_guards)),
        clock,
        job=job,
        journal=journal,
        history=history_for(engine.topology(), policy, shadows, starts_at_s) if past is None else past.history,
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
    objective = policy.objective
    journal.begin(
        Run(
            started_s=clock.now(),
            policy=policy.name,
            settings=policy.settings.model_dump(mode="json"),
            objective=str(objective),
            engine=engine_name,
            operators=operators,
            seed=policy.seed,
            job=job,
            bounds=(objective.min_instances, objective.max_instances) if objective.bounded else None,
            starts_at_s=starts_at_s,
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


def guards_around(
    policy: AnyPolicy, changes: Mapping[str, object] | None = None, constraints: Sequence[Constraint] = ()
) -> Guards:
    """The guards of a policy: the stabilisers that suit it with the user's changes, its own guards, and constraints."""
    settings = guards_for(policy, changes)
    built = policy.guarded(settings.build(policy.objective, policy.topology))
    if not any(isinstance(guard, Trusted) for guard in built):
        built = (*built, Trusted(policy.objective))  # A policy may replace all other guards, but not this one.
    return Guards(constrained(built, constraints, policy.objective))


def goal_of(
    objective: str | Objective | Mapping[str, JSON] | Path, executors: tuple[int, int] | None, price: float | None
) -> Objective:
    """The objective in any of its forms, with its bounds and its price."""
    goal = (read_objective(objective) if isinstance(objective, Path) else objective_from(objective)).priced(price)
    goal.prices(Topology.single())
    if executors is None:
        return goal
    try:
        fewest, most = executors
    except (TypeError, ValueError):
        raise InputError(f"executors {executors!r} is not allowed; give the fewest and the most, as (1, 8).") from None
    return goal.within(fewest, most)


def preview_policy(
    policy: str | PolicyMaker, objective: Objective, settings: Mapping[str, object] | None = None, seed: int = 0
) -> AnyPolicy:
    """The policy for a job of one operator; also checks, before anything is started, that it can be made."""
    return policy_with_files(policy, Context(objective, Topology.single(), seed), settings)


def _restore_shadows(loop: ControlLoop, past: Past) -> None:
    """Restore what each shadow had learned, as a shadow or when it acted."""
    for shadow in loop.shadows:
        learned = past.state(state_key(loop.job, loop.history.operators, shadow.policy))
        if learned is not None and (why := shadow.restore(learned)):
            loop.note(
                "state-refused", f"{why} Shadow {shadow.policy.name} starts without it.", severity=Severity.WARNING
            )


class RuleFileWatch:
    """Reads a rule file again when it has changed; ``in_force`` are the rules that the loop follows."""

    def __init__(self, path: Path, in_force: RulePolicy, metrics: Mapping[str, MetricSource]) -> None:
        self.path = path
        self.in_force = in_force
        self._metrics = dict(metrics)
        self._signature = signature(path)

    def changed(self) -> tuple[Rules, str] | None:
        """The rules of an edited file with a summary of the changes, or ``None`` if they are the same.

        An edit that is not valid is an ``InputError``, once.
        """
        found = signature(self.path)
        if found == self._signature:
            return None
        self._signature = found
        rules = Rules.from_file(self.path, self._metrics)
        if rules.policy == self.in_force:
            return None
        return rules, f"{self.path}: {_difference(self.in_force, rules.policy)}"


def signature(path: Path) -> tuple[int, int, int] | None:
    """Modification time, size and inode, which differ when the content does; ``None`` if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _difference(before: RulePolicy, after: RulePolicy) -> str:
    """Which rules are new, gone and changed, by name."""
    old, new = _by_name(before), _by_name(after)
    parts: tuple[tuple[str, list[Named]], ...] = (
        ("new", [rule for key, rule in new.items() if key not in old]),
        ("gone", [rule for key, rule in old.items() if key not in new]),
        ("changed", [rule for key, rule in new.items() if key in old and old[key] != rule]),
    )
    texts = [f"{word} {', '.join(repr(rule.name) for rule in found)}" for word, found in parts if found]
    return "; ".join(texts) or "the same rules in another order"


def _by_name(policy: RulePolicy) -> dict[tuple[type[Named], str, str], Named]:
    named: tuple[Named, ...] = (*policy.rules, *policy.constraints)
    return {(type(rule), rule.name, rule.operator): rule for rule in named}
