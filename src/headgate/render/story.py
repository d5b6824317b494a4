"""The story of a run: each change of size and why, the changes that guards stopped, the holds and the events.

``story_of`` turns journal entries into items, ``row_of`` puts an item into words. Nothing is added to the journal's
entries and nothing left out; consecutive holds that repeat each other are one item, and so are repeated events.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import TypeAlias

from headgate.core.affordable import Affordable
from headgate.core.guards import is_capped, is_limited_by_cluster
from headgate.core.types import (
    JSON,
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
from headgate.journal import codec
from headgate.journal.contract import CLOCKS_AGREE_S

PREFIX = "expected_"
AFTER = "expected_after_s"
LATEST_S = 15.0
"""An observation this long after the predicted moment says nothing about the prediction."""
UNITS = {"latency_s": ("latency", " s"), "backlog": ("backlog", ""), "instances": ("instances", "")}


@dataclass(frozen=True, slots=True)
class Expectation:
    """A predicted value with its interval, and the observed value; ``None`` while that is unknown."""

    name: str
    middle: float
    low: float
    high: float
    actual: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the observed value lies within the interval."""
        return None if self.actual is None else self.low - 1e-6 <= self.actual <= self.high + 1e-6


def expectations(verdict: Verdict, at_s: Instant, observations: Sequence[Observation]) -> list[Expectation]:
    """Return the predictions of a verdict with the observed values; observations are in the order of time."""
    numbers = verdict.numbers
    after_s = numbers.get(AFTER)
    if not isinstance(after_s, int | float):
        return []
    due = _due(observations, at_s + after_s)
    found = []
    for name in UNITS:
        middle, low, high = (numbers.get(f"{PREFIX}{name}{end}") for end in ("", "_low", "_high"))
        if isinstance(middle, int | float) and isinstance(low, int | float) and isinstance(high, int | float):
            found.append(Expectation(name, middle, low, high, _actual(name, verdict.operator, due)))
    return found


def coverage(decisions: Iterable[Decision], observations: Sequence[Observation]) -> dict[str, tuple[int, int]]:
    """Return how often each predicted quantity could be checked, and how often its interval held."""
    counts: dict[str, tuple[int, int]] = {}
    for decision in decisions:
        if decision.role is Role.SHADOW:
            continue
        for verdict in decision.verdicts.values():
            for prediction in expectations(verdict, decision.at_s, observations):
                if prediction.is_met is not None:
                    answered, met = counts.get(prediction.name, (0, 0))
                    counts[prediction.name] = (answered + 1, met + prediction.is_met)
    return counts


_PREDICTIONS = frozenset({AFTER, *(f"{PREFIX}{name}{end}" for name in UNITS for end in ("", "_low", "_high"))})
"""Numbers of a decision that are its predictions."""


def expectations_in_words(after_s: float, expected: Sequence[Expectation]) -> str:
    """
    >>> expectations_in_words(60.0, [Expectation("backlog", 120.0, 80.0, 200.0, 130.0)])
    'expected after 60s: backlog 120 (80 … 200), observed 130'
    >>> expectations_in_words(60.0, [Expectation("latency_s", 3.0, 1.0, 5.0, 9.0)])
    'expected after 60s: latency 3 s (1 … 5), observed 9 s, outside of it'
    """
    parts = []
    for prediction in expected:
        name, unit = UNITS[prediction.name]
        text = f"{name} {plain(prediction.middle)}{unit} ({plain(prediction.low)} … {plain(prediction.high)})"
        if prediction.actual is not None:
            text += f", observed {plain(prediction.actual)}{unit}{'' if prediction.is_met else ', outside of it'}"
        parts.append(text)
    return f"expected after {format_duration(after_s)}: {'; '.join(parts)}"


def coverage_in_words(counts: Mapping[str, tuple[int, int]]) -> list[str]:
    """
    >>> coverage_in_words({"backlog": (200, 181)})
    ['Predictions within their interval: backlog 90.5 % of 200 times (90 % is stated).']
    >>> coverage_in_words({})
    []
    """
    parts = [
        f"{UNITS[name][0]} {100 * met / answered:.1f} % of {answered} times" for name, (answered, met) in counts.items()
    ]
    return [f"Predictions within their interval: {', '.join(parts)} (90 % is stated)."] if parts else []


def _due(observations: Sequence[Observation], at_s: Instant) -> Observation | None:
    index = bisect_left(observations, at_s - 1e-6, key=lambda observation: observation.at_s)
    if index == len(observations) or observations[index].at_s > at_s + LATEST_S:
        return None
    return observations[index]


def _actual(name: str, operator: str, seen: Observation | None) -> float | None:
    if seen is None:
        return None
    if name == "instances":
        instances = seen.instances.get(operator)
        return None if instances is None else float(instances.ready)
    sample = seen.samples.get(operator)
    value = None if sample is None else getattr(sample, name)
    return None if value is None else float(value)


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

    @property
    def is_capped(self) -> bool:
        """The size is the maximum, and that is not enough."""
        return is_capped(self.verdict)


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
    resumed_s: Instant | None = None
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
        if isinstance(item, Resize | Advice) or (isinstance(item, Hold) and (item.is_stopped or item.is_capped))
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


_QUANTITY = re.compile(
    r"[-+]?\d[\d.,]*( ?(ms|s|m|h|d|%|×)\b)?( \d+(s|m|h)\b)?|\b(unknown|no|one|instances?|is|are|was|were)\b"
)
"""What differs between two reasons with the same cause."""


def _gist(verdict: Verdict) -> tuple[object, ...]:
    """Return what two verdicts must have in common to be one item."""
    direction = (verdict.proposed > verdict.current) - (verdict.proposed < verdict.current)
    stopped_by = [note.guard for note in verdict.notes if note.before != note.after]
    cause = _QUANTITY.sub("#", verdict.reason)
    return verdict.current, verdict.change, verdict.code, direction, stopped_by, is_capped(verdict), cause


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
                yield replace(silence, resumed_s=observation.at_s)
            known, silence = seen, None
        elif silence is not None:
            silence = replace(silence, last_s=observation.at_s)
        elif (last := known if seen is None else seen) is not None:
            silence = Silence(observation.at_s, observation.at_s, operator, last)
    if silence is not None:
        yield silence


class RowKind(StrEnum):
    """What a row shows; renderers choose colours and signs by it."""

    OUT = "out"
    IN = "in"
    STOPPED = "stopped"
    """A guard stopped the change that the policy proposed."""
    ADVICE = "advice"
    """A change that was recommended and not made."""
    CAPPED = "capped"
    """The maximum size is not enough."""
    HOLD = "hold"
    EVENT = "event"
    WARNING = "warning"
    FAILED = "failed"


KIND_OF_SEVERITY = {Severity.INFO: RowKind.EVENT, Severity.WARNING: RowKind.WARNING, Severity.ERROR: RowKind.FAILED}


@dataclass(frozen=True, slots=True)
class Row:
    """One item of a story in words, the same in the terminal, the report and the dashboard."""

    at_s: Instant
    kind: RowKind
    operator: str
    """Empty for events, which concern the whole job."""
    change: str
    reason: str
    numbers: str = ""
    """The numbers behind the decision."""
    notes: tuple[str, ...] = ()
    """What guards did."""
    effects: tuple[str, ...] = ()
    """How the engine answered, and how predictions turned out."""
    last_s: Instant = 0.0
    count: int = 1
    ladder: str = ""
    """What the policy expected of the sizes that it compared."""
    size: int | None = None
    """Instances decided, recommended or, where a guard stopped the change, proposed."""

    @property
    def key(self) -> str:
        """An id that stays the same each time the story is rendered."""
        subject = self.operator or self.change
        return f"d-{round(1000 * self.at_s)}-{''.join(letter if letter.isalnum() else '-' for letter in subject)}"

    def repetition(self, *, is_thinned: bool = False) -> str:
        """How often it happened; where the journal was thinned and the count is unknown, only for how long."""
        if self.count == 1:
            return ""
        span = format_duration(self.last_s - self.at_s)
        return f"for {span}" if is_thinned else f"{self.count} times in {span}"


def row_of(item: Item) -> Row:
    """Return an item of a story as a row."""
    match item:
        case Resize() | Hold() | Advice():
            return _row_of_verdict(item)
        case Silence(operator=operator):
            return Row(item.at_s, RowKind.FAILED, operator, "silent", silence_in_words(item))
        case Receipt(answers=answers):
            reason = item.detail or "it acted to keep the size"
            return Row(item.at_s, RowKind.EVENT, ", ".join(answers), f"engine {item.outcome}", reason)
        case Event():
            return Row(item.at_s, KIND_OF_SEVERITY[item.severity], "", item.kind, item.detail)
        case Repeated(event=event):
            return replace(row_of(event), at_s=item.at_s, last_s=item.last_s, count=item.count)


def _row_of_verdict(item: Resize | Hold | Advice) -> Row:
    verdict = item.verdict
    if isinstance(item, Hold) and is_capped(verdict):
        kind, change = RowKind.CAPPED, f"capped at {verdict.current}"
    elif isinstance(item, Resize):
        kind = RowKind.OUT if verdict.change > 0 else RowKind.IN
        change = f"{verdict.current} → {verdict.target}"
    elif isinstance(item, Advice):
        kind, change = RowKind.ADVICE, f"{verdict.current}, {verdict.target} recommended"
    elif item.is_stopped:
        by_cluster = is_limited_by_cluster(verdict)
        change = (
            f"limited by the cluster at {verdict.current}"
            if by_cluster
            else f"{verdict.current}, not {verdict.proposed}"
        )
        kind = RowKind.STOPPED
    else:
        kind, change = RowKind.HOLD, f"hold {verdict.current}"
    row = Row(
        item.at_s,
        kind,
        verdict.operator,
        change,
        verdict.reason,
        numbers_in_words(verdict.numbers),
        tuple(note_in_words(note) for note in acting_notes(verdict)),
        ladder=ladder_in_words(verdict),
        size=verdict.proposed if kind is RowKind.STOPPED else verdict.target,
    )
    if isinstance(item, Resize):
        effects = (effect_in_words(item), predictions_in_words(item))
        return replace(row, effects=tuple(effect for effect in effects if effect))
    return replace(row, last_s=item.last_s, count=item.count)


def acting_notes(verdict: Verdict) -> list[GuardNote]:
    """Return the notes of the guards that changed the target or gave a reason."""
    return [note for note in verdict.notes if note.before != note.after or note.why]


HEADINGS = ("instances", "their cost", "late records", "together", "late", "chance to break")
"""Of ``ladder_cells``: costs are in instance-seconds, the last two in percent."""


def ladder_cells(verdict: Verdict) -> list[tuple[str, ...]]:
    """Return a row for each size that was compared; the proposed one is marked.

    >>> sizes = (PricedSize(2, 60.0, 90.5, 0.25, 0.07), PricedSize(3, 90.0, 0.0, 0.0, 0.05))
    >>> ladder_cells(Verdict("job", 3, 3, 3, "steady", "right", alternatives=sizes))
    [('2', '60', '90.5', '150.5', '25%', '7%'), ('▸ 3', '90', '0', '90', '0%', '5%')]
    """
    return [
        (
            f"▸ {size.instances}" if size.instances == verdict.proposed else str(size.instances),
            f"{size.instance_s:g}",
            f"{size.late_s:g}",
            f"{round(size.cost_s, 1):g}",
            percent(size.late_share),
            percent(size.break_chance),
        )
        for size in verdict.alternatives
    ]


def percent(share: float) -> str:
    """Return a share to three digits."""
    return f"{100 * share:.3g}%"


def ladder_in_words(verdict: Verdict) -> str:
    """Return the sizes that were compared in one line.

    >>> sizes = (PricedSize(2, 60.0, 90.5, 0.25, 0.07), PricedSize(3, 90.0, 0.0, 0.0, 0.05))
    >>> ladder_in_words(Verdict("job", 3, 3, 3, "steady", "right", alternatives=sizes))
    '2: 60 + 90.5, 25% late · ▸ 3: 90 + 0, 0% late'
    """
    cells = ladder_cells(verdict)
    return " · ".join(f"{name}: {instances} + {late}, {share} late" for name, instances, late, _, share, _ in cells)


def note_in_words(note: GuardNote) -> str:
    """
    >>> note_in_words(GuardNote("step-limit", 9, 4, "at most 2 more at a time"))
    'step-limit made it 4 instead of 9: at most 2 more at a time'
    """
    if note.before == note.after:
        return f"{note.guard}: {note.why}"
    return f"{note.guard} made it {note.after} instead of {note.before}: {note.why}"


def numbers_in_words(numbers: Mapping[str, Number]) -> str:
    """
    >>> numbers_in_words({"latency_s": 12.3456, "instances": 4, "trend": None})
    'latency_s 12.3 · instances 4 · trend unknown'
    """
    return " · ".join(
        f"{name} {_number_in_words(value)}" for name, value in numbers.items() if name not in _PREDICTIONS
    )


def _number_in_words(value: Number) -> str:
    if value is None:
        return "unknown"
    return plain(value) if isinstance(value, float) else str(value)


def effect_in_words(resize: Resize) -> str:
    """Describe the engine's answer and when the size was reached, as far as they are known."""
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


def predictions_in_words(resize: Resize) -> str:
    """Describe what the policy predicted and what was observed; empty for policies without predictions."""
    after_s = resize.verdict.numbers.get(AFTER)
    if not resize.expected or not isinstance(after_s, int | float):
        return ""
    return expectations_in_words(after_s, resize.expected)


def silence_in_words(silence: Silence) -> str:
    """
    >>> silence_in_words(Silence(60.0, 110.0, "enrich", Instances(3, 3, 2, stale=True), resumed_s=120.0))
    'no readings for 60s; its last known size, 2 of 3 ready, was assumed'
    """
    size = f"its last known size, {silence.instances.ready} of {silence.instances.planned} ready,"
    if silence.resumed_s is None:
        return f"no readings since then; {size} is assumed"
    return f"no readings for {format_duration(silence.resumed_s - silence.at_s)}; {size} was assumed"


def _hold_kind(hold: Hold) -> str:
    return "capped" if hold.is_capped else "stopped" if hold.is_stopped else "hold"


def _verdict_to_dict(verdict: Verdict) -> dict[str, JSON]:
    priced = [size._asdict() for size in verdict.alternatives]
    return codec.verdict_to_dict(verdict) | ({"alternatives": priced} if priced else {})


def item_to_dict(item: Item) -> dict[str, JSON]:
    """Return an item as plain data, for JSON."""
    match item:
        case Resize():
            receipt = None if item.receipt is None else codec.receipt_to_dict(item.receipt)
            return {
                "kind": "resize",
                "at_s": item.at_s,
                **_verdict_to_dict(item.verdict),
                "receipt": receipt,
                "reached_s": item.reached_s,
                "overtaken_s": item.overtaken_s,
                "expected": [asdict(prediction) for prediction in item.expected],
            }
        case Hold() | Advice():
            kind = "recommended" if isinstance(item, Advice) else _hold_kind(item)
            span = {"at_s": item.at_s, "last_s": item.last_s, "count": item.count}
            return {"kind": kind, **span, **_verdict_to_dict(item.verdict)}
        case Silence():
            fields = asdict(item)
            return {"kind": "silence", **fields, "heard_s": fields.pop("resumed_s")}
        case Receipt():
            return {"kind": "engine", **codec.receipt_to_dict(item)}
        case Event():
            event = codec.event_to_dict(item)
            return {"kind": "event", "event": event.pop("kind"), **event}
        case Repeated(at_s=at_s, last_s=last_s, count=count):
            return {**item_to_dict(item.event), "at_s": at_s, "last_s": last_s, "count": count}
