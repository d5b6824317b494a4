"""What became of the records of a query, from the progress that Spark reports of its batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

RECORDS = "records"
"""The name of the metrics that an application has observed: records ``read``, and ``malformed`` ones among them."""


@dataclass(frozen=True)
class Tally:
    read: int
    malformed: int
    """Records that could not be used."""
    late: int
    """What came after its window was closed. Spark counts it after adding up what a task has of one key and window."""
    watermark_ms: int | None
    """Up to when windows have been closed; None if no window can have been."""


def tally(progresses: Iterable[Mapping[str, Any]]) -> Tally:
    """Add up the batches of a query, each as parsed from ``StreamingQueryProgress.json``.

    >>> tally([{"observedMetrics": {"records": {"read": 9, "malformed": 1}}, "stateOperators": []}])
    Tally(read=9, malformed=1, late=0, watermark_ms=None)
    """
    batches = list(progresses)
    observed = [batch["observedMetrics"][RECORDS] for batch in batches if RECORDS in batch.get("observedMetrics", {})]
    operators = [operator for batch in batches for operator in batch["stateOperators"]]
    watermarks = [batch["eventTime"]["watermark"] for batch in batches if "watermark" in batch.get("eventTime", {})]
    return Tally(
        read=sum(metrics["read"] for metrics in observed),
        malformed=sum(metrics["malformed"] for metrics in observed),
        late=sum(operator["numRowsDroppedByWatermark"] for operator in operators),
        watermark_ms=max((round(datetime.fromisoformat(each).timestamp() * 1000) for each in watermarks), default=None),
    )
