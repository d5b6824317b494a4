"""The items of a story in words: the rows that the terminal, the HTML report and the dashboard show, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from headgate.core.types import JSON, Event, GuardNote, Instant, Number, Outcome, Receipt, Severity, Verdict
from headgate.core.units import format_duration, plain
from headgate.journal import codec
from headgate.render.expectations import AFTER, expectations_in_words, without_expectations
from headgate.render.story import Advice, Hold, Item, Repeated, Resize, Silence


class RowKind(StrEnum):
    """What a row shows; renderers choose colours and signs by it."""

    OUT = "out"
    IN = "in"
    STOPPED = "stopped"
    """A guard stopped the change that the policy proposed."""
    ADVICE = "advice"
    """A change that was recommended and not made."""
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
    if isinstance(item, Resize):
        kind = RowKind.OUT if verdict.change > 0 else RowKind.IN
        change = f"{verdict.current} → {verdict.target}"
    elif isinstance(item, Advice):
        kind, change = RowKind.ADVICE, f"{verdict.current}, {verdict.target} recommended"
    elif item.is_stopped:
        kind, change = RowKind.STOPPED, f"{verdict.current}, not {verdict.proposed}"
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
        size=verdict.proposed if kind is RowKind.STOPPED else verdict.target,
    )
    if isinstance(item, Resize):
        effects = (effect_in_words(item), predictions_in_words(item))
        return replace(row, effects=tuple(effect for effect in effects if effect))
    return replace(row, last_s=item.last_s, count=item.count)


def acting_notes(verdict: Verdict) -> list[GuardNote]:
    """Return the notes of the guards that changed the target or gave a reason."""
    return [note for note in verdict.notes if note.before != note.after or note.why]


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
    shown = without_expectations(numbers)
    return " · ".join(f"{name} {_number_in_words(value)}" for name, value in shown.items())


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
    >>> silence_in_words(Silence(60.0, 110.0, "enrich", Instances(3, 3, 2, stale=True), heard_s=120.0))
    'no readings for 60s; its last known size, 2 of 3 ready, was assumed'
    """
    size = f"its last known size, {silence.instances.ready} of {silence.instances.planned} ready,"
    if silence.heard_s is None:
        return f"no readings since then; {size} is assumed"
    return f"no readings for {format_duration(silence.heard_s - silence.at_s)}; {size} was assumed"


def item_to_dict(item: Item) -> dict[str, JSON]:
    """Return an item as plain data, for JSON."""
    match item:
        case Resize():
            receipt = None if item.receipt is None else codec.receipt_to_dict(item.receipt)
            return {
                "kind": "resize",
                "at_s": item.at_s,
                **codec.verdict_to_dict(item.verdict),
                "receipt": receipt,
                "reached_s": item.reached_s,
                "overtaken_s": item.overtaken_s,
                "expected": [asdict(prediction) for prediction in item.expected],
            }
        case Hold() | Advice():
            kind = "recommended" if isinstance(item, Advice) else "stopped" if item.is_stopped else "hold"
            span = {"at_s": item.at_s, "last_s": item.last_s, "count": item.count}
            return {"kind": kind, **span, **codec.verdict_to_dict(item.verdict)}
        case Silence():
            return {"kind": "silence", **asdict(item)}
        case Receipt():
            return {"kind": "engine", **codec.receipt_to_dict(item)}
        case Event():
            event = codec.event_to_dict(item)
            return {"kind": "event", "event": event.pop("kind"), **event}
        case Repeated(at_s=at_s, last_s=last_s, count=count):
            return {**item_to_dict(item.event), "at_s": at_s, "last_s": last_s, "count": count}
