"""What became of the records of a query."""

from __future__ import annotations

from typing import Any

from headgate.apps.contract import RecordTally, tally


def progress(read: int | None, late: tuple[int, ...] = (), watermark: str | None = None) -> dict[str, Any]:
    return {
        "observedMetrics": {} if read is None else {"records": {"read": read, "malformed": 1}},
        "stateOperators": [{"numRowsDroppedByWatermark": each} for each in late],
        "eventTime": {} if watermark is None else {"watermark": watermark},
    }


def test_batches_are_added_up_and_the_newest_watermark_counts() -> None:
    reported = tally(
        [
            progress(10, (0, 0), "1970-01-01T00:00:00.000Z"),
            progress(20, (3, 1), "1970-01-01T00:00:07.500Z"),
            progress(None, (0, 0), "1970-01-01T00:00:07.500Z"),
        ]
    )
    assert reported == RecordTally(read=30, malformed=2, late=4, watermark_ms=7500)


def test_a_query_without_windows_has_no_watermark() -> None:
    assert tally([progress(5)]) == RecordTally(read=5, malformed=1, late=0, watermark_ms=None)
    assert tally([]) == RecordTally(read=0, malformed=0, late=0, watermark_ms=None)
