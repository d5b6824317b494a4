"""Wrong readings as a check of policies: none of them may shrink a job that needs its size, or keep it small.

    check_hostile_readings("reactive")

Each stream spoils the readings of a simulated job from some moment on: one sample, the same wrong value again and
again or at every other reading, readings out of order, old ones, frozen ones, and counters that are reset. The run is
compared with a run of the same policy on true readings. An engine of yours is tried inside a :class:`HostileEngine`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from headgate.core.contracts import Engine, Policy
from headgate.core.objective import Objective, parse_objective
from headgate.core.step import Guards
from headgate.core.topology import Topology
from headgate.core.types import COUNTERS, Decision, Observation, Receipt, Run, Sample
from headgate.journal.memory import MemoryJournal
from headgate.policies.frame.base import Context, GuardSettings, PolicyBase
from headgate.runtime.assembly import guards_around
from headgate.runtime.loop import FALLBACK_AFTER_TICKS, ControlLoop
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.contract import Kernel
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.testing.contract import ensure
from headgate.testing.policies import PolicyFactory, factory_of
from headgate.workloads import parse_workload

JOB = "job"
Spoil: TypeAlias = Callable[[int, Sequence[Observation]], Observation]
"""Given the readings since the stream began, and all true observations so far: what is observed instead of the last."""


@dataclass(frozen=True, slots=True)
class HostileStream:
    """Wrong readings from some moment on."""

    name: str
    spoil: Spoil
    is_single: bool = False
    """Whether only one reading is wrong: then nothing may come of it."""


class HostileEngine:
    """An engine whose readings are spoiled by a stream once it ``is_hostile``."""

    def __init__(self, engine: Engine, stream: HostileStream | None) -> None:
        self._engine = engine
        self._stream = stream
        self._seen: list[Observation] = []
        self._readings = 0
        self.is_hostile = False

    def topology(self) -> Topology:
        return self._engine.topology()

    def observe(self) -> Observation:
        self._seen.append(self._engine.observe())
        if self._stream is None or not self.is_hostile:
            return self._seen[-1]
        self._readings += 1
        return self._stream.spoil(self._readings - 1, self._seen)

    def apply(self, decision: Decision) -> Receipt:
        return self._engine.apply(decision)

    def close(self) -> None:
        self._engine.close()


def _changed(field: str, value: Callable[[Any], Any]) -> Callable[[Observation], Observation]:
    """Return what changes one field of an observation; fields that are not known get a value, too."""

    def change(seen: Observation) -> Observation:
        if field in ("planned", "requested", "ready"):
            sizes: dict[str, Any] = {
                name: replace(size, **{field: value(getattr(size, field))}) for name, size in seen.instances.items()
            }
            return replace(seen, instances=sizes)
        if field.startswith("batch."):
            return _with_batches(seen, field.removeprefix("batch."), value)
        samples = {}
        for name, sample in seen.samples.items():
            changes: dict[str, Any] = {field: value(getattr(sample, field) or 0.0)}
            samples[name] = replace(sample, **changes)
        return replace(seen, samples=samples)

    return change


def _with_batches(seen: Observation, field: str, value: Callable[[Any], Any]) -> Observation:
    samples = {}
    for name, sample in seen.samples.items():
        batches = tuple(replace(batch, **{field: value(getattr(batch, field) or 0.0)}) for batch in sample.batches)
        samples[name] = replace(sample, batches=batches)
    return replace(seen, samples=samples)


_TIMES: Mapping[str, Callable[[Any], Any]] = {
    "nan": lambda _: math.nan,
    "inf": lambda _: math.inf,
    "-1": lambda _: -1.0,
    "0": lambda _: 0.0,
    "1e300": lambda _: 1e300,
    "x1000": lambda value: 1000.0 * value,
    "x10": lambda value: 10.0 * value,
    "x0.1": lambda value: 0.1 * value,
    "-1e-6": lambda value: value - 1e-6,
}
_COUNTER_VALUES = ("nan", "inf", "-1", "0", "1e300", "x1000", "x10", "x0.1", "-1e-6")
_GAUGE_VALUES = ("nan", "-1", "0", "1e300", "x1000")
_WRONG: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("arrived", "done", "busy_s", "available_s"), _COUNTER_VALUES),
    **dict.fromkeys(("emitted", "late"), ("nan", "0", "x1000")),
    **dict.fromkeys(("backlog", "latency_s", "processed_rate_per_s", "input_rate_per_s", "utilization"), _GAUGE_VALUES),
    **dict.fromkeys(("processing_time_s", "scheduling_delay_s", "trigger_interval_s"), ("nan", "-1", "0")),
    "age_s": ("nan", "-1", "1e300"),
    "batch.records": ("nan", "-1", "x1000", "x10"),
    "batch.ended_s": ("nan", "1e300"),
    "ready": ("nan", "-1", "1e300"),
    "planned": ("nan", "-1"),
}
_DATES: Mapping[str, Callable[[Any], Any]] = {
    "nan": lambda _: math.nan,
    "300 s ahead": lambda at_s: at_s + 300.0,
    "1e300": lambda _: 1e300,
    "-1e300": lambda _: -1e300,
    "300 s ago": lambda at_s: at_s - 300.0,
}
_LASTING = (
    *(("done", "x1000"), ("done", "x10"), ("arrived", "0"), ("backlog", "0")),
    *(("latency_s", "nan"), ("busy_s", "0")),
)
"""What is wrong again and again."""
REPEATED = 12
"""How many wrong readings a repeated stream has."""


def _single(change: Callable[[Observation], Observation]) -> Spoil:
    return lambda readings, seen: change(seen[-1]) if readings == 0 else seen[-1]


def _repeated(change: Callable[[Observation], Observation], every: int = 1) -> Spoil:
    return lambda readings, seen: (
        change(seen[-1]) if readings < REPEATED * every and readings % every == 0 else seen[-1]
    )


def _out_of_order(readings: int, seen: Sequence[Observation]) -> Observation:
    """Every third reading was overtaken by the two before it."""
    return replace(seen[-1], samples=seen[-4].samples) if readings < 3 * REPEATED and readings % 3 == 0 else seen[-1]


def _old(readings: int, seen: Sequence[Observation]) -> Observation:
    """For a minute the content of ten minutes ago, dated now."""
    if readings >= REPEATED:
        return seen[-1]
    before = seen[max(0, len(seen) - 120)]
    samples = {name: replace(sample, at_s=seen[-1].at_s, batches=()) for name, sample in before.samples.items()}
    return replace(seen[-1], samples=samples)


def _frozen(readings: int, seen: Sequence[Observation]) -> Observation:
    """For five minutes nothing but the date moves."""
    if readings >= 60:
        return seen[-1]
    frozen = seen[len(seen) - 1 - readings]
    samples = {name: replace(sample, at_s=seen[-1].at_s, batches=()) for name, sample in frozen.samples.items()}
    return replace(seen[-1], samples=samples)


def _reset(names: Sequence[str]) -> Spoil:
    """Counters start again at 0, and stay on that course."""

    def spoil(readings: int, seen: Sequence[Observation]) -> Observation:
        first, samples = seen[len(seen) - 1 - readings], {}
        for operator, sample in seen[-1].samples.items():
            samples[operator] = _less(sample, first.samples.get(operator, sample), names)
        return replace(seen[-1], samples=samples)

    return spoil


def _less(sample: Sample, first: Sample, names: Sequence[str]) -> Sample:
    changes: dict[str, Any] = {}
    for name in names:
        value, begun = getattr(sample, name), getattr(first, name)
        if value is not None and begun is not None:
            changes[name] = value - begun
    return replace(sample, **changes)


def _streams() -> Iterator[HostileStream]:
    wrong = [(field, name, _TIMES[name]) for field, names in _WRONG.items() for name in names]
    wrong += [("at_s", name, value) for name, value in _DATES.items()]
    for field, name, value in wrong:
        yield HostileStream(f"once: {field} {name}", _single(_changed(field, value)), is_single=True)
    for field, name in _LASTING:
        change = _changed(field, _TIMES[name])
        yield HostileStream(f"repeated: {field} {name}", _repeated(change))
        yield HostileStream(f"alternating: {field} {name}", _repeated(change, every=2))
    yield HostileStream("out of order", _out_of_order)
    yield HostileStream("old", _old)
    yield HostileStream("frozen", _frozen)
    yield HostileStream("reset: all counters", _reset(COUNTERS))
    yield HostileStream("reset: done", _reset(("done",)))
    yield HostileStream("reset: arrived", _reset(("arrived",)))


HOSTILE_STREAMS: tuple[HostileStream, ...] = tuple(_streams())
"""Every stream, in the order in which :func:`check_hostile_readings` tries them."""


@dataclass(frozen=True, slots=True)
class HostileLoad:
    """A simulated job whose instances carry 10 records/s each, and when its readings become hostile."""

    name: str
    workload: str
    model: str = "queue"
    hostile_s: float = 900.0
    end_s: float = 2400.0


HOSTILE_LOADS = (
    HostileLoad("steady", "constant:65"),
    HostileLoad("rising", "ramp:from=20,to=110,over=40m"),
    HostileLoad("swinging", "sine:mean=60,amplitude=25,period=40m", "micro-batch"),
)
RATE_PER_S = 10.0
TICK_S = 5.0
OBJECTIVE = "latency p95 < 10s"
BOUNDS = (1, 16)
START = 8


@dataclass(frozen=True, slots=True)
class HostileOutcome:
    """What a policy made of a stream."""

    stream: str
    load: str
    wrong_scale_ins: int
    """Decisions to a size below what the load needs, and below what the policy has on true readings."""
    is_stuck_low: bool
    """Whether the job was too small in that sense at the end, 25 minutes later."""
    failed_ticks: int
    """The most ticks in a row at which nothing but a hold was decided because the policy raised."""
    worse_than_holding: int
    """Wrong scale-ins to sizes that are also below what the policy has on true readings that are doubted when those of
    the stream are: what the wrong values lead to, and not the caution that they call for."""
    is_stuck_by_values: bool
    """Whether the job was too small in that sense at the end."""


@dataclass(frozen=True, slots=True)
class _Course:
    """What came of a run from the hostile moment on."""

    sizes: tuple[int, ...]
    failed_ticks: int
    doubted: frozenset[int]
    """The ticks at which the newest reading was doubted, counted from that moment."""


def hostile_outcome(factory: PolicyFactory, stream: HostileStream, load: HostileLoad) -> HostileOutcome:
    """Run a policy on a load with and without a stream."""
    course = _run(factory, load, stream)
    clean, held = _run_on_truth(factory, load), _run_on_truth(factory, load, course.doubted)
    workload = parse_workload(load.workload)
    needs = [math.ceil(workload.arrivals(at_s - 30.0, at_s) / 30.0 / RATE_PER_S) for at_s in _times(load)]
    limits = [min(need, size) for need, size in zip(needs, clean.sizes, strict=True)]
    wrong, is_stuck = _too_small(course.sizes, limits)
    worse, is_stuck_by_values = _too_small(course.sizes, map(min, limits, held.sizes))
    return HostileOutcome(stream.name, load.name, wrong, is_stuck, course.failed_ticks, worse, is_stuck_by_values)


def _too_small(sizes: Sequence[int], limits: Iterable[int]) -> tuple[int, bool]:
    """Return how often a size fell below its limit by a reduction, and whether it was below for the last minute."""
    too_small = [size < limit for size, limit in zip(sizes, limits, strict=True)]
    wrong = sum(
        is_low and size < before for is_low, size, before in zip(too_small[1:], sizes[1:], sizes[:-1], strict=True)
    )
    return wrong, all(too_small[-12:])


def check_hostile_readings(
    policy: Any,
    streams: Sequence[HostileStream] = HOSTILE_STREAMS,
    loads: Sequence[HostileLoad] = HOSTILE_LOADS,
    *,
    learns: bool = False,
) -> None:
    """Raise ``ContractViolation`` where a stream has a policy shrink wrongly, stay small or fail for long.

    A policy that ``learns`` by trial takes another course once a decision was held up, so it is compared with a run on
    true readings that were held in doubt at the same moments.
    """
    factory = factory_of(policy)
    for load in loads:
        for stream in streams:
            outcome = hostile_outcome(factory, stream, load)
            wrong = outcome.worse_than_holding if learns else outcome.wrong_scale_ins
            is_stuck = outcome.is_stuck_by_values if learns else outcome.is_stuck_low
            where = f"with readings '{stream.name}' on load {load.name}"
            ensure(
                not (stream.is_single and wrong),
                f"{where}, it scaled in {wrong} times below what the load needs",
            )
            ensure(not is_stuck, f"{where}, it stayed below what the load needs")
            ensure(
                outcome.failed_ticks < FALLBACK_AFTER_TICKS,
                f"{where}, it failed at {outcome.failed_ticks} ticks in a row; "
                f"fewer than {FALLBACK_AFTER_TICKS} are allowed",
            )


@lru_cache(maxsize=256)
def _run_on_truth(factory: PolicyFactory, load: HostileLoad, doubted: frozenset[int] = frozenset()) -> _Course:
    """Return the course on true readings, of which some are doubted for a field that no policy needs here."""
    doubtful = _changed("emitted", _TIMES["nan"])
    stream = HostileStream("doubted", lambda reading, seen: doubtful(seen[-1]) if reading in doubted else seen[-1])
    return _run(factory, load, stream)


def _times(load: HostileLoad) -> list[float]:
    """The times from which on readings are hostile."""
    return [TICK_S * tick for tick in range(int(load.hostile_s / TICK_S), int(load.end_s / TICK_S))]


def _run(factory: PolicyFactory, load: HostileLoad, stream: HostileStream) -> _Course:
    """Return the planned sizes from the hostile moment on, the longest row of failed ticks, and the doubted ticks."""
    objective = parse_objective(OBJECTIVE).within(*BOUNDS)
    simulated = SimulatedEngine(_kernel(load), startup_s=30.0)
    engine = HostileEngine(simulated, stream)
    policy = factory(Context(objective, engine.topology()))
    journal = MemoryJournal()
    loop = ControlLoop(engine, policy, _guards(policy, objective), simulated, journal=journal)
    journal.begin(Run(0.0, policy.name, {}, str(objective), "simulated", (JOB,)))
    sizes: list[int] = []
    doubted, failed, most_failed = set(), 0, 0
    for tick in range(int(load.end_s / TICK_S)):
        simulated.advance(TICK_S * tick)
        engine.is_hostile = TICK_S * tick >= load.hostile_s
        decision = loop.tick()
        verdict = None if decision is None else decision.verdicts.get(JOB)
        is_failed = verdict is None or verdict.code == "policy-failed"
        failed = failed + 1 if is_failed else 0
        most_failed = max(most_failed, failed)
        if engine.is_hostile:
            if loop.history.is_doubted(JOB):
                doubted.add(len(sizes))
            sizes.append(simulated.observe().instances[JOB].planned)
    return _Course(tuple(sizes), most_failed, frozenset(doubted))


def _kernel(load: HostileLoad) -> Kernel:
    workload = parse_workload(load.workload)
    if load.model == "queue":
        return QueueNetwork(workload, RATE_PER_S, ready=START, late_after_s=10.0)
    return MicroBatchJob(workload, RATE_PER_S, ready=START, late_after_s=10.0)


def _guards(policy: Policy, objective: Objective) -> Guards:
    return guards_around(policy) if isinstance(policy, PolicyBase) else Guards(GuardSettings().build(objective))
