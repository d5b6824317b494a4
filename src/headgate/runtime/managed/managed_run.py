"""A query that is kept running by a thread of its own, as its user sees it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from headgate.core.types import Decision, Observation
from headgate.engines.spark.query_plan import Plan
from headgate.runtime.autoscaler import Autoscaler
from headgate.runtime.clock import Clock
from headgate.runtime.managed.supervisor import Supervisor

if TYPE_CHECKING:
    from headgate.engines.spark.managed_query import ManagedQuery, StreamingQuery

logger = logging.getLogger("headgate")

LOOK_EVERY_S = 0.25


class ManagedRun:
    """A query that is kept running, by a thread of its own, until ``stop``."""

    def __init__(
        self,
        managed: ManagedQuery,
        supervisor: Supervisor,
        clock: Clock,
        *,
        stop: threading.Event,
        watch: Callable[[Observation | None, Decision | None], None],
        drain_timeout_s: float,
    ) -> None:
        self.autoscaler: Autoscaler | None = None
        """What scales it; ``None`` where others do."""
        self.observe = watch
        """To be shown every observation and decision, where no autoscaler of this process makes them."""
        self._managed = managed
        self._supervisor = supervisor
        self._clock = clock
        self._stop = stop
        self._drain_timeout_s = drain_timeout_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-managed", daemon=True)

    @property
    def query(self) -> StreamingQuery | None:
        """The query as it was started last."""
        return self._managed.query

    @property
    def plan(self) -> Plan:
        """What it was started with last, and what was changed since."""
        return self._supervisor.plan

    @property
    def restarts(self) -> int:
        """How often it was started again, for whatever reason."""
        return self._supervisor.restarts

    @property
    def is_alive(self) -> bool:
        """Whether the query is still looked after."""
        return self._thread.is_alive()

    def change(self, *, max_records_per_batch: int | None = None, state_partitions: int | None = None) -> None:
        """Go on with another plan, whatever the advisor thinks; it is put in force between two batches."""
        plan = self.plan
        wanted = Plan(
            plan.max_records_per_batch if max_records_per_batch is None else max_records_per_batch,
            plan.state_partitions if state_partitions is None else state_partitions,
        )
        self._supervisor.ask(wanted, f"asked for: {wanted.in_words()}")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; whether it came in time. A failure that cannot heal is raised, as ``QueryFailedError``."""
        ended = self._ended.wait(timeout_s)
        if ended and self._supervisor.failure is not None:
            raise self._supervisor.failure
        return ended

    def stop(self) -> None:
        """Stop the query between two batches, and the autoscaler. Calling it twice is fine."""
        self._stop.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def start(self) -> ManagedRun:
        self._thread.start()
        return self

    def __enter__(self) -> ManagedRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and not self._supervisor.has_ended:
                self._supervisor.tend()
                self._clock.wait_until(self._clock.now() + LOOK_EVERY_S, self._stop)
            if not self._supervisor.has_ended:
                self._supervisor.stop(self._drain_timeout_s)
        except Exception:
            logger.exception("the managed query could not be stopped as it should")
        finally:
            try:
                if self.autoscaler is not None:
                    self.autoscaler.stop()
            except Exception:  # A driver that is gone does not answer. Whoever waits for the end must hear of it.
                logger.exception("the autoscaler of the managed query could not be stopped as it should")
            finally:
                self._ended.set()
