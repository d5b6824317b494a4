"""``headgate.run``: a query that a function builds, that is restarted after failures, and autoscaled.

    def build(spark, plan):
        events = spark.readStream.format("kafka").options(**kafka, **plan.source_options).load()
        return counts(events).writeStream.outputMode("update").foreachBatch(write)

    with headgate.run(build, checkpoint="checkpoints/clicks", objective="latency p95 < 10s", partitions=(2, 16)) as it:
        it.wait()

The parts have files of their own; ``supervisor.py`` is the centre.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headgate.core.errors import InputError
from headgate.core.extras import needing
from headgate.core.objective import Objective
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.types import JSON, NO_NUMBERS, Decision, Event, Number, Observation, Severity
from headgate.core.units import parse_duration_s
from headgate.engines.spark.query_plan import Plan
from headgate.policies.frame.base import PolicyMaker
from headgate.runtime.assembly import goal_of
from headgate.runtime.autoscaler import Autoscaler, autoscale
from headgate.runtime.loop import Clock, ControlLoop, Mode, SystemClock, mode_named
from headgate.runtime.managed.advisor import Advisor, Wishes
from headgate.runtime.managed.contracts import Pauses
from headgate.runtime.managed.failures import Backoff, Restarts
from headgate.runtime.managed.recovery import Aside, LearnedFile, MarkerFile, Repartitioning
from headgate.runtime.managed.supervisor import QuerySupervisor

if TYPE_CHECKING:
    from headgate.engines.spark import SparkSession
    from headgate.engines.spark.managed_query import Build, ManagedQuery, StreamingQuery

__all__ = ["ManagedRun", "run"]

logger = logging.getLogger("headgate")

LOOK_EVERY_S = 0.25
AUTO = "auto"
FIRST_CAP = 500
"""Records of the first batches, before anything is known of how long they take."""
LEAST_ROOM_BYTES = 16 << 20
"""With less room than this on the disk of the checkpoint nothing is started."""


class EventReporter:
    """Reports an event to the journal, the log, and a callback."""

    def __init__(self, clock: Clock, on_event: Callable[[Event], None] | None) -> None:
        self.loop: ControlLoop | None = None
        """The loop whose journal is written to, if there is one."""
        self._clock = clock
        self._on_event = on_event

    def __call__(
        self,
        kind: str,
        detail: str,
        numbers: Mapping[str, Number] = NO_NUMBERS,
        severity: Severity = Severity.INFO,
    ) -> None:
        event = Event(self._clock.now(), kind, detail, numbers, severity)
        logger.log(logging.INFO if severity is Severity.INFO else logging.WARNING, "%s: %s", kind, detail)
        if self.loop is not None:
            self.loop.note(kind, detail, at_s=event.at_s, numbers=numbers, severity=severity)
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                logger.exception("on_event failed; it continues to be called")


class ManagedRun:
    """A query that a thread keeps running until ``stop``."""

    def __init__(
        self,
        managed: ManagedQuery,
        supervisor: QuerySupervisor,
        clock: Clock,
        *,
        stop: threading.Event,
        watch: Callable[[Observation | None, Decision | None], None],
        drain_timeout_s: float,
    ) -> None:
        self.autoscaler: Autoscaler | None = None
        """Scales it; ``None`` if others do."""
        self.observe = watch
        """To be called with every observation and decision, if no autoscaler of this process makes them."""
        self._managed = managed
        self._supervisor = supervisor
        self._clock = clock
        self._stop = stop
        self._drain_timeout_s = drain_timeout_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-managed", daemon=True)

    @property
    def query(self) -> StreamingQuery | None:
        """The query since its last start."""
        return self._managed.query

    @property
    def plan(self) -> Plan:
        """The plan of its last start, with later changes."""
        return self._supervisor.plan

    @property
    def restarts(self) -> int:
        """How often it was started again, for any reason."""
        return self._supervisor.restarts

    @property
    def is_alive(self) -> bool:
        """Whether the query is still supervised."""
        return self._thread.is_alive()

    def change(self, *, max_records_per_batch: int | None = None, state_partitions: int | None = None) -> None:
        """Continue with another plan, whatever the advisor proposes; it comes into force between two batches."""
        plan = self.plan
        wanted = Plan(
            plan.max_records_per_batch if max_records_per_batch is None else max_records_per_batch,
            plan.state_partitions if state_partitions is None else state_partitions,
        )
        self._supervisor.request(wanted, f"requested: {wanted.in_words()}")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end and return whether it came in time; a query that was given up is a ``QueryFailedError``."""
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
            logger.exception("the managed query could not be stopped properly")
        finally:
            try:
                if self.autoscaler is not None:
                    self.autoscaler.stop()
            except Exception:  # A driver that is gone does not answer, and `wait` must return all the same.
                logger.exception("the autoscaler of the managed query could not be stopped properly")
            finally:
                self._ended.set()


def run(  # noqa: PLR0913 - one keyword per thing that a user may say
    build: Build,
    *,
    checkpoint: str | Path,
    objective: str | Objective | Mapping[str, JSON] | Path = "latency p95 < 10s",
    spark: SparkSession | None = None,
    policy: str | PolicyMaker = DEFAULT_POLICY,
    executors: tuple[int, int] | None = None,
    partitions: tuple[int, int] | None = None,
    max_records_per_batch: int | str | None = AUTO,
    restarts: Restarts | None = None,
    scale: bool = True,
    on_event: Callable[[Event], None] | None = None,
    stop: threading.Event | None = None,
    is_ending: Callable[[], bool] | None = None,
    stop_within_s: float = 30.0,
    change_rest: str | float = "5m",
    held_for: str | float = "15s",
    mode: str = Mode.ACT,
    price: float | None = None,
    seed: int = 0,
    **scaling: Any,
) -> ManagedRun:
    """Build a streaming query, keep it running, and keep it at the size its objective needs.

    - ``build``: gets the session and a ``Plan``, and returns the query's writer (``df.writeStream…``), not started and
      without a checkpoint; it is called for every start. ``**plan.source_options`` go to the source
    - ``checkpoint``: the folder of the query's checkpoint
    - ``partitions``: fewest and most state partitions; the state of a query that too few of them limit is spread over
      more. By default their number is the session's, and stays
    - ``max_records_per_batch``: ``"auto"``, a fixed number, or ``None`` for no limit
    - ``restarts``: how it is started again after a failure
    - ``scale``: whether it is autoscaled by this process. If others scale it, call ``observe`` of the result with each
      observation
    - ``on_event``: called with each start, failure and change, on a thread of its own
    - ``change_rest``: the shortest time between two changes that take a restart
    - ``held_for``: how long state partitions must have limited a query before it gets more
    - ``mode``: ``"recommend"`` reports what would be changed, and changes nothing
    - ``stop``: setting it ends everything, as ``stop()`` does
    - ``is_ending``: whether the driver is being ended, as by Ctrl-C; what fails then is not reported as a failure
    - all others are those of ``autoscale``
    """
    with needing("a managed query"):
        from headgate.engines.spark import SparkSession as Session
        from headgate.engines.spark.managed_query import ManagedQuery

    session = spark if spark is not None else Session.getActiveSession()
    if not scale and scaling:
        raise InputError(f"{', '.join(scaling)} cannot be given with scale=False; they are for autoscaling.")
    if session is None:
        raise InputError("there is no active Spark session; give one as spark=….")
    # All errors in the arguments are found before the session is touched.
    goal = goal_of(objective, executors, price)
    fewest, most = _checked(partitions)
    first_cap = _first_cap(max_records_per_batch)
    chosen_mode = mode_named(mode)
    rest_s, held_for_s = parse_duration_s(change_rest), parse_duration_s(held_for)
    managed = ManagedQuery(session, build, checkpoint)
    folder = managed.checkpoint
    if most is not None and folder is None:
        raise InputError(f"state partitions of checkpoint {checkpoint} cannot be changed; it must lie on this machine.")
    clock = SystemClock()
    learned = None if folder is None else LearnedFile(folder.path)
    known_cap, pauses = (None, Pauses()) if learned is None else learned.read()
    is_auto = max_records_per_batch == AUTO
    wishes = Wishes(
        goal,
        managed.slots_per_executor,
        caps=is_auto,
        knows_cap=known_cap is not None,
        most_partitions=most,
        rest_s=rest_s,
        held_for_s=held_for_s,
    )
    advisor = Advisor(clock.now, wishes, pauses, managed.stage_work)
    reporter = EventReporter(clock, on_event)
    stop_event = stop or threading.Event()
    plan = Plan(known_cap if is_auto and known_cap is not None else first_cap, fewest)
    repartitioning = None
    if folder is not None:
        repartitioning = Repartitioning(folder, MarkerFile(folder.path), Aside(folder.path), managed.repartition)
    supervisor = QuerySupervisor(
        managed,
        plan,
        clock,
        backoff=Backoff(restarts or Restarts(), seed),
        report=reporter,
        pauses=pauses,
        repartitioning=repartitioning,
        advisor=advisor,
        acts=chosen_mode is Mode.ACT,
        room=None if folder is None else lambda: _lacking_room(folder.path),
        changed=None if learned is None else lambda plan: learned.write(plan, pauses),
        is_ending=lambda: stop_event.is_set() or (is_ending is not None and is_ending()),
    )
    running = ManagedRun(
        managed,
        supervisor,
        clock,
        stop=stop_event,
        watch=advisor.watch,
        drain_timeout_s=stop_within_s,
    )
    with ExitStack() as undone:
        if scale:
            running.autoscaler = autoscale(session, goal, policy, mode=mode, seed=seed, **scaling)
            undone.callback(running.autoscaler.stop)
            running.autoscaler.watch(advisor.watch)
            reporter.loop = running.autoscaler.loop
        running.start()
        undone.pop_all()
    return running


def _checked(partitions: tuple[int, int] | None) -> tuple[int | None, int | None]:
    if partitions is None:
        return None, None
    try:
        fewest, most = partitions
    except (TypeError, ValueError):
        raise InputError(
            f"partitions {partitions!r} is not allowed; give the fewest and the most, as (2, 16)."
        ) from None
    if not 1 <= fewest <= most:
        raise InputError(
            f"partitions {partitions!r} is not allowed; the fewest must be at least 1 and at most the most."
        )
    return fewest, most


def _first_cap(cap: int | str | None) -> int | None:
    """Return the limit of the first batches."""
    if cap == AUTO:
        return FIRST_CAP
    if cap is None or (isinstance(cap, int) and cap >= 1):
        return cap
    raise InputError(f'max_records_per_batch {cap!r} is not allowed; give a number from 1 on, "auto" or None.')


def _lacking_room(folder: Path) -> str:
    """Return what the disk of a checkpoint lacks, or an empty string."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(there).free
    if free >= LEAST_ROOM_BYTES:
        return ""
    return f"the disk of checkpoint {folder} has less than {LEAST_ROOM_BYTES >> 20} MiB left"
