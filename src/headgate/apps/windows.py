"""Windows of event time, as the applications use them."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

WINDOW = ("window_start_ms", "window_end_ms")
"""The columns by which results tell their window."""


def window_of(length_s: int, slide_s: int | None = None) -> Column:
    """The windows an event lies in; windows follow each other where no slide is given."""
    return f.window("at", f"{length_s} seconds", f"{slide_s or length_s} seconds")


def window_bounds() -> list[Column]:
    """Start and end of the column ``window``, in milliseconds since the epoch."""
    return [f.unix_millis(f.col(f"window.{edge}")).alias(f"window_{edge}_ms") for edge in ("start", "end")]
