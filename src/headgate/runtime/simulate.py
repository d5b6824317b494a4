"""Run a policy on a simulated job: the same loop as live, in virtual time.

>>> from headgate.core.objective import parse_objective
>>> from headgate.workloads import parse_workload
>>> result = simulate(
...     "static", parse_workload("constant:10"), objective=parse_objective("latency p95 < 10s"),
...     service_rate_per_s=5.0, seconds=60.0,
... )
>>> result.summary.max_backlog
300.0
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from headgate._version import __version__
from headgate.core.course import paid_from
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.metrics import MetricSource
from headgate.core.objective import Objective
from headgate.core.types import JSON, Decision, Observation
from headgate.journal.contract import Journal
from headgate.journal.findings import Differences, ShadowStory
from headgate.policies.frame.base import PolicyMaker, guards_for
from headgate.rules.model import RulePolicy
from headgate.runtime.assembly import AssembledLoop, LoopSpec, open_loop
from headgate.runtime.interrupts import interrupts_deferred
from headgate.runtime.loop import ControlLoop, Mode
from headgate.runtime.summary import RunRecord, Summary, is_objective_met, summarise
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.batch_readings import ReadingMode
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.micro_batch import MicroBatch
from headgate.simulation.queue import QueueNetwork
from headgate.workloads.contract import Workload

Model: TypeAlias = Literal["queue", "micro-batch"] | MicroBatch
"""How the job works: a plain queue, micro-batches with the usual behaviour, or micro-batches with a given one."""

_Kernel: TypeAlias = QueueNetwork | MicroBatchJob
MODELS = ("queue", "micro-batch")
DEFAULT_INTERVAL_S = 5.0
USUAL_INTERVALS_S = (DEFAULT_INTERVAL_S, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
USUAL_DECISIONS = 20_160
"""A run of more decisions than a week has at 30 s gets a longer interval where none is given."""
MOST_OBSERVATIONS = 250_000
"""Two weeks of the usual interval: of longer runs, plots and series have fewer points."""
MOST_FIXED = 20
"""At most this many fixed sizes are simulated first."""
UNOBSERVED_STEPS = 1000
"""Steps between two reports of the progress of a run that is not observed."""
REPORT_EVERY_S = 0.1
"""How often, in real time, a run reports its progress."""
Progress: TypeAlias = Callable[[float], None]
"""Called now and then with the share of the run that is done, from 0 to 1."""


@dataclass(frozen=True)
class SimulationResult:
    """The observations, the decisions and the figures of a simulated run."""

    run: Mapping[str, JSON]
    """What was run, and its settings."""
    record: RunRecord
    state: Mapping[str, JSON]
    """What the policy had learned by the end."""
    shadows: Mapping[str, ShadowStory] = field(default_factory=dict)
    """Where shadows would have decided otherwise, by their names."""
    journal_fault: str | None = None
    """Why entries are missing from the journal, if any are."""

    @property
    def observations(self) -> list[Observation]:
        return self.record.observations

    @property
    def decisions(self) -> list[Decision]:
        """The decisions that changed the size or were altered by a guard."""
        return self.record.decisions

    @cached_property
    def summary(self) -> Summary:
        return self.record.summary()

    def to_json(self) -> dict[str, JSON]:
        """Plain data, the same for the same arguments and seed."""
        shadows = {name: story.to_json() for name, story in self.shadows.items()}
        return self.record.to_json(self.run) | ({"shadows": shadows} if shadows else {})


@interrupts_deferred()
def simulate(  # noqa: PLR0913 - one keyword per thing that a user may say about a run
    policy: str | PolicyMaker | None,
    workload: Workload,
    *,
    objective: Objective,
    settings: Mapping[str, object] | str | Path | None = None,
    guards: Mapping[str, object] | None = None,
    constraints: str | Path | RulePolicy | None = None,
    metrics: Mapping[str, MetricSource] | None = None,
    service_rate_per_s: float,
    work: Workload | None = None,
    model: Model = "queue",
    start: int = 1,
    readings: str = ReadingMode.SPARK,
    startup_s: float = 0.0,
    startup_spread: float = 0.0,
    drain_s: float = 0.0,
    interval_s: float = DEFAULT_INTERVAL_S,
    seconds: float,
    starts_at_s: float = 0.0,
    seed: int = 0,
    state: str | Path | Mapping[str, JSON] | None = None,
    shadows: Sequence[str | PolicyMaker] = (),
    mode: str = Mode.ACT,
    journal: str | Path | Journal | None = None,
    watch_files: bool = False,
    progress: Progress | None = None,
) -> SimulationResult:
    """Run a policy on a simulated job from time 0, with a decision at every multiple of the interval.

    - ``service_rate_per_s``: records per second that one instance processes
    - ``work``: what arrives in records' worth of service, where records are not all the same (micro-batches only)
    - ``readings``: what can be seen of micro-batches: ``spark``, ``kafka`` or ``perfect`` (``batch_readings.py``)
    - ``start``: instances that are ready at time 0; others take ``startup_s`` seconds to become so. That is the median
      where there is a ``startup_spread``, the standard deviation of the logarithm
    - ``drain_s``: seconds that an instance takes to leave after it has finished what it was doing
    - ``interval_s``: seconds between decisions; ``seconds``: how long the run is
    - ``starts_at_s``: the date of time 0, in seconds since the Unix epoch, for policies and constraints that go by the
      calendar; otherwise it is the beginning of 1970, a Thursday
    - ``policy``: a name, or a policy that is set up, such as ``Rules.from_file(…)``
    - ``constraints``: a rule file of constraints, which hold whatever the policy decides
    - ``metrics``: metrics of your own by name: callables that are given the operator's name
    - ``settings`` of the policy and ``guards`` of the stabilisers, as plain values
    - ``seed``: of the policy's randomness and the model's noise
    - ``state``: what the policy has learned before (``SimulationResult.state``, or any snapshot of it)
    - ``shadows``: policies that decide on the same window and never act
    - ``mode``: ``act``, or ``recommend``: everything is decided and reported, and the job keeps its size
    - ``journal``: where observations, decisions and learned state are written
    - ``watch_files``: pick up edits of a rule file during the run, as a live loop does; the same arguments may then
      give another run
    """
    job = _SimulatedJob(
        workload,
        objective,
        service_rate_per_s,
        work,
        model,
        start,
        readings,
        startup_s,
        startup_spread,
        drain_s,
        interval_s,
        seconds,
        seed,
    )
    kernel, engine = job.opened()
    # The same arguments must give the same run, so an earlier run in the journal does not count.
    spec = LoopSpec(
        objective=objective,
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
        resumes=False,
        requires_rules=False,
        watches_files=watch_files,
        starts_at_s=starts_at_s,
    )
    assembled = open_loop(spec, engine, engine, engine_name=engine.name)
    if assembled.parts.policy.keeps(start) and assembled.loop.mode is Mode.ACT and _needs_no_reading(spec):
        return job.run_unobserved(spec, assembled, kernel, engine, progress)
    return job.run_observed(assembled, kernel, engine, progress)


def _needs_no_reading(spec: LoopSpec) -> bool:
    """Whether nobody but the policy looks at the readings of a run."""
    lookers = (spec.shadows or None, spec.metrics or None, spec.constraints, spec.state, spec.journal)
    return spec.objective.cost is None and all(looker is None for looker in lookers)


@dataclass(frozen=True, slots=True)
class _SimulatedJob:
    """A simulated job, and how long and how often it is observed; the arguments of ``simulate``."""

    workload: Workload
    objective: Objective
    service_rate_per_s: float
    work: Workload | None
    model: Model
    start: int
    readings: str
    startup_s: float
    startup_spread: float
    drain_s: float
    interval_s: float
    seconds: float
    seed: int

    def __post_init__(self) -> None:
        _require_positive("seconds", self.seconds)
        _require_positive("interval_s", self.interval_s)
        if not self.objective.min_instances <= self.start <= self.objective.max_instances:
            raise InputError(
                f"start {self.start} is not allowed; it must lie between min {self.objective.min_instances} "
                f"and max {self.objective.max_instances}."
            )

    def opened(self) -> tuple[_Kernel, SimulatedEngine]:
        """Return the job at time 0, and the engine that scales it."""
        kernel = self._kernel()
        return kernel, SimulatedEngine(
            kernel,
            startup_s=self.startup_s,
            startup_spread=self.startup_spread,
            drain_s=self.drain_s,
            seed=self.seed,
        )

    def _kernel(self) -> _Kernel:
        late_after_s = self.objective.late_after_s
        if self.model == "queue":
            if self.work is not None:
                raise InputError("work of its own is not possible in the queue model; use micro-batch.")
            ReadingMode.of(self.readings)  # The model has no use for it, but a typing error is reported.
            return QueueNetwork(self.workload, self.service_rate_per_s, ready=self.start, late_after_s=late_after_s)
        return MicroBatchJob(
            self.workload,
            self.service_rate_per_s,
            micro_batch(self.model),
            ready=self.start,
            seed=self.seed,
            work=self.work,
            readings=self.readings,
            late_after_s=late_after_s,
        )

    def described(self, assembled: AssembledLoop) -> dict[str, JSON]:
        """What is run, and its settings, as plain data."""
        policy, is_queue = assembled.parts.policy, self.model == "queue"
        return {
            "engine": SimulatedEngine.name,
            "headgate": __version__,
            "policy": policy.name,
            "settings": policy.settings.model_dump(mode="json"),
            "guards": guards_for(policy, assembled.parts.spec.guards).model_dump(mode="json"),
            "objective": str(self.objective),
            "min_instances": self.objective.min_instances,
            "max_instances": self.objective.max_instances,
            "workload": self.workload.describe(),
            "model": "micro-batch" if isinstance(self.model, MicroBatch) else self.model,
            "micro_batch": None if is_queue else dataclasses.asdict(micro_batch(self.model)),
            "service_rate_per_s": self.service_rate_per_s,
            "start": self.start,
            "readings": None if is_queue else str(self.readings),
            "startup_s": self.startup_s,
            "startup_spread": self.startup_spread,
            "drain_s": self.drain_s,
            "interval_s": self.interval_s,
            "seconds": self.seconds,
            "starts_at_s": assembled.parts.spec.starts_at_s,
            "seed": self.seed,
            "mode": str(assembled.loop.mode),
        }

    def run_observed(
        self, assembled: AssembledLoop, kernel: _Kernel, engine: SimulatedEngine, progress: Progress | None
    ) -> SimulationResult:
        """Run the loop to the end, with what it observes, decides and journals."""
        loop, run = assembled.loop, self.described(assembled)
        record, differences = RunRecord(self.objective, most=MOST_OBSERVATIONS), Differences()
        if assembled.parts.shadows:
            loop.shadow_watchers.append(differences)
        try:
            loop.note("started", f"policy {run['policy']} on {self.workload.describe()}, every {self.interval_s:g} s")
            final = _observe_run(loop, engine, record, self.interval_s, self.seconds, progress)
            record.truth = dataclasses.replace(kernel.course("job"), sizes=engine.sizes("job"))
            loop.journal_observation(final)
            loop.save_state()
            loop.note("stopped", f"after {self.seconds:g} simulated seconds")
        finally:
            assembled.close_journal()
        return SimulationResult(run, record, loop.policy.snapshot(), differences.stories(), loop.journal_fault)

    def run_unobserved(
        self,
        spec: LoopSpec,
        assembled: AssembledLoop,
        kernel: _Kernel,
        engine: SimulatedEngine,
        progress: Progress | None,
    ) -> SimulationResult:
        """Let time pass for a policy that keeps its size; its readings are made when somebody looks at them."""

        def observed() -> RunRecord:
            again, same_engine = RunRecord(self.objective, most=MOST_OBSERVATIONS), self.opened()[1]
            same_loop = open_loop(spec, same_engine, same_engine, engine_name=engine.name).loop
            _observe_run(same_loop, same_engine, again, self.interval_s, self.seconds, None)
            return again

        quiet = _UnobservedRecord(self.objective, observed)
        _advance(kernel, self.interval_s, self.seconds, progress)
        quiet.truth = dataclasses.replace(kernel.course("job"), sizes=engine.sizes("job"))
        return SimulationResult(self.described(assembled), quiet, assembled.loop.policy.snapshot())


def fixed_size_comparison(  # noqa: PLR0913 - the same keywords as simulate
    workload: Workload,
    seconds: float,
    sizes: Iterable[int] | None = None,
    *,
    objective: Objective,
    service_rate_per_s: float,
    model: Model = "queue",
    seed: int = 0,
    lead_s: float = 0.0,
    progress: Progress | None = None,
) -> dict[int, Summary]:
    """Return the figures of a load on fixed sizes, by size.

    Without ``sizes`` all within the bounds are there; of more than ``MOST_FIXED`` an even choice, and those around the
    smallest one that meets the objective. The first ``lead_s`` seconds are simulated and not paid for.
    """
    lowest, highest = max(1, objective.min_instances), max(1, objective.max_instances)
    found: dict[int, Summary] = {}

    def run(size: int) -> bool:
        bounded = objective.within(size, size)
        # Nothing is decided, so one cycle is enough: what is scored is what truly happened.
        result = simulate(
            "static",
            workload,
            objective=bounded,
            service_rate_per_s=service_rate_per_s,
            model=model,
            start=size,
            interval_s=seconds,
            seconds=seconds,
            seed=seed,
        )
        assert result.record.truth is not None
        course = paid_from(result.record.truth, lead_s)
        found[size] = summarise(course, (), bounded)
        return bool(is_objective_met(found[size], objective, seconds - lead_s))

    stride = -(-(highest - lowest + 1) // MOST_FIXED)
    first = [*range(lowest, highest, stride), highest] if sizes is None else list(sizes)
    met = []
    for done, size in enumerate(first, start=1):
        if run(size):
            met.append(size)
        if progress is not None:
            progress(done / len(first))
    if sizes is None and met and stride > 1:
        largest_missed = max((size for size in first if size < met[0]), default=lowest - 1)
        enough = met[0]
        while enough - largest_missed > 1:
            middle = (largest_missed + enough) // 2
            if run(middle):
                enough = middle
            else:
                largest_missed = middle
    return dict(sorted(found.items()))


def usual_interval_s(seconds: float) -> float:
    """Return the time between two decisions that suits the length of a run.

    >>> [usual_interval_s(days * 86_400.0) for days in (1, 2, 7, 365)]
    [5.0, 10.0, 30.0, 600.0]
    """
    return next(
        (every_s for every_s in USUAL_INTERVALS_S if seconds <= USUAL_DECISIONS * every_s), USUAL_INTERVALS_S[-1]
    )


class _UnobservedRecord(RunRecord):
    """The record of a run whose policy keeps its size, whatever it reads.

    Its readings are made by a run that observes, and only for those who look at them.
    """

    def __init__(self, objective: Objective, observed: Callable[[], RunRecord]) -> None:
        super().__init__(objective, most=MOST_OBSERVATIONS)
        self._observed = observed
        del self.observations

    def __getattr__(self, name: str) -> Any:
        if name != "observations":
            raise AttributeError(name)
        vars(self).update({**vars(self._observed()), "truth": self.truth})
        return self.observations


def _advance(kernel: _Kernel, interval_s: float, seconds: float, progress: Progress | None) -> None:
    """Let time pass by the steps of a run that observes."""
    times_s = [cycle * interval_s for cycle in range(_cycles(interval_s, seconds))] + [seconds]
    for done in range(0, len(times_s), UNOBSERVED_STEPS):
        if progress is not None:
            progress(done / len(times_s))
        kernel.advance_through(times_s[done : done + UNOBSERVED_STEPS])
    if progress is not None:
        progress(1.0)


def _cycles(interval_s: float, seconds: float) -> int:
    # Rounded, because 1.1 / 0.1 is a little more than 11.
    return math.ceil(round(seconds / interval_s, 9))


def _observe_run(
    loop: ControlLoop,
    engine: SimulatedEngine,
    record: RunRecord,
    interval_s: float,
    seconds: float,
    progress: Progress | None,
) -> Observation:
    """Run a loop to the end, and return the last observation."""
    loop.watchers.append(record)
    _run(loop, engine, interval_s, seconds, progress)
    # The end is observed, but nothing is decided there: it could have no effect.
    loop.history.observe(engine.observe())
    final = loop.history.observations[-1]
    record(final, None)
    return final


def _run(
    loop: ControlLoop, engine: SimulatedEngine, interval_s: float, seconds: float, progress: Progress | None
) -> None:
    cycles = _cycles(interval_s, seconds)
    reported_s = -math.inf
    for cycle in range(cycles):
        # By time and not by cycles: a hundredth of a long run, or one cycle with a long interval, may take minutes.
        if progress is not None and (now_s := time.monotonic()) - reported_s >= REPORT_EVERY_S:
            progress(cycle / cycles)
            reported_s = now_s
        engine.advance(cycle * interval_s)
        loop.tick()
    engine.advance(seconds)
    if progress is not None:
        progress(1.0)


def micro_batch(model: Model) -> MicroBatch:
    """Return how the batches of a model with batches behave."""
    if isinstance(model, MicroBatch):
        return model
    if model != "micro-batch":
        raise UnknownNameError("model", model, MODELS)
    return MicroBatch()


def _require_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} {value} is not allowed; it must be finite and above 0.")
