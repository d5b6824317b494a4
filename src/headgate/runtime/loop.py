"""The control loop: observe, step, apply, journal, once per tick.

Nothing that fails in a tick ends the loop, and nothing that fails is silent: an engine that cannot be observed, a
policy that raises, an engine that refuses and a journal that cannot be written each become an event, and the job keeps
its size. Only an engine that is gone for good ends the loop (``EngineGoneError``).

The loop has no thread of its own: ``autoscaler.py`` drives it live, and ``simulate.py`` in virtual time.
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

from headgate.core.contracts import Engine, Guard, Policy, ReportsEvents, Subscribable
from headgate.core.errors import EngineGoneError, HeadgateError, InputError, StateError, UnknownNameError
from headgate.core.guards import Bounds, Resumed, Trusted
from headgate.core.metrics import MetricCallable, MetricSource, Observed, aggregate, split_key
from headgate.core.reading_gate import ReadingGate
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
from headgate.journal.contract import Journal, budget_key, startup_key, state_key
from headgate.policies.frame.base import AnyPolicy
from headgate.runtime.interrupts import raise_if_interrupted


@dataclass(slots=True)
class Shadow:
    """A policy that decides and never acts."""

    policy: AnyPolicy
    guards: Sequence[Guard]
    failure: str = ""
    """Its last failure, which is reported once, not at every tick."""

    def decide(self, now: Instant, window: Window) -> Decision:
        return replace(step(self.policy, self.guards, now, window), role=Role.SHADOW)

    def restore(self, state: Mapping[str, JSON]) -> str:
        """Continue with learned state; return why it cannot be used, or an empty string."""
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
        """Keys of the metrics that they need besides the basic ones."""
        return frozenset(key for shadow in self for key in shadow.policy.subscriptions)

    def decide(self, now: Instant, window: Window, note: Callable[[Event], None]) -> list[Decision]:
        """Return what each of them would do; ``note`` gets failures and their events."""
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
    """Refuse shadows that are the acting policy, or another shadow: each policy decides once."""
    for index, name in enumerate(shadows):
        if name == acting:
            raise InputError(f"shadow {name!r} is the acting policy; name others as shadows.")
        if name in shadows[:index]:
            raise InputError(f"shadow {name!r} is named twice; once is allowed.")


def require_metrics(keys: Collection[str], sources: Mapping[str, MetricSource], offered: Collection[str]) -> None:
    """Refuse metrics that have no source."""
    known = {*sources, *offered}
    for key in sorted(keys):
        name, _ = split_key(key)
        if name not in known:
            error = UnknownNameError("metric for this engine", name, known)
            raise InputError(f"{error} A metric of your own needs a source: metrics={{{name!r}: …}}.")


class MetricCollector:
    """Adds the metrics that were subscribed to to samples, and collects nothing else.

    A callable is called with each reading of an operator. One that fails gives no reading, which is reported once. One
    with the name of a metric that every engine reads replaces the engine's reading.
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
        """Collect these from now on; one without a source is an ``InputError``."""
        self.require(keys)
        called = {key: source for key in keys if (source := self._callable(key)) is not None}
        if isinstance(self._engine, Subscribable):
            self._engine.subscribe(frozenset(keys) - called.keys())
        self._wanted = called

    def require(self, keys: Collection[str]) -> None:
        """Refuse metrics that have no source."""
        offered = self._engine.extra_metrics if isinstance(self._engine, Subscribable) else ()
        require_metrics(keys, self._sources, offered)

    def _callable(self, key: str) -> MetricCallable | None:
        source = self._sources.get(split_key(key)[0])
        return None if source is None or isinstance(source, Observed) else source

    def completed(self, observation: Observation) -> Observation:
        """Return the observation with the callables' metrics in its samples."""
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
            # It is the user's code: whatever it raises costs no more than this reading.
            if name not in self._failing:
                logger.warning("metric %s of %s cannot be read: %s: %s", name, operator, type(error).__name__, error)
            self._failing.add(name)
            return None
        self._failing.discard(name)
        return aggregate(numbers, aggregation)


class Clock(Protocol):
    def now(self) -> float:
        """Return the time in seconds, which never goes back."""
        ...

    def wait_until(self, at_s: float, stop: threading.Event) -> None:
        """Wait until a time, or until ``stop`` is set."""
        ...


class SystemClock:
    """Seconds since the epoch that never jump: read once from the wall clock, then counted by the monotonic clock."""

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
    """Return a mode by its name."""
    try:
        return Mode(name)
    except ValueError:
        raise UnknownNameError("mode", name, map(str, Mode)) from None


def as_it_is(observation: Observation) -> Observation:
    """Return the observation of a job that others scale, whose ready size also counts as planned and requested."""
    instances = {
        name: replace(size, planned=size.ready, requested=size.ready) for name, size in observation.instances.items()
    }
    return replace(observation, instances=instances)


logger = logging.getLogger("headgate")

FALLBACK_AFTER_TICKS = 3
"""A policy that fails at so many ticks in a row is replaced until it works again."""
SAVE_EVERY_S = 60.0
"""Learned state is saved at least this often, also while nothing changes: a crash costs no more."""

Watcher = Callable[[Observation | None, Decision | None], None]
"""Called with what each tick observed and decided: a live view, a test, a report."""
ShadowWatcher = Callable[[Decision, Sequence[Decision]], None]
"""Called with each decision and those of the shadows."""
EventWatcher = Callable[[Event], None]
"""Called with events of the loop itself."""


class ControlLoop:
    """Owns the history and runs one cycle at a time."""

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
        """Policies that decide on the same window; their decisions are journalled."""
        self.watchers: list[Watcher] = []
        self.shadow_watchers: list[ShadowWatcher] = []
        self.event_watchers: list[EventWatcher] = []
        self.chores: list[Callable[[], None]] = []
        """Called before each tick, for example to check whether a rule file has changed."""
        self.shared_guards: list[Guard] = []
        """Guards of jobs that share a cluster: they come last, whatever the policy, and never for shadows."""
        self._collector = MetricCollector(engine, metrics)
        self._gate = ReadingGate()
        self._subscribe(policy)
        self._take_engine_events: Callable[[], Sequence[Event]] = (
            engine.take_events if isinstance(engine, ReportsEvents) else tuple
        )
        self._next: tuple[AnyPolicy, Guards, str] | None = None
        self._journal = journal
        self._requires_journal = requires_journal
        """Whether a decision that cannot be journalled is not carried out."""
        self._saved_s = clock.now()
        self._resuming: tuple[Guard, ...] = ()
        self.make_fallback: Callable[[], tuple[Policy, Guards]] | None = None
        """Makes the policy that decides while the acting one fails, with its guards."""
        self._fallback: tuple[Policy, Guards] | None = None
        self._failed_ticks = 0
        self._journal_failed = False
        self.journal_fault: str | None = None
        """Why entries are missing from the journal, if any are: the first error."""

    def _subscribe(self, policy: Policy) -> None:
        self._collector.subscribe({*getattr(policy, "subscriptions", ()), *self.shadows.subscriptions})

    def tick(self) -> Decision | None:
        """Run one cycle; return ``None`` if the engine could not be observed, so that nothing was decided."""
        now = self.clock.now()
        _try(self._note_engine_events)
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
        """Let the policy continue with learned state; state that does not fit is refused as a whole, and reported."""
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
        """Restore the last known sizes of the job with the first decision."""
        bounds = [guard for guard in self.guards if isinstance(guard, Bounds)]
        self._resuming = (Resumed(sizes), *bounds)

    def change(self, policy: AnyPolicy, guards: Sequence[Guard], text: str = "") -> None:
        """Use another policy from the next tick on, with the same history; ``text`` is for the journal."""
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
        self._fallback, self._failed_ticks = None, 0
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

    def _note_engine_events(self) -> None:
        for event in self._take_engine_events():
            self._note(event)

    def _note(self, event: Event) -> None:
        self._write(lambda journal: journal.noted(event))
        for watcher in self.event_watchers:
            _tell(watcher, event)

    def observe(self) -> Observation | None:
        """Observe the engine without a decision; return ``None`` if it could not be observed."""
        now = self.clock.now()
        try:
            checked = self._gate.check(self._collector.completed(self.engine.observe()))
            seen = checked.observation
            self.history.observe(seen if self.mode is Mode.ACT else as_it_is(seen), checked.doubted)
        except EngineGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - an engine is a plug-in: nothing it raises may end the loop
            raise_if_interrupted(error)
            logger.warning("the engine could not be observed: %s", error)
            self.note("observe-failed", _message(error), at_s=now, severity=Severity.ERROR)
            return None
        for event in checked.events:
            self._note(event)
        observation = self.history.observations[-1]
        self.journal_observation(observation)
        return observation

    def journal_observation(self, observation: Observation) -> None:
        """Journal an observation."""
        if self._journal is not None:
            self._write(lambda journal: journal.observed(observation))

    def _decide(self, now: Instant) -> Decision:
        events: Sequence[Event] = ()
        try:
            decision = self._shared(self._resumed(self._step(self.policy, self.guards, now)))
            events = _take_events(self.policy)
        except Exception as error:
            # A policy is a plug-in: whatever it raises must not cost the job its controller.
            raise_if_interrupted(error)
            logger.exception("policy %s failed", self.policy.name)
            decision = self._decide_without(f"{self.policy.name} failed with {_message(error)}", now)
        else:
            if self._failed_ticks >= FALLBACK_AFTER_TICKS:
                self.note("policy-back", f"{self.policy.name} works again and decides", at_s=now)
            self._failed_ticks, self._fallback = 0, None
        if self.mode is Mode.RECOMMEND:
            decision = replace(decision, role=Role.RECOMMENDED)
        for event in events:
            self._note(event)
        self._carry_out(now, decision)
        if events or not decision.is_hold or now - self._saved_s >= SAVE_EVERY_S:
            self.save_state()
        return decision

    def _step(self, policy: Policy, guards: Guards, now: Instant) -> Decision:
        decision = step(policy, guards, now, self.history)
        for guard in guards:
            if isinstance(guard, Trusted):
                decision = guard.without_steady(self.history, decision)
        return decision

    def _shared(self, decision: Decision) -> Decision:
        """Return what other jobs on the cluster leave of a decision."""
        return guarded(self.shared_guards, self.history, decision) if self.mode is Mode.ACT else decision

    def _decide_without(self, reason: str, now: Instant) -> Decision:
        """Return the decision while the acting policy fails: a hold, and after a few ticks that of the fallback."""
        self._failed_ticks += 1
        self.note("policy-failed", reason, at_s=now, severity=Severity.ERROR)
        if self._failed_ticks >= FALLBACK_AFTER_TICKS and self.make_fallback is not None:
            try:
                if self._fallback is None:
                    policy, guards = self._fallback = self.make_fallback()
                    text = f"{policy.name} decides until {self.policy.name} works again"
                    self.note("policy-fallback", text, at_s=now, severity=Severity.WARNING)
                policy, guards = self._fallback
                return self._shared(self._step(policy, guards, now))
            except Exception as error:
                raise_if_interrupted(error)
                logger.exception("the fallback failed, too; holding")
        return hold(self.policy.name, now, self.history, "policy-failed", reason)

    def _resumed(self, decision: Decision) -> Decision:
        """Return the first decision of a restarted job, which restores the size it had."""
        if not self._resuming:
            return decision
        lifted = decision
        for guard in self._resuming:
            lifted = guard(self.history, lifted)
        self._resuming = ()
        return decision if lifted.targets == decision.targets else lifted

    def _carry_out(self, now: Instant, decision: Decision) -> None:
        # It is journalled first: after a crash, the next loop knows every change that may have been made.
        is_journalled = self._journal is not None and self._write(lambda journal: journal.decided(decision))
        if self._requires_journal and not is_journalled:
            return
        receipt = None if self.mode is Mode.RECOMMEND else self._apply(now, decision)
        if receipt is not None and receipt.outcome is not Outcome.UNCHANGED:
            self._write(lambda journal: journal.received(receipt))
        # After the acting policy's decision is applied, and before it becomes a part of the history.
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
        """Write nothing more, because the journal is closed while events may still be noted."""
        self._journal = None

    def save_state(self) -> None:
        """Save learned state, start-up times and error budgets in the journal."""
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
        """Write to the journal; return whether that succeeded."""
        if self._journal is None:
            return False
        try:
            write(self._journal)
        except Exception as error:  # noqa: BLE001 - a journal is a plug-in too
            raise_if_interrupted(error)
            # A full disk must not stop the scaling. It is logged once, not at every tick.
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
        logger.exception("a watcher failed; it continues to be notified")


def _taken(decision: Decision, receipt: Receipt) -> Decision:
    """Return the part of a decision that is now the plan, without operators whose size was refused or failed."""
    refused = [name for name, answer in receipt.answers.items() if not answer.outcome.is_taken]
    if not refused:
        return decision
    return replace(
        decision, verdicts={name: verdict for name, verdict in decision.verdicts.items() if name not in refused}
    )


def _take_events(policy: Policy) -> Sequence[Event]:
    """Return the events of a policy that ``ReportsEvents``; ``isinstance`` of a protocol would be slow."""
    take_events: Callable[[], Sequence[Event]] | None = getattr(policy, "take_events", None)
    return () if take_events is None else take_events()


def _message(error: Exception) -> str:
    """Return the text of an error: our own are sentences, others need their kind."""
    return str(error) if isinstance(error, HeadgateError) else f"{type(error).__name__}: {error}"
