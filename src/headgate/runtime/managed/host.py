"""What a managed query runs on: the seam between the supervisor and Spark, or a test's stand-in."""

from __future__ import annotations

from typing import Protocol

from headgate.core.query_plan import Plan


class Host(Protocol):
    """Starts and stops one query. A failure to start is an exception, whose text is what is known of it."""

    def start(self, plan: Plan) -> None: ...

    def stop(self, within_s: float) -> bool:
        """Stop it, between two batches if it gets there in time; whether it did."""
        ...

    @property
    def is_running(self) -> bool: ...

    @property
    def failure(self) -> str | None:
        """Why the query that was started last has ended; ``None`` if nothing went wrong."""
        ...

    @property
    def has_finished_a_batch(self) -> bool:
        """Since it was started last."""
        ...

    def set_cap(self, records: int) -> bool:
        """Limit the batches of the running query; whether that was possible without a restart."""
        ...

    def repartition(self, partitions: int) -> None:
        """Spread the state of the stopped query over so many partitions, or end what was left half done."""
        ...
