"""The rows of a story as the dashboard shows them, the newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headgate.render.story import Hold, Item, Row, row_of
from headgate.service.pages.formats import clock, iso

MOST_ROWS = 60
SIGNS = {"out": "▲", "in": "▼", "stopped": "⊘", "advice": "◇", "event": "·", "warning": "!", "failed": "✕"}


@dataclass(frozen=True, slots=True)
class StoryRow:
    """A row with what only a web page needs: its id, and its time by the clock."""

    row: Row
    key: str
    clock: str
    iso: str
    sign: str
    reason: str
    """With the operator's name, in a job of several."""


def story_rows(items: Sequence[Item], *, named: bool) -> list[StoryRow]:
    """Return the newest rows; ``named``: with the names of operators. Holds without a stopped change are left out."""
    rows: list[StoryRow] = []
    uses: Counter[str] = Counter()
    for item in reversed(items):
        if isinstance(item, Hold) and not item.is_stopped:
            continue
        if len(rows) == MOST_ROWS:
            break
        shown = _shown(row_of(item), named=named)
        # Several events may coincide; decisions on one operator cannot, and keep the key that markers refer to.
        uses[shown.key] += 1
        rows.append(shown if uses[shown.key] == 1 else replace(shown, key=f"{shown.key}-{uses[shown.key]}"))
    return rows


def _shown(row: Row, *, named: bool) -> StoryRow:
    reason = f"{row.operator}: {row.reason}" if row.operator and named else row.reason
    return StoryRow(row, row.key, clock(row.at_s), iso(row.at_s), SIGNS[row.kind], reason)
