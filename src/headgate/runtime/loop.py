"""The control loop: observe, step, apply, journal, once per tick.

Nothing that fails in a tick ends the loop, and nothing that fails is silent: an engine that cannot be observed, a
policy that raises, an engine that refuses and a journal that cannot be written each become an event, and the job keeps
its size. Only an engine that has ended for good ends the loop as well (``EngineGoneError``).

The loop has no thread of its own; see ``autoscaler.py`` for the live one and ``simulate.py`` for the other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Protocol

from headgate.core.contracts import Engine, Guard, Policy, Subscribable
from headgate.core.errors import EngineGoneError, HeadgateError, InputError, StateError, UnknownNameError
from headgate.core.guards import Bounds, Resumed
from headgate.core.metrics import MetricCallable, MetricSource, Observed, aggregate, split_key
from headgate.core.step import Guards, guarded, hold, step
from headgate.core.types import (
    JSON,
    METRIC_FIELDS,
    NO_NUMBERS,
    Answer,
    Decision,
    Event,
    Instant,
    Number,
    Observation,
    Outcome,
    Receipt,
    Role,
    Sample,
    Severity,
)
from headgate.core.window import History, Window
from headgate.journal.contract import Journal
from headgate.policies.frame.base import AnyPolicy
from headgate.runtime.interrupts import raise_if_interrupted
from headgate.runtime.past import budget_key, startup_key, state_key


@dataclass(slots=True)
class Shadow:
    """One policy that never acts."""

    policy: AnyPolicy
    guards: Sequence[Guard]
    failure: str = ""
    """What it failed with last time; it is said once, not at every tick."""

    def decide(self, now: Instant, window: Window) -> Decision:
        return replace(step(self.policy, self.guards, now, window), role=Role.SHADOW)

    def restore(self, state: Mapping[str, JSON]) -> str:
        """Go on with what was learned before; gives why, where that cannot be."""
        before = self.policy.snapshot()
        try:
            self.policy.restore(state)
        except StateError as error:
            self.policy.restore(before)
            return str(error)
        return ""


class Shadows:
    """All shadows of a loop."""

    def __init__(self, shadows: Sequence[Shadow] = ()) -> None:
        self._shadows = tuple(shadows)

    def __iter__(self) -> Iterator[Shadow]:
        return iter(self._shadows)

    def __len__(self) -> int:
        return len(self._shadows)

    @property
    def subscriptions(self) -> frozenset[str]:
        """Keys of the metrics that they need beyond the basic ones."""
        return frozenset(key for shadow in self for key in shadow.policy.subscriptions)

    def decide(self, now: Instant, window: Window, note: Callable[[Event], None]) -> list[Decision]:
        """What each of them would do; ``note`` is told of failures and of what happened to them."""
        decided = []
        for shadow in self:
            name = shadow.policy.name
            try:
                decided.append(shadow.decide(now, window))
                events: Sequence[Event] = getattr(shadow.policy, "take_events", tuple)()
            except Exception as error:  # noqa: BLE001 - a policy is a plug-in: nothing it raises may harm the acting one
                raise_if_interrupted(error)
                message = f"{type(error).__name__}: {error}"
                if message != shadow.failure:
                    logger.warning("shadow %s failed: %s", name, message)
                    detail = f"shadow {name} failed with {message}; the acting policy continues"
                    note(Event(now, "shadow-failed", detail, severity=Severity.ERROR))
                shadow.failure = message
                continue
            shadow.failure = ""
            for event in events:
                note(replace(event, kind=f"shadow-{event.kind}", detail=f"shadow {name}: {event.detail}"))
        return decided


def refuse_duplicates(acting: str, shadows: Sequence[str]) -> None:
    """Each policy decides once: one that acts, or is a shadow already, cannot be another shadow."""
    for index, name in enumerate(shadows):
        if name == acting:
            raise InputError(f"shadow {name!r} is the acting policy; name others as shadows.")
        if name in shadows[:index]:
            raise InputError(f"shadow {name!r} is named twice; once is allowed.")


def require_metrics(keys: Collection[str], sources: Mapping[str, MetricSource], offered: Collection[str]) -> None:
    """Refuse metrics that nobody could give."""
    known = {*sources, *offered}
    for key in sorted(keys):
        name, _ = split_key(key)
        if name not in known:
            error = UnknownNameError("metric for this engine", name, known)
            raise InputError(f"{error} A metric of your own needs a source: metrics={{{name!r}: …}}.")


class MetricCollector:
    """Sees to it that samples carry what was subscribed to, and nothing else is collected.

    A callable is asked with each reading of an operator. One that fails gives no reading, and that is said once. One
    under the name of a metric that every engine reads is asked in place of the engine.
    """

    def __init__(self, engine: Engine, sources: Mapping[str, MetricSource] | None = None) -> None:
        self._engine = engine
        self._sources = dict(sources or {})
        self._wanted: dict[str, MetricCallable] = {}
        self._instead = {
            name: source
            for name, source in self._sources.items()
            if name in METRIC_FIELDS and not isinstance(source, Observed)
        }
        self._failing: set[str] = set()

    def subscribe(self, keys: Collection[str]) -> None:
        """Collect these from now on; one that nobody could give is an ``InputError``."""
        self.require(keys)
        called = {key: source for key in keys if (source := self._callable(key)) is not None}
        if isinstance(self._engine, Subscribable):
            self._engine.subscribe(frozenset(keys) - called.keys())
        self._wanted = called

    def require(self, keys: Collection[str]) -> None:
        """Refuse metrics that nobody could give."""
        offered = self._engine.extra_metrics if isinstance(self._engine, Subscribable) else ()
        require_metrics(keys, self._sources, offered)

    def _callable(self, key: str) -> MetricCallable | None:
        source = self._sources.get(split_key(key)[0])
        return None if source is None or isinstance(source, Observed) else source

    def completed(self, observation: Observation) -> Observation:
        """The observation with the callables' metrics in its samples."""
        if not self._wanted and not self._instead:
            return observation
        samples = {name: self._with_metrics(sample) for name, sample in observation.samples.items()}
        return replace(observation, samples=samples)

    def _with_metrics(self, sample: Sample) -> Sample:
        found = {key: self._read(key, source, sample.operator) for key, source in self._wanted.items()}
        instead = {name: self._read(name, source, sample.operator) for name, source in self._instead.items()}
        return replace(sample, metrics={**sample.metrics, **found}, **instead)  # type: ignore[arg-type]  # all gauges

    def _read(self, key: str, source: MetricCallable, operator: str) -> float | None:
        name, aggregation = split_key(key)
        try:
            value = source(operator)
            numbers = [float(value)] if isinstance(value, int | float) else [float(number) for number in value or ()]
        except Exception as error:  # noqa: BLE001
            raise_if_interrupted(error)
            # Somebody else's code: whatever it raises costs this reading and no more.
            if name not in self._failing:
                logger.warning("metric %s of %s cannot be read: %s: %s", name, operator, type(error).__name__, error)
            self._failing.add(name)
            return None
        self._failing.discard(name)
        return aggregate(numbers, aggregation)


class Clock(Protocol):
    def now(self) -> float:
        """Seconds; never goes back."""
        ...

    def wait_until(self, at_s: float, stop: threading.Event) -> None:
        """Wait for a time to come, or for ``stop`` to be set."""
        ...


class SystemClock:
    """Seconds since the epoch that never jump: read once from the wall, then counted by the monotonic clock."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset_s + time.monotonic()

    def wait_until(self, at_s: float, stop: threading.Event) -> None:
        stop.wait(max(0.0, at_s - self.now()))


class Mode(StrEnum):
    ACT = "act"
    RECOMMEND = "recommend"
    """Everything is observed, decided and journalled, and nothing is changed."""


def mode_named(name: str) -> Mode:
    """A mode by its name."""
    try:
        return Mode(name)
    except ValueError:
        raise UnknownNameError("mode", name, map(str, Mode)) from None


def as_it_is(observation: Observation) -> Observation:
    """The observation of a job that others scale: what it has is what is planned for it, as far as anybody knows."""
    instances = {
        name: replace(size, planned=size.ready, requested=size.ready) for name, size in observation.instances.items()
    }
    return replace(observation, instances=instances)


logger = logging.getLogger("headgate")

SAVE_EVERY_S = 60.0
"""What is learned while nothing changes is saved at least so often: a crash costs no more than this."""

Watcher = Callable[[Observation | None, Decision | None], None]
"""Is shown what each tick saw and decided: a live view, a test, a report."""
ShadowWatcher = Callable[[Decision, Sequence[Decision]], None]
"""Is shown what was decided, and what each shadow would have."""

EventWatcher = Callable[[Event], None]
"""Is told what happened to the loop itself."""


class ControlLoop:
    """Owns the history and makes one cycle at a time."""

    def __init__(  # noqa: PLR0913 - one keyword per part of a loop
        self,
        engine: Engine,
        policy: Policy,
        guards: Sequence[Guard],
        clock: Clock,
        *,
        job: str = "job",
        journal: Journal | None = None,
        history: History | None = None,
        metrics: Mapping[str, MetricSource] | None = None,
        mode: Mode = Mode.ACT,
        shadows: Sequence[Shadow] = (),
        requires_journal: bool = False,
    ) -> None:
        self.engine = engine
        self.policy = policy
        self.guards = Guards(guards)
        self.clock = clock
        self.job = job
        """The name by which a later run of the same job finds what this one has seen and learned."""
        self.history = History(engine.topology()) if history is None else history
        self.mode = mode
        self.shadows = Shadows(shadows)
        """Decide on the same window, and are journalled."""
        self.watchers: list[Watcher] = []
        self.shadow_watchers: list[ShadowWatcher] = []
        self.event_watchers: list[EventWatcher] = []
        self.chores: list[Callable[[], None]] = []
        """Is done before each tick: looking whether a rule file has changed."""
        self.shared_guards: list[Guard] = []
        """What jobs that share a cluster leave each other: asked last, whatever the policy, and never for shadows."""
        self._collector = MetricCollector(engine, metrics)
        self._subscribe(policy)
        self._next: tuple[AnyPolicy, Guards, str] | None = None
        self._journal = journal
        self._requires_journal = requires_journal
        """Whether a decision that cannot be journalled is not carried out."""
        self._saved_s = clock.now()
        self._resuming: tuple[Guard, ...] = ()
        self._journal_failed = False
        self.journal_fault: str | None = None
        """Why entries are missing from the journal, if any are: what was said when it could first not be written."""

    def _subscribe(self, policy: Policy) -> None:
        self._collector.subscribe({*getattr(policy, "subscriptions", ()), *self.shadows.subscriptions})

    def tick(self) -> Decision | None:
        """One cycle; ``None`` when the engine could not be observed, so that nothing could be decided."""
        now = self.clock.now()
        for chore in self.chores:
            _try(chore)
        if self._next is not None:
            _try(self._take_up_change)
        observation = self.observe()
        decision = None if observation is None else self._decide(now)
        for watcher in self.watchers:
            _tell(watcher, observation, decision)
        return decision

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Let the policy go on with what was learned before; state that does not fit is refused whole, and said."""
        before = self.policy.snapshot()
        try:
            self.policy.restore(state)
        except StateError as error:
            self.policy.restore(before)
            logger.warning("policy %s starts without what was learned before: %s", self.policy.name, error)
            self.note(
                "state-refused", f"{error} Policy {self.policy.name} starts without it.", severity=Severity.WARNING
            )

    def resume(self, sizes: Mapping[str, int]) -> None:
        """Give the job back the sizes it had when it was last seen, with the first decision."""
        bounds = [guard for guard in self.guards if isinstance(guard, Bounds)]
        self._resuming = (Resumed(sizes), *bounds)

    def change(self, policy: AnyPolicy, guards: Sequence[Guard], text: str = "") -> None:
        """Go on with another policy from the next tick on, with the history as it is; ``text`` is for the journal."""
        self._collector.require(policy.subscriptions)
        self._next = (policy, Guards(guards), text)

    def _take_up_change(self) -> None:
        change, self._next = self._next, None
        if change is None:
            return
        policy, guards, text = change
        learned = self.policy.snapshot() if policy.name == self.policy.name else None
        self._subscribe(policy)
        self.policy, self.guards = policy, guards
        self.history.retention_s = max(self.history.retention_s, policy.lookback_s)
        self.note("policy-changed", text or f"policy {policy.name}")
        if learned is not None:
            self.restore(learned)

    def note(
        self,
        kind: str,
        detail: str,
        *,
        at_s: Instant | None = None,
        numbers: Mapping[str, Number] = NO_NUMBERS,
        severity: Severity = Severity.INFO,
    ) -> None:
        """Journal something that happened to the loop."""
        self._note(Event(self.clock.now() if at_s is None else at_s, kind, detail, numbers, severity))

    def _note(self, event: Event) -> None:
        self._write(lambda journal: journal.noted(event))
        for watcher in self.event_watchers:
            _tell(watcher, event)

    def observe(self) -> Observation | None:
        """Observe the engine and remember it, without a decision; ``None`` when it could not be observed."""
        now = self.clock.now()
        try:
            seen = self._collector.completed(self.engine.observe())
            self.history.observe(seen if self.mode is Mode.ACT else as_it_is(seen))
        except EngineGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - an engine is a plug-in: nothing it raises may end the loop
            raise_if_interrupted(error)
            logger.warning("the engine could not be observed: %s", error)
            self.note("observe-failed", _message(error), at_s=now, severity=Severity.ERROR)
            return None
        observation = self.history.observations[-1]
        self.saw(observation)
        return observation

    def saw(self, observation: Observation) -> None:
        """Journal what was seen."""
        if self._journal is not None:
            self._write(lambda journal: journal.observed(observation))

    def _decide(self, now: Instant) -> Decision:
        try:
            decision = self._resumed(step(self.policy, self.guards, now, self.history))
            if self.mode is Mode.ACT:
                decision = guarded(self.shared_guards, self.history, decision)
            events = _take_events(self.policy)
        except Exception as error:
            # A policy is a plug-in: whatever it raises must not cost the job its controller.
            raise_if_interrupted(error)
            logger.exception("policy %s failed; holding", self.policy.name)
            reason = f"{self.policy.name} failed with {_message(error)}"
            self.note("policy-failed", reason, at_s=now, severity=Severity.ERROR)
            decision, events = hold(self.policy.name, now, self.history, "policy-failed", reason), ()
        if self.mode is Mode.RECOMMEND:
            decision = replace(decision, role=Role.RECOMMENDED)
        for event in events:
            self._note(event)
        self._carry_out(now, decision)
        if events or not decision.is_hold or now - self._saved_s >= SAVE_EVERY_S:
            self.save_state()
        return decision

    def _resumed(self, decision: Decision) -> Decision:
        """The first decision of a job that starts again, which gives it back the size it had."""
        if not self._resuming:
            return decision
        lifted = decision
        for guard in self._resuming:
            lifted = guard(self.history, lifted)
        self._resuming = ()
        return decision if lifted.targets == decision.targets else lifted

    def _carry_out(self, now: Instant, decision: Decision) -> None:
        # It is written down first: whoever goes on after a crash knows of every change that may have been made.
        is_journalled = self._journal is not None and self._write(lambda journal: journal.decided(decision))
        if self._requires_journal and not is_journalled:
            return
        receipt = None if self.mode is Mode.RECOMMEND else self._apply(now, decision)
        if receipt is not None and receipt.outcome is not Outcome.UNCHANGED:
            self._write(lambda journal: journal.received(receipt))
        # After the acting policy has been obeyed, and before what it decided is part of what can be looked back on.
        if self.shadows or self.shadow_watchers:
            self._let_shadows_decide(now, decision)
        if receipt is not None and (taken := _taken(decision, receipt)).verdicts:
            self.history.record(taken)

    def _let_shadows_decide(self, now: Instant, decision: Decision) -> None:
        decided = self.shadows.decide(now, self.history, self._note) if self.shadows else []
        for shadow in decided:
            self._write(partial(_journal_decision, shadow))
        for watcher in self.shadow_watchers:
            _tell(watcher, decision, decided)

    def _apply(self, now: Instant, decision: Decision) -> Receipt:
        # Holds are applied too: a decision is the desired state, and the engine repairs what deviates from it.
        try:
            return self.engine.apply(decision)
        except EngineGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            raise_if_interrupted(error)
            logger.warning("the engine could not be changed: %s", error)
            answer = Answer(Outcome.FAILED, 0, _message(error))
            return Receipt(now, dict.fromkeys(decision.verdicts, answer))

    def forget_journal(self) -> None:
        """Write nothing more: it is closed, and whoever looks after the job may still have something to tell."""
        self._journal = None

    def save_state(self) -> None:
        """Put what the policy has learned, how long instances take to start and how budgets stand into the journal."""
        self._saved_s = self.clock.now()
        if self._journal is None:
            return
        for policy in (*(shadow.policy for shadow in self.shadows), self.policy):
            self._write(partial(_save_learned, state_key(self.job, self.history.operators, policy), policy))
        times = {name: self.history.startup_times(name) for name in self.history.operators}
        if any(times.values()):
            saved = {name: durations.to_json() for name, durations in times.items()}
            self._write(lambda journal: journal.save_state(startup_key(self.job), saved))
        self._write(lambda journal: journal.save_state(budget_key(self.job), self.history.saved_budgets()))

    def _write(self, write: Callable[[Journal], None]) -> bool:
        """Whether it could be written."""
        if self._journal is None:
            return False
        try:
            write(self._journal)
        except Exception as error:  # noqa: BLE001 - a journal is a plug-in too
            raise_if_interrupted(error)
            # A full disk must not stop the scaling. It is said once, not at every tick.
            if not self._journal_failed:
                logger.error("the journal cannot be written, going on without it: %s", error)
            self._journal_failed = True
            self.journal_fault = self.journal_fault or str(error)
            return False
        self._journal_failed = False
        return True


def _journal_decision(decision: Decision, journal: Journal) -> None:
    journal.decided(decision)


def _save_learned(key: str, policy: Policy, journal: Journal) -> None:
    journal.save_state(key, policy.snapshot())


def _try(chore: Callable[[], None]) -> None:
    try:
        chore()
    except Exception as error:
        raise_if_interrupted(error)
        logger.exception("something to be done before a decision failed; the policy in force stays")


def _tell(watcher: Callable[..., None], *seen: object) -> None:
    try:
        watcher(*seen)
    except Exception as error:
        raise_if_interrupted(error)
        logger.exception("a watcher failed; it goes on being told")


def _taken(decision: Decision, receipt: Receipt) -> Decision:
    """What of a decision is now the plan: an operator whose size was refused, or could not be set, did not change."""
    refused = [name for name, answer in receipt.answers.items() if not answer.outcome.is_taken]
    if not refused:
        return decision
    return replace(
        decision, verdicts={name: verdict for name, verdict in decision.verdicts.items() if name not in refused}
    )


def _take_events(policy: Policy) -> Sequence[Event]:
    """What a policy that ``ReportsEvents`` has to tell; by its method, because asking a protocol takes its time."""
    take_events: Callable[[], Sequence[Event]] | None = getattr(policy, "take_events", None)
    return () if take_events is None else take_events()


def _message(error: Exception) -> str:
    """Our own errors are sentences; of others, their kind is worth knowing."""
    return str(error) if isinstance(error, HeadgateError) else f"{type(error).__name__}: {error}"
