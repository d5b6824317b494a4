"""What was decided and what happened, newest first, a row for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headgate.core.types import Event, Receipt, Verdict
from headgate.journal.story import (
    SEVERITY_KINDS,
    Advice,
    Hold,
    Item,
    Repeated,
    Resize,
    Silence,
    acting_notes,
    effect_in_words,
    expected_in_words,
    note_in_words,
    numbers_in_words,
    silence_in_words,
)
from headgate.service.pages.plots.course import change_in_words, key_of, kind_of
from headgate.service.pages.words import clock, iso

MOST_ROWS = 60
SIGNS = {"out": "▲", "in": "▼", "stopped": "⊘", "advice": "◇", "event": "·", "warning": "!", "failed": "✕"}


@dataclass(frozen=True, slots=True)
class Told:
    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class StoryRow:
    key: str
    clock: str
    iso: str
    kind: str
    sign: str
    change: str
    lines: Sequence[Told]
    numbers: str = ""


def story_rows(items: Sequence[Item], *, named: bool) -> list[StoryRow]:
    """The newest rows; ``named`` says of which operator each is. Holds that nothing stopped are left out."""
    rows: list[StoryRow] = []
    alike: Counter[str] = Counter()
    for item in reversed(items):
        if isinstance(item, Hold) and not item.is_stopped:
            continue
        if len(rows) == MOST_ROWS:
            break
        row = _row(item, named=named)
        # Several things may happen at once; decisions on one operator may not, and keep the key that markers name.
        alike[row.key] += 1
        rows.append(row if alike[row.key] == 1 else replace(row, key=f"{row.key}-{alike[row.key]}"))
    return rows


def _row(item: Item, *, named: bool) -> StoryRow:
    kind, change, lines, numbers = _parts(item, named=named)
    return StoryRow(key_of(item), clock(item.at_s), iso(item.at_s), kind, SIGNS[kind], change, lines, numbers)


def _parts(item: Item, *, named: bool) -> tuple[str, str, list[Told], str]:
    match item:
        case Resize() | Hold() | Advice():
            return kind_of(item), change_in_words(item), list(_lines(item, named=named)), _numbers(item.verdict)
        case Silence(operator=operator):
            return "failed", "silent", [Told(f"{operator}: {silence_in_words(item)}")], ""
        case Receipt():
            return "event", f"engine {item.outcome}", [Told(item.detail or "it acted to keep the size")], ""
        case Event():
            return SEVERITY_KINDS[item.severity], item.kind.replace("-", " "), [Told(item.detail)], ""
        case Repeated(event=event):
            kind, change, lines, _ = _parts(event, named=named)
            return kind, change, [*lines, _often(item)], ""


def _lines(item: Resize | Hold | Advice, *, named: bool) -> Iterator[Told]:
    verdict = item.verdict
    yield Told(f"{verdict.operator}: {verdict.reason}" if named else verdict.reason)
    for note in acting_notes(verdict):
        yield Told(note_in_words(note), "note")
    if isinstance(item, Resize):
        for told in (effect_in_words(item), expected_in_words(item)):
            if told:
                yield Told(told, "detail")
    elif item.count > 1:
        yield _often(item)


def _often(item: Hold | Advice | Repeated) -> Told:
    return Told(f"{item.count} times in a row, until {clock(item.last_s)}", "detail")


def _numbers(verdict: Verdict) -> str:
    return numbers_in_words(verdict.numbers) if verdict.numbers else ""
