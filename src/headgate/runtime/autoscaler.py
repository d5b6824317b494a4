"""The live autoscaler: a control loop on a daemon thread next to a job that does not depend on it.

    with headgate.autoscale(spark, objective="latency p95 < 10s", executors=(1, 8)):
        query.awaitTermination()

Whatever happens to the autoscaler, the job keeps running at the size it has.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Protocol

from headgate.core.contracts import Engine
from headgate.core.errors import EngineGoneError, InputError
from headgate.core.extras import needing
from headgate.core.metrics import MetricSource, Observed
from headgate.core.objective import Objective
from headgate.core.topology import Topology
from headgate.core.types import JSON
from headgate.core.units import parse_duration_s
from headgate.engines.base import EngineBase, engine_class
from headgate.journal.contract import Journal
from headgate.policies.frame.base import PolicyMaker
from headgate.rules.model import RulePolicy
from headgate.runtime.assembly import AssembledLoop, LoopSpec, goal_of, open_loop
from headgate.runtime.exposition.job_figures import JobExposure, expose
from headgate.runtime.loop import Clock, ControlLoop, EventWatcher, Mode, SystemClock, Watcher, mode_named
from headgate.runtime.spark_settings import GivenSettings

if TYPE_CHECKING:
    from headgate.engines.spark import SparkSession, StreamingContext

logger = logging.getLogger("headgate")

DEFAULT_INTERVAL_S = 5.0


class Stoppable(Protocol):
    def stop(self) -> None: ...


class Claim:
    """The right to scale one application of this process, until it is released."""

    _held: ClassVar[dict[str, Claim]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, application: str) -> None:
        self.application = application
        self.holder: Stoppable | None = None
        """What is stopped when another autoscaler takes over."""

    @classmethod
    def of(cls, application: str, *, take_over: bool = False) -> Claim:
        """Claim an application; with ``take_over``, the autoscaler that has it is stopped first."""
        with cls._lock:
            held = cls._held.get(application)
            if held is None:
                claim = cls._held[application] = cls(application)
                return claim
        holder = held.holder
        if not take_over or holder is None:
            raise InputError(
                f"application {application} is scaled by another autoscaler of this process already; stop that one, or "
                "pass take_over=True to have it stopped."
            )
        logger.info("taking application %s over from another autoscaler", application)
        holder.stop()
        return cls.of(application)

    def release(self) -> None:
        """Let others scale the application. Calling it twice is fine."""
        with self._lock:
            if self._held.get(self.application) is self:
                del self._held[self.application]


class Autoscaler:
    """Runs a control loop on a thread until it is stopped or the engine is gone."""

    def __init__(
        self,
        loop: ControlLoop,
        interval_s: float,
        assembled: AssembledLoop | None = None,
        claim: Claim | None = None,
    ) -> None:
        if not interval_s > 0:
            raise InputError(f"interval {interval_s:g} s is not allowed; it must be above 0.")
        self.loop = loop
        self.interval_s = interval_s
        self._assembled = assembled
        self._claim = claim
        if claim is not None:
            claim.holder = self
        self._exposures: list[JobExposure] = []
        self.metrics_url: str | None = None
        """Where Prometheus can read the metrics of the job, if anywhere."""
        self._stop = threading.Event()
        self._closing = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="headgate-autoscaler", daemon=True)

    @classmethod
    def of(
        cls,
        assembled: AssembledLoop,
        interval_s: float,
        metrics_port: int | None = None,
        claim: Claim | None = None,
    ) -> Autoscaler:
        """Make the autoscaler of an assembled loop, exposed to Prometheus and OpenTelemetry as configured."""
        exposure = expose(assembled.loop, interval_s, assembled.parts.journal, metrics_port)
        try:
            running = cls(assembled.loop, interval_s, assembled, claim)
        except InputError:
            exposure.close()
            raise
        running.add_exposure(exposure)
        return running

    @property
    def is_alive(self) -> bool:
        """Whether it still scales the job."""
        return self._thread.is_alive()

    @property
    def thread(self) -> threading.Thread:
        return self._thread

    def add_exposure(self, exposure: JobExposure) -> None:
        """Notify an exposure of each cycle, and close it at the end."""
        self.metrics_url = exposure.url
        self._exposures.append(exposure)

    def watch(self, watcher: Watcher) -> None:
        """Call ``watcher`` with every observation and decision from now on."""
        self.loop.watchers.append(watcher)

    def change_policy(self, policy: str | PolicyMaker, settings: Mapping[str, object] | None = None) -> None:
        """Decide by another policy from the next decision on, with the same history.

        A policy that cannot be used is refused with an ``InputError``, and the current one stays.
        """
        if self._assembled is None:
            raise InputError("this autoscaler was made without a switch of policy; autoscale() makes one that has it.")
        self._assembled.change_policy(policy, settings)

    def start(self) -> Autoscaler:
        only = ", recommending only" if self.loop.mode is Mode.RECOMMEND else ""
        self.loop.note("started", f"policy {self.loop.policy.name}, every {self.interval_s:g} s{only}")
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop scaling; the job keeps its size. Calling it twice is fine."""
        self._stop.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        self._end("stopped", "the job keeps its size")

    def _end(self, kind: str, detail: str) -> None:
        """Journal why it ends, save learned state and release everything; only the first reason counts."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            self.loop.note(kind, detail)
            self.loop.save_state()
            try:
                self.loop.engine.close()
            except EngineGoneError:
                logger.info("the engine was gone before the autoscaler")
            finally:
                for exposure in self._exposures:
                    exposure.close()
                if self._claim is not None:
                    self._claim.release()
                if self._assembled is not None:
                    self._assembled.close_journal()

    def __enter__(self) -> Autoscaler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        clock = self.loop.clock
        due_s = clock.now()
        while not self._stop.is_set():
            began_s = clock.now()
            try:
                self.loop.tick()
            except EngineGoneError as error:
                logger.info("nothing left to scale: %s", error)
                self._end("engine-gone", str(error))
                return
            for exposure in self._exposures:
                exposure.ticked(due_s, began_s, clock.now())
            # Missed ticks are not made up for: the next one comes at its regular time.
            due_s += self.interval_s * max(1, -((due_s - clock.now()) // self.interval_s))
            clock.wait_until(due_s, self._stop)


def autoscale(  # noqa: PLR0913 - one keyword per thing that a user may say
    spark: SparkSession | StreamingContext,
    objective: str | Objective | Mapping[str, JSON] | Path = "latency p95 < 10s",
    policy: str | PolicyMaker | None = None,
    executors: tuple[int, int] | None = None,
    *,
    price: float | None = None,
    job: str | None = None,
    queries: Sequence[str] | None = None,
    settings: Mapping[str, object] | str | Path | None = None,
    guards: Mapping[str, object] | None = None,
    constraints: str | Path | RulePolicy | None = None,
    metrics: Mapping[str, MetricSource] | None = None,
    interval: str | float = DEFAULT_INTERVAL_S,
    journal: str | Path | Journal | None = None,
    state: str | Path | Mapping[str, JSON] | None = None,
    shadows: Sequence[str | PolicyMaker] = (),
    mode: str = Mode.ACT,
    take_over: bool = False,
    drain_timeout: str | float = 30.0,
    metrics_port: int | None = None,
    seed: int = 0,
) -> Autoscaler:
    """Keep a streaming job at the size its objective needs: a session's streaming queries, or a ``StreamingContext``.

    It starts at once and runs until ``stop()``; as a context manager, until the block ends.

    - ``objective``: ``"latency p95 < 10s"``, ``"slow records < 5%"``, ``"throughput >= 95%"``, an ``Objective``, the
      same as a mapping, or the path of a YAML file with it; ``"latency p95 < 10s per 6h, cost < 12 per day"`` adds the
      period that it is judged over, a day by default, and what all executors may cost
    - ``price``: what an executor costs per hour, in the unit of that cost
    - ``policy``: a name from ``headgate policies`` or a policy that is set up, such as ``Rules.from_file(…)``;
      autopilot by default. ``settings`` are those of a policy by name, ``guards`` those of the stabilisers
    - ``settings`` may also be the path of a settings file, which ``headgate lab tune`` writes; it names the policy
    - ``constraints``: a rule file of constraints, which limit every policy
    - ``metrics``: sources of your own metrics, by name: a callable that is given the operator's name,
      ``headgate.Prometheus("query", url=…)``, or ``headgate.rules.Observed("name", "column")`` of a ``df.observe``;
      one with the name of a metric that every engine reads replaces the engine's reading
    - ``executors``: fewest and most executors; 1 to 10 by default, or what the job has if that is more
    - ``job``: its name in the journal, which later runs find it by; the application's name by default
    - ``queries``: the names of the streaming queries that count; all by default. ``"!name"`` excludes one
    - ``interval``: time between decisions
    - ``journal``: a file for observations, decisions and learned state (``headgate explain FILE``), or a journal
    - ``state``: what the policy has learned elsewhere: a snapshot, its file, or the journal of another run; newer
      state in this job's own journal takes precedence
    - ``shadows``: policies that decide on the same readings and never act; ``headgate explain --shadows`` shows where
      they differed
    - ``mode``: ``"act"``, or ``"recommend"``: everything is decided and journalled, and nothing is changed;
      meanwhile others may scale the job, such as Spark's own dynamic allocation
    - ``take_over``: stop Spark's own dynamic allocation, or another autoscaler of this session, instead of refusing it
    - ``drain_timeout``: how long an executor may take to leave before it is killed
    - ``metrics_port``: a port of the loopback interface where Prometheus can read the metrics of the job, 0 for a free
      one (``metrics_url`` of the autoscaler); ``OTEL_…`` variables send the same to a collector

    What is not given of ``settings``, ``guards``, ``executors`` and ``seed`` is taken from Spark's configuration
    (``spark.headgate.…``, see ``runtime/spark_settings.py``).
    """
    with needing("autoscale"):
        from headgate.engines.spark import SPARK_METRICS, application_id, application_name, configuration, open_engine

    spec = LoopSpec(
        objective=goal_of(objective, executors, price),
        policy=policy,
        settings=settings,
        guards=guards,
        constraints=constraints,
        metrics=metrics,
        shadows=shadows,
        mode=mode,
        state=state,
        journal=journal,
        seed=seed,
    )
    # All errors in the arguments are found before the session is touched.
    parts = spec.parts(Topology.single(), SPARK_METRICS)
    given = GivenSettings(policy, settings, guards, executors, seed)
    if (completed := given.completed(configuration(spark))) is not given:
        spec = replace(
            spec,
            objective=goal_of(objective, completed.executors, price),
            settings=completed.settings,
            guards=completed.guards,
            seed=completed.seed,
        )
        parts = spec.parts(Topology.single(), SPARK_METRICS)
    interval_s, drain_timeout_s = parse_duration_s(interval), parse_duration_s(drain_timeout)
    clock, acts = SystemClock(), parts.mode is Mode.ACT
    with contextlib.ExitStack() as undone:
        claim = Claim.of(application_id(spark), take_over=take_over) if acts else None
        if claim is not None:
            undone.callback(claim.release)
        spec = spec.with_open_journal()
        undone.callback(spec.close_journal)
        engine = open_engine(
            spark,
            take_over=take_over if acts else None,
            drain_timeout_s=drain_timeout_s,
            now=clock.now,
            observed={name: source for name, source in parts.metrics.items() if isinstance(source, Observed)},
            queries=queries,
            late_after_s=spec.objective.late_after_s,
        )
        undone.callback(engine.close)
        spec = replace(spec, objective=spec.objective.fitting(engine.planned), job=job or application_name(spark))
        assembled = open_loop(spec, engine, clock, engine_name="spark")
        running = Autoscaler.of(assembled, interval_s, metrics_port, claim)
        undone.pop_all()
    return running.start()


def autoscale_engine(  # noqa: PLR0913 - one keyword per thing that a user may say
    engine: str | Engine,
    target: str = "",
    objective: str | Objective | Mapping[str, JSON] | Path = "latency p95 < 10s",
    policy: str | PolicyMaker | None = None,
    instances: tuple[int, int] | None = None,
    *,
    price: float | None = None,
    job: str | None = None,
    settings: Mapping[str, object] | str | Path | None = None,
    guards: Mapping[str, object] | None = None,
    constraints: str | Path | RulePolicy | None = None,
    metrics: Mapping[str, MetricSource] | None = None,
    interval: str | float = DEFAULT_INTERVAL_S,
    journal: str | Path | Journal | None = None,
    state: str | Path | Mapping[str, JSON] | None = None,
    shadows: Sequence[str | PolicyMaker] = (),
    mode: str = Mode.ACT,
    seed: int = 0,
    clock: Clock | None = None,
    metrics_port: int | None = None,
    watchers: Sequence[Watcher] = (),
    event_watchers: Sequence[EventWatcher] = (),
) -> Autoscaler:
    """Keep the operators of an engine at the sizes their objective needs, as ``autoscale`` does those of Spark.

    - ``engine``: a name from ``headgate engines``, or an open engine
    - ``target``: the job, in the format of an engine by name
    - ``instances``: fewest and most of each operator
    - ``job``: its name in the journal, by which it is found when it starts again; the target by default
    - ``clock``: the source of times; for an open engine it must be the engine's own clock
    - ``watchers``, ``event_watchers``: called with every cycle, and with events of the loop and of the engine

    An end-to-end objective is divided among several operators if the policy decides for each separately.

    All else is as for ``autoscale``.
    """
    spec = LoopSpec(
        objective=goal_of(objective, instances, price),
        policy=policy,
        settings=settings,
        guards=guards,
        constraints=constraints,
        metrics=metrics,
        shadows=shadows,
        mode=mode_named(mode),
        state=state,
        journal=journal,
        seed=seed,
    )
    interval_s, time = parse_duration_s(interval), SystemClock() if clock is None else clock
    with contextlib.ExitStack() as undone:
        opened: Engine = engine_class(engine)(target, time.now) if isinstance(engine, str) else engine
        undone.callback(opened.close)
        name = _name(opened)
        assembled = open_loop(replace(spec, job=job or target or name), opened, time, engine_name=name)
        undone.callback(assembled.close_journal)
        assembled.loop.watchers += watchers
        assembled.loop.event_watchers += event_watchers
        running = Autoscaler.of(assembled, interval_s, metrics_port)
        undone.pop_all()
    return running.start()


def _name(engine: Engine) -> str:
    if isinstance(engine, EngineBase):
        return engine.name
    named = getattr(engine, "name", type(engine).__name__)
    if not isinstance(named, str):
        raise InputError(f"engine name {named!r} is not allowed; it must be a text.")
    return named
