"""Keep one query running: start it, restart it after a failure, and change its plan between two batches.

It has no thread of its own: ``tend`` checks once and does what is due.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from headgate.core.errors import EngineError, EngineGoneError, InputError, QueryFailedError
from headgate.core.types import Instant, Severity
from headgate.core.units import format_duration
from headgate.engines.spark.query_plan import Plan
from headgate.runtime.loop import Clock
from headgate.runtime.managed.contracts import Advises, Host, Pauses, PlanChange, Repartitions, ReportEvent
from headgate.runtime.managed.failures import Backoff, Failure, classify_failure

logger = logging.getLogger("headgate")

STOP_WITHIN_S = 60.0
"""How long a running batch may take to end before a change is put off."""
TRIES = 3
"""Attempts to stop the query between two batches before a change is given up."""
FAILED_CHANGES = 2
"""Failed changes of the state partitions after which no other is advised, because each costs a pause."""


@dataclass(frozen=True, slots=True)
class _Pause:
    """A pause because of a change that has not ended yet."""

    began_s: Instant
    expected_s: float
    repartitions: bool


class QuerySupervisor:
    """Supervises one query.

    - ``repartitioning``: changes the number of state partitions; ``None`` if that is impossible
    - ``acts``: whether advice is followed, or only reported; requests are always followed
    - ``room``: returns what the checkpoint's disk lacks, or an empty string
    - ``changed``: called with each plan that is in force after a change
    - ``is_ending``: whether its end was requested; what fails then fails because of that
    """

    def __init__(  # noqa: PLR0913 - one keyword per thing that it works with
        self,
        host: Host,
        plan: Plan,
        clock: Clock,
        *,
        backoff: Backoff,
        report: ReportEvent,
        pauses: Pauses,
        repartitioning: Repartitions | None = None,
        advisor: Advises | None = None,
        acts: bool = True,
        room: Callable[[], str] | None = None,
        changed: Callable[[Plan], None] | None = None,
        is_ending: Callable[[], bool] | None = None,
    ) -> None:
        self.plan = plan
        self.restarts = 0
        self.failure: QueryFailedError | None = None
        """Why it was given up."""
        self._host = host
        self._clock = clock
        self._backoff = backoff
        self._report = report
        self._pauses = pauses
        self._repartitioning = repartitioning
        self._advisor = advisor
        self._acts = acts
        self._room = room or (lambda: "")
        self._changed = changed or (lambda _: None)
        self._is_ending = is_ending or (lambda: False)
        self._is_started = False
        self._ended = False
        self._due_s: float | None = clock.now()
        self._no_room = ""
        self._requested: PlanChange | None = None
        self._pause: _Pause | None = None
        self._tries = 0
        self._failed_changes = 0

    @property
    def has_ended(self) -> bool:
        """The query ended by itself, or was given up."""
        return self._ended

    def request(self, plan: Plan, reason: str) -> None:
        """Put a plan in force at the next check."""
        repartitions = plan.state_partitions != self.plan.state_partitions
        self._requested = PlanChange(plan, reason, self._pauses.expected_s(repartitions=repartitions))

    def tend(self) -> None:
        """Check once, and do what is due. A failure is reported; the next check tries again."""
        if self._ended:
            return
        try:
            self._tend()
        except EngineGoneError as error:
            self._give_up(Failure(str(error), can_heal=False))
        except Exception as error:
            if self._is_ending():
                return
            logger.exception("supervising the query failed; the query continues unchanged")
            self._report("look-failed", f"{type(error).__name__}: {error}", severity=Severity.ERROR)

    def _tend(self) -> None:
        if self._due_s is not None:
            if self._clock.now() >= self._due_s:
                self._start()
        elif not self._host.is_running:
            self._on_end()
        elif (first_batch_s := self._host.first_batch_s) is not None:
            self._backoff.forget()
            if self._pause is not None:
                self._end_pause(self._pause, first_batch_s)
            # Not before: an interrupted batch of an earlier start must be complete.
            self._follow_advice()

    def stop(self, within_s: float) -> None:
        """Stop the query, between two batches if it gets there in time."""
        self._ended, self._due_s = True, None
        if not self._host.stop(within_s):
            self._report("query-interrupted", "a batch was still running; it is run again at the next start")

    # ------------------------------------------------------------------------------------------------------- starting

    def _start(self) -> None:
        if (lacks := self._room()) != "":
            self._wait_for_room(lacks)
            return
        try:
            self._recover()
            self._host.start(self.plan)
        except (EngineGoneError, InputError) as error:
            self._give_up(Failure(str(error), can_heal=False))
        except Exception as error:  # noqa: BLE001 - whatever building or starting a query raises is its failure
            self._on_failure(classify_failure(f"{type(error).__name__}: {error}"))
        else:
            self._due_s, self._no_room = None, ""
            kind = "query-restarted" if self._is_started else "query-started"
            self.restarts += self._is_started
            self._is_started = True
            self._report(kind, self.plan.in_words())
            if self._advisor is not None:
                self._advisor.started(self._clock.now())

    def _recover(self) -> None:
        """Complete or undo an interrupted change, and take over the present number of state partitions."""
        if self._repartitioning is None:
            return
        if recovered := self._repartitioning.recover():
            self._report("change-recovered", f"{recovered}.")
        if (found := self._repartitioning.partitions) is not None:
            self.plan = replace(self.plan, state_partitions=found)

    def _wait_for_room(self, lacks: str) -> None:
        """Start nothing on a full disk, because it would fail again."""
        wait_s = self._backoff.next_s()
        self._due_s = self._clock.now() + wait_s
        if self._no_room != lacks:
            self._report(
                "no-room",
                f"{lacks}; the query waits until there is room, and nothing is lost",
                severity=Severity.WARNING,
            )
        self._no_room = lacks

    # --------------------------------------------------------------------------------------------------------- ending

    def _on_end(self) -> None:
        failure_text = self._host.failure
        if failure_text is None and self._is_ending():
            self._end_on_request()
            return
        if failure_text is None:
            self._ended = True
            self._report("query-ended", "the query has ended by itself, or was stopped by others")
            return
        if self._host.first_batch_s is not None:
            self._backoff.forget()
        self._on_failure(classify_failure(failure_text))

    def _end_on_request(self) -> None:
        self._ended, self._due_s = True, None
        self._report("query-interrupted", "its end was requested; the rest is done at the next start")

    def _on_failure(self, failure: Failure) -> None:
        if self._is_ending():
            self._end_on_request()
            return
        self._pause = None  # The pause is no longer that of a change alone.
        wait_s = self._backoff.next_s()
        if not failure.can_heal:
            self._give_up(failure)
        elif self._backoff.is_exhausted:
            self._give_up(
                replace(failure, why=f"{failure.why}, {self._backoff.failures} times without a batch between")
            )
        else:
            self._due_s = self._clock.now() + wait_s
            again = f"it is started again in {format_duration(wait_s)}"
            self._report(
                "query-failed",
                f"{failure}; {again}",
                {"failures": self._backoff.failures, "wait_s": wait_s},
                severity=Severity.ERROR,
            )

    def _give_up(self, failure: Failure) -> None:
        if self._is_ending():
            self._end_on_request()
            return
        self._ended, self._due_s = True, None
        self.failure = QueryFailedError(f"the query was stopped for good: {failure}.")
        self._report("query-given-up", str(self.failure), severity=Severity.ERROR)

    # ------------------------------------------------------------------------------------------------------- changing

    def _follow_advice(self) -> None:
        requested, self._requested = self._requested, None
        change = requested
        if change is None and self._advisor is not None:
            change = self._advisor.advise(self.plan)
        if change is None or change.plan == self.plan:
            return
        if requested is None and not self._acts:
            self._report("change-recommended", change.reason)
        elif change.plan.state_partitions != self.plan.state_partitions:
            self._restart(change, repartitions=True)
        elif self._has_capped(change.plan.max_records_per_batch):
            self.plan = change.plan
            self._changed(self.plan)
            self._report("cap-changed", f"{change.reason}; it holds from the next batch on")
        elif requested is None and change.expected_pause_s == 0 and self._advisor is not None:
            self._advisor.cap_refused()  # The advice did not expect a restart.
        else:
            self._restart(change, repartitions=False)

    def _has_capped(self, records: int | None) -> bool:
        return records is not None and self._host.set_cap(records)

    def _restart(self, change: PlanChange, *, repartitions: bool) -> None:
        expected_s = change.expected_pause_s
        begun = f"{change.reason}; a pause of {format_duration(expected_s)} is expected"
        self._report("change-begun", begun, {"expected_pause_s": expected_s})
        # Whatever happens now, it is started again at the next check at the latest.
        self._due_s = self._clock.now()
        if not self._host.stop(STOP_WITHIN_S):
            self._put_off(change)
            return
        if self._host.failure is not None:
            self._on_end()  # Its last batch failed; the change is advised again later.
            return
        began_s = self._clock.now()
        made = self._repartitioned(change, began_s) if repartitions else True
        if made:
            self.plan = change.plan
            self._pause = _Pause(began_s, expected_s, repartitions)
        self._tries = 0
        self._start()

    def _end_pause(self, pause: _Pause, first_batch_s: float) -> None:
        """Measure the pause once the first batch after a change has ended: until it began, nothing was done."""
        self._pause = None
        pause_s = max(0.0, self._clock.now() - pause.began_s - first_batch_s)
        self._pauses.add(pause_s, repartitions=pause.repartitions)
        self._changed(self.plan)
        pauses = f"paused for {format_duration(pause_s)}, {format_duration(pause.expected_s)} were expected"
        numbers = {"expected_pause_s": pause.expected_s, "pause_s": pause_s}
        self._report("change-made", f"{self.plan.in_words()}; {pauses}", numbers)

    def _put_off(self, change: PlanChange) -> None:
        """Try again after the next batch, because the query could not be stopped between two batches."""
        self._tries += 1
        if self._tries < TRIES:
            self._requested = change
            self._report("change-put-off", "the query was not stopped between two batches; it is tried again")
        else:
            self._tries = 0
            self._report(
                "change-given-up",
                "the query cannot be stopped between two batches; it continues unchanged",
                severity=Severity.ERROR,
            )

    def _repartitioned(self, change: PlanChange, now: float) -> bool:
        if self._repartitioning is None or change.plan.state_partitions is None:
            self._report(
                "change-failed",
                "state partitions cannot be changed here; the query continues unchanged",
                severity=Severity.ERROR,
            )
            return False
        try:
            self._repartitioning.change(change.plan.state_partitions, now)
        except (EngineError, OSError) as error:
            self._report("change-failed", f"{error} The query continues unchanged.", severity=Severity.ERROR)
            self._failed_changes += 1
            if self._failed_changes == FAILED_CHANGES and self._advisor is not None:
                self._advisor.partitions_refused()
            return False
        return True
