"""What happened in a run, told from its entries: each change of size and why, what stopped the others, and the holds.

Nothing is added to what was journalled and nothing is left out; holds that repeat each other are told as one, so are
events. The result is data: the command line, the report and JSON each render it their way.
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
    GuardNote,
    Instances,
    Instant,
    Number,
    Observation,
    Outcome,
    Receipt,
    Role,
    Severity,
    Verdict,
)
from headgate.core.units import format_duration, plain
from headgate.journal.expectations import AFTER, Expectation, expectations, expectations_in_words, without_expectations
from headgate.journal.sizes import CLOCKS_AGREE_S

SEVERITY_KINDS = {Severity.INFO: "event", Severity.WARNING: "warning", Severity.ERROR: "failed"}
"""The kind of row in which an event is shown on a page."""


@dataclass(frozen=True, slots=True)
class Resize:
    """A change of size that was decided, what the engine answered, and when it was seen to be done."""

    at_s: Instant
    verdict: Verdict
    receipt: Receipt | None = None
    """The answer for this operator."""
    reached_s: Instant | None = None
    """When an observation first showed all planned instances ready, and no others."""
    overtaken_s: Instant | None = None
    """When the next change of the operator's size was decided."""
    expected: tuple[Expectation, ...] = ()
    """What was expected of it, and what came."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Decisions in a row that left an operator's size alone for the same reason."""

    at_s: Instant
    last_s: Instant
    count: int
    verdict: Verdict
    """The last of them; numbers and wording are its own."""

    @property
    def is_stopped(self) -> bool:
        """The policy wanted another size, and a guard stopped it."""
        return self.verdict.proposed != self.verdict.current


@dataclass(frozen=True, slots=True)
class Advice:
    """A change of size that was recommended, in a row of decisions, and is not made by whoever recommends it."""

    at_s: Instant
    last_s: Instant
    count: int
    verdict: Verdict
    """The last of them; numbers and wording are its own."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A time in which nothing was heard of an operator, so that its last known size had to stand."""

    at_s: Instant
    last_s: Instant
    operator: str
    instances: Instances
    heard_s: Instant | None = None
    """When it was heard of again."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """An event that came again and again in the same words, with nothing else to tell in between."""

    at_s: Instant
    last_s: Instant
    count: int
    event: Event
    """The last of them."""


Item: TypeAlias = Resize | Hold | Advice | Silence | Receipt | Event | Repeated
"""One thing to tell. A receipt stands on its own, for one operator, where the engine acted to keep its size."""


def tell(
    decisions: Sequence[Decision],
    observations: Sequence[Observation] = (),
    receipts: Sequence[Receipt] = (),
    events: Sequence[Event] = (),
) -> list[Item]:
    """The story of one run, in the order of time; what shadows would have done is not part of it."""
    acting = [decision for decision in decisions if decision.role is not Role.SHADOW]
    answers, unasked = _match(acting, receipts)
    items: list[Item] = [*events, *unasked]
    for operator in dict.fromkeys(name for decision in acting for name in decision.verdicts):
        told = list(_of_operator(operator, acting, answers))
        items.extend(_expecting(_with_effects(told, _sizes(operator, observations)), observations))
    for operator in dict.fromkeys(name for observation in observations for name in observation.instances):
        items.extend(_silences(operator, observations))
    return list(_repeats_as_one(sorted(items, key=lambda item: item.at_s)))


def latest(items: Sequence[Item], count: int) -> list[Item]:
    """The end of a story, from the last ``count`` changes or stopped changes on."""
    weighty = [
        index
        for index, item in enumerate(items)
        if isinstance(item, Resize | Advice) or (isinstance(item, Hold) and item.is_stopped)
    ]
    if count <= 0 or len(weighty) <= count:
        return list(items) if count > 0 else []
    return list(items[weighty[-count] :])


def acting_notes(verdict: Verdict) -> list[GuardNote]:
    """What the guards had to say; those that let the target pass without a word are left out."""
    return [note for note in verdict.notes if note.before != note.after or note.why]


def unaffordable(items: Sequence[Item]) -> dict[str, str]:
    """Why the objective and the limit on the cost cannot both be had, by operator, as of the newest of some items."""
    newest = {item.verdict.operator: item.verdict for item in items if isinstance(item, Resize | Hold | Advice)}
    return {
        operator: note.why
        for operator, verdict in newest.items()
        for note in verdict.notes
        if note.guard == Affordable.name and note.before != note.after
    }


def note_in_words(note: GuardNote) -> str:
    """
    >>> note_in_words(GuardNote("step-limit", 9, 4, "at most 2 more at a time"))
    'step-limit made it 4 instead of 9: at most 2 more at a time'
    """
    if note.before == note.after:
        return f"{note.guard} let it pass: {note.why}"
    return f"{note.guard} made it {note.after} instead of {note.before}: {note.why}"


def numbers_in_words(numbers: Mapping[str, Number]) -> str:
    """
    >>> numbers_in_words({"latency_s": 12.3456, "instances": 4, "trend": None})
    'latency_s 12.3 · instances 4 · trend unknown'
    """
    told = without_expectations(numbers)
    return " · ".join(f"{name} {_number_in_words(value)}" for name, value in told.items())


def _number_in_words(value: Number) -> str:
    if value is None:
        return "unknown"
    return plain(value) if isinstance(value, float) else str(value)


def effect_in_words(resize: Resize) -> str:
    """What became of a change of size, as far as it is known."""
    parts = []
    if (receipt := resize.receipt) is not None:
        detail = f" ({receipt.detail})" if receipt.detail else ""
        parts.append(f"{receipt.outcome} after {format_duration(max(0.0, receipt.at_s - resize.at_s))}{detail}")
        if not receipt.outcome.is_taken:
            return parts[0]
    if resize.reached_s is not None:
        parts.append(f"{resize.verdict.target} ready after {format_duration(resize.reached_s - resize.at_s)}")
    elif resize.overtaken_s is not None:
        parts.append(f"overtaken by the next change after {format_duration(resize.overtaken_s - resize.at_s)}")
    elif receipt is not None and receipt.outcome is Outcome.DELIVERED:
        parts.append("not confirmed yet")
    else:
        parts.append("not seen ready yet")
    return "; ".join(parts)


def expected_in_words(resize: Resize) -> str:
    """What was expected of a change of size, and what came; nothing where nobody said."""
    after_s = resize.verdict.numbers.get(AFTER)
    if not resize.expected or not isinstance(after_s, int | float):
        return ""
    return expectations_in_words(after_s, resize.expected)


def silence_in_words(silence: Silence) -> str:
    """
    >>> silence_in_words(Silence(60.0, 110.0, "enrich", Instances(3, 3, 2, stale=True), heard_s=120.0))
    'nothing was heard of it for 60s; its last known size, 2 of 3 ready, stood'
    """
    stood = f"its last known size, {silence.instances.ready} of {silence.instances.planned} ready,"
    if silence.heard_s is None:
        return f"nothing has been heard of it since; {stood} stands"
    return f"nothing was heard of it for {format_duration(silence.heard_s - silence.at_s)}; {stood} stood"


_Answers: TypeAlias = Mapping[tuple[Instant, str], Receipt]
"""The engine's answers for one operator each, by the time of the decision they answer and the operator."""


def _match(decisions: Sequence[Decision], receipts: Sequence[Receipt]) -> tuple[_Answers, list[Receipt]]:
    """The engine's answers, and what it did without having been asked to."""
    times = [decision.at_s for decision in decisions]
    answers: dict[tuple[Instant, str], Receipt] = {}
    unasked = []
    for receipt in receipts:
        index = bisect_right(times, receipt.at_s + CLOCKS_AGREE_S) - 1
        if index < 0:
            continue  # Its decision lies before what is told.
        for operator, answer in receipt.answers.items():
            own = Receipt(receipt.at_s, {operator: answer})
            verdict = decisions[index].verdicts.get(operator)
            if verdict is not None and verdict.change:
                answers[times[index], operator] = own
            elif answer.outcome is not Outcome.UNCHANGED:
                unasked.append(own)
    return answers, unasked


def _of_operator(operator: str, decisions: Iterable[Decision], answers: _Answers) -> Iterator[Resize | Hold | Advice]:
    row: Hold | Advice | None = None
    for decision in decisions:
        verdict = decision.verdicts.get(operator)
        if verdict is None:
            continue
        one = _alone(decision, verdict, answers)
        if row is not None and not isinstance(one, Resize) and type(one) is type(row) and _alike(row.verdict, verdict):
            row = replace(row, last_s=decision.at_s, count=row.count + 1, verdict=verdict)
            continue
        if row is not None:
            yield row
        row = None if isinstance(one, Resize) else one
        if isinstance(one, Resize):
            yield one
    if row is not None:
        yield row


def _alone(decision: Decision, verdict: Verdict, answers: _Answers) -> Resize | Hold | Advice:
    """What one decision is for one operator."""
    if not verdict.change:
        return Hold(decision.at_s, decision.at_s, 1, verdict)
    if decision.role is Role.RECOMMENDED:
        return Advice(decision.at_s, decision.at_s, 1, verdict)
    return Resize(decision.at_s, verdict, answers.get((decision.at_s, verdict.operator)))


def _alike(one: Verdict, other: Verdict) -> bool:
    return _kind(one) == _kind(other)


def _kind(verdict: Verdict) -> tuple[object, ...]:
    direction = (verdict.proposed > verdict.current) - (verdict.proposed < verdict.current)
    stopped_by = [note.guard for note in verdict.notes if note.before != note.after]
    return verdict.current, verdict.change, verdict.code, direction, stopped_by


def _expecting(
    told: Iterable[Resize | Hold | Advice], observations: Sequence[Observation]
) -> Iterator[Resize | Hold | Advice]:
    """The same, and what was expected of changes."""
    for item in told:
        if isinstance(item, Resize):
            expected = expectations(item.verdict, item.at_s, observations)
            yield replace(item, expected=tuple(expected)) if expected else item
        else:
            yield item


def _repeats_as_one(items: Iterable[Item]) -> Iterator[Item]:
    """The same, with events that repeat each other told as one."""
    for _, alike in groupby(items, key=_what_it_says):
        row = list(alike)
        last = row[-1]
        if len(row) > 1 and isinstance(last, Event):
            yield Repeated(row[0].at_s, last.at_s, len(row), last)
        else:
            yield from row


def _what_it_says(item: Item) -> tuple[str, str] | None:
    return (item.kind, item.detail) if isinstance(item, Event) else None


def _sizes(operator: str, observations: Iterable[Observation]) -> list[tuple[Instant, Instances]]:
    return [
        (observation.at_s, observation.instances[operator])
        for observation in observations
        if operator in observation.instances
    ]


def _with_effects(
    told: Sequence[Resize | Hold | Advice], sizes: Sequence[tuple[Instant, Instances]]
) -> Iterator[Resize | Hold | Advice]:
    times = [at_s for at_s, _ in sizes]
    overtaken_s: Instant | None = None
    done: list[Resize | Hold | Advice] = []
    for item in reversed(told):
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
    """The times in which observations did not tell the size of an operator that had been told before."""
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
