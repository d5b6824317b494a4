"""The story of a run: each change of size and why, the changes that guards stopped, the holds and the events.

``story_of`` turns journal entries into items; ``rows.py`` puts them into words. Nothing is added to the journal's
entries and nothing left out; consecutive holds that repeat each other are one item, and so are repeated events.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

from headgate.core.affordable import Affordable
from headgate.core.types import (
    Decision,
    Event,
    Instances,
    Instant,
    Observation,
    Outcome,
    Receipt,
    Role,
    Verdict,
)
from headgate.journal.sizes import CLOCKS_AGREE_S
from headgate.render.expectations import Expectation, expectations


@dataclass(frozen=True, slots=True)
class Resize:
    """A decided change of size, the engine's answer, and when all instances were ready."""

    at_s: Instant
    verdict: Verdict
    receipt: Receipt | None = None
    """The answer for this operator."""
    reached_s: Instant | None = None
    """When an observation first showed all planned instances ready, and no others."""
    overtaken_s: Instant | None = None
    """When the next change of the operator's size was decided."""
    expected: tuple[Expectation, ...] = ()
    """The values that the policy predicted for after the change, with the observed ones."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Consecutive decisions that left an operator's size unchanged for the same reason."""

    at_s: Instant
    last_s: Instant
    count: int
    verdict: Verdict
    """Of the last of these decisions."""

    @property
    def is_stopped(self) -> bool:
        """The policy wanted another size, and a guard stopped it."""
        return self.verdict.proposed != self.verdict.current


@dataclass(frozen=True, slots=True)
class Advice:
    """Consecutive decisions of a loop that only recommends, with the same change of size."""

    at_s: Instant
    last_s: Instant
    count: int
    verdict: Verdict
    """Of the last of these decisions."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A time without readings of an operator, in which its last known size was assumed."""

    at_s: Instant
    last_s: Instant
    operator: str
    instances: Instances
    heard_s: Instant | None = None
    """When its next reading arrived."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """An event that occurred several times with the same details and nothing in between."""

    at_s: Instant
    last_s: Instant
    count: int
    event: Event
    """The last of them."""


Item: TypeAlias = Resize | Hold | Advice | Silence | Receipt | Event | Repeated
"""One item of a story. A receipt is an item of its own where the engine acted without a decision, to keep a size."""


def story_of(
    decisions: Sequence[Decision],
    observations: Sequence[Observation] = (),
    receipts: Sequence[Receipt] = (),
    events: Sequence[Event] = (),
) -> list[Item]:
    """Return the story of one run, in the order of time; decisions of shadows are left out."""
    acting = [decision for decision in decisions if decision.role is not Role.SHADOW]
    answers, spontaneous = _match(acting, receipts)
    items: list[Item] = [*events, *spontaneous]
    for operator in dict.fromkeys(name for decision in acting for name in decision.verdicts):
        own = list(_of_operator(operator, acting, answers))
        items.extend(_with_predictions(_with_effects(own, _sizes(operator, observations)), observations))
    for operator in dict.fromkeys(name for observation in observations for name in observation.instances):
        items.extend(_silences(operator, observations))
    return list(_merge_repeated_events(sorted(items, key=lambda item: item.at_s)))


def latest(items: Sequence[Item], count: int) -> list[Item]:
    """Return the end of a story, from its last ``count`` changes or stopped changes on."""
    changes = [
        index
        for index, item in enumerate(items)
        if isinstance(item, Resize | Advice) or (isinstance(item, Hold) and item.is_stopped)
    ]
    if count <= 0 or len(changes) <= count:
        return list(items) if count > 0 else []
    return list(items[changes[-count] :])


def is_decision_on(item: Item, operator: str) -> bool:
    """Return whether an item is about decisions on this operator."""
    return isinstance(item, Resize | Hold | Advice) and item.verdict.operator == operator


def unaffordable(items: Sequence[Item]) -> dict[str, str]:
    """Return why the objective and the cost limit cannot both be met, by operator, as of its newest decision."""
    newest = {item.verdict.operator: item.verdict for item in items if isinstance(item, Resize | Hold | Advice)}
    return {
        operator: note.why
        for operator, verdict in newest.items()
        for note in verdict.notes
        if note.guard == Affordable.name and note.before != note.after
    }


_Answers: TypeAlias = Mapping[tuple[Instant, str], Receipt]
"""Receipts with the answer for a single operator, by the time of the decision and the operator."""


def _match(decisions: Sequence[Decision], receipts: Sequence[Receipt]) -> tuple[_Answers, list[Receipt]]:
    """Return the engine's answers to decisions, and the receipts for actions without a decision."""
    times = [decision.at_s for decision in decisions]
    answers: dict[tuple[Instant, str], Receipt] = {}
    spontaneous = []
    for receipt in receipts:
        index = bisect_right(times, receipt.at_s + CLOCKS_AGREE_S) - 1
        if index < 0:
            continue  # Its decision is older than those given.
        for operator, answer in receipt.answers.items():
            own = Receipt(receipt.at_s, {operator: answer})
            verdict = decisions[index].verdicts.get(operator)
            if verdict is not None and verdict.change:
                answers[times[index], operator] = own
            elif answer.outcome is not Outcome.UNCHANGED:
                spontaneous.append(own)
    return answers, spontaneous


def _of_operator(operator: str, decisions: Iterable[Decision], answers: _Answers) -> Iterator[Resize | Hold | Advice]:
    repeated: Hold | Advice | None = None
    for decision in decisions:
        verdict = decision.verdicts.get(operator)
        if verdict is None:
            continue
        item = _item_of(decision, verdict, answers)
        if (
            repeated is not None
            and not isinstance(item, Resize)
            and type(item) is type(repeated)
            and _gist(repeated.verdict) == _gist(verdict)
        ):
            repeated = replace(repeated, last_s=decision.at_s, count=repeated.count + 1, verdict=verdict)
            continue
        if repeated is not None:
            yield repeated
        repeated = None if isinstance(item, Resize) else item
        if isinstance(item, Resize):
            yield item
    if repeated is not None:
        yield repeated


def _item_of(decision: Decision, verdict: Verdict, answers: _Answers) -> Resize | Hold | Advice:
    if not verdict.change:
        return Hold(decision.at_s, decision.at_s, 1, verdict)
    if decision.role is Role.RECOMMENDED:
        return Advice(decision.at_s, decision.at_s, 1, verdict)
    return Resize(decision.at_s, verdict, answers.get((decision.at_s, verdict.operator)))


def _gist(verdict: Verdict) -> tuple[object, ...]:
    """Return what two verdicts must have in common to be one item."""
    direction = (verdict.proposed > verdict.current) - (verdict.proposed < verdict.current)
    stopped_by = [note.guard for note in verdict.notes if note.before != note.after]
    return verdict.current, verdict.change, verdict.code, direction, stopped_by


def _with_predictions(
    items: Iterable[Resize | Hold | Advice], observations: Sequence[Observation]
) -> Iterator[Resize | Hold | Advice]:
    for item in items:
        if isinstance(item, Resize):
            expected = expectations(item.verdict, item.at_s, observations)
            yield replace(item, expected=tuple(expected)) if expected else item
        else:
            yield item


def _merge_repeated_events(items: Iterable[Item]) -> Iterator[Item]:
    for _, group in groupby(items, key=lambda item: (item.kind, item.detail) if isinstance(item, Event) else None):
        same = list(group)
        last = same[-1]
        if len(same) > 1 and isinstance(last, Event):
            yield Repeated(same[0].at_s, last.at_s, len(same), last)
        else:
            yield from same


def _sizes(operator: str, observations: Iterable[Observation]) -> list[tuple[Instant, Instances]]:
    return [
        (observation.at_s, observation.instances[operator])
        for observation in observations
        if operator in observation.instances
    ]


def _with_effects(
    items: Sequence[Resize | Hold | Advice], sizes: Sequence[tuple[Instant, Instances]]
) -> Iterator[Resize | Hold | Advice]:
    times = [at_s for at_s, _ in sizes]
    overtaken_s: Instant | None = None
    done: list[Resize | Hold | Advice] = []
    for item in reversed(items):
        if not isinstance(item, Resize):
            done.append(item)
            continue
        end = len(sizes) if overtaken_s is None else bisect_left(times, overtaken_s)
        target = item.verdict.target
        # The plan is compared too: before the engine has it, ready may equal the target by chance.
        reached_s = next(
            (
                at_s
                for at_s, instances in sizes[bisect_left(times, item.at_s) : end]
                if instances.planned == target == instances.ready
            ),
            None,
        )
        done.append(replace(item, reached_s=reached_s, overtaken_s=overtaken_s))
        overtaken_s = item.at_s
    return reversed(done)


def _silences(operator: str, observations: Iterable[Observation]) -> Iterator[Silence]:
    """Yield the times in which observations lack the size of an operator that earlier ones had."""
    known: Instances | None = None
    silence: Silence | None = None
    for observation in observations:
        seen = observation.instances.get(operator)
        if seen is not None and not seen.stale:
            if silence is not None:
                yield replace(silence, heard_s=observation.at_s)
            known, silence = seen, None
        elif silence is not None:
            silence = replace(silence, last_s=observation.at_s)
        elif (last := known if seen is None else seen) is not None:
            silence = Silence(observation.at_s, observation.at_s, operator, last)
    if silence is not None:
        yield silence
