"""The micro-batch model: a Structured Streaming job with a processing-time trigger.

- A batch starts at a multiple of the trigger interval, or when the previous batch ends if that is later. It takes what
  has arrived, up to a limit. When nothing has arrived no batch runs, and the idle trigger counts as an empty batch.
- A batch takes a fixed overhead, then the slots of the ready instances process its records. With ``partitions`` these
  are that many equal tasks, which run in waves; a change of size applies to tasks that have not started, and a leaving
  instance finishes its task. Otherwise the work is divided again at every change.
- The results of a batch appear when it ends; until then its progress shows in the backlog only.
- The first batches after an instance joined are slower (cold). So is the instance's first task, which delays its batch.
  Every change of size may cost a pause.
- With ``skew``, a share of the records of a batch has one key and is processed by a single slot, which starts with it.
- With ``work``, records differ in weight: it is the workload in units of average records.
- As in Spark Streaming (DStreams), every trigger interval may make a batch of its own, however many are waiting.
- Noise multiplies a batch's service time by a lognormal factor of mean 1, drawn from a seed when the batch starts.

Records are a fluid, as in the queue model: a batch may have a fraction of a record. ``batch_job.py`` runs the model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.units import exact_duration, exact_number, exact_share, key_texts, parse_duration_s, parse_share
from headgate.simulation.contract import require_service_rate


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """How the batches of a job behave at a given service rate of an instance."""

    trigger_interval_s: float = 5.0
    overhead_s: float = 0.25
    """The time of a batch without records."""
    max_records_per_batch: float | None = None
    """The most records of a batch; all waiting records where it is not given."""
    cores: int = 1
    """Slots of an instance; together they have its service rate."""
    partitions: int | None = None
    """Tasks of a batch, each done by one slot; without it, work is divided evenly among all slots."""
    task_overhead_s: float = 0.0
    """The time of a task without records."""
    skew: float = 0.0
    """The share of the records with one key, which a single slot must process: more than ``1 / skew`` slots do
    not help. With ``partitions``, the largest task has that share, or ``1 / partitions`` if more; others are equal."""
    cold_factor: float = 1.0
    """Factor on the service time of a cold batch."""
    cold_batches: int = 1
    """How many batches are cold after an instance joined."""
    cold_task_s: float = 0.0
    """Additional time of the first task of a new slot, with ``partitions``. It delays the batch of that task, even one
    that was running when the instance joined."""
    rescale_pause_s: float = 0.0
    """How long the job stands still when instances join or leave."""
    noise: float = 0.0
    """The standard deviation of the logarithm of a batch's service time."""
    work_factor: tuple[tuple[float, float], ...] = ()
    """The weight of records over time, as pairs of seconds and factor with straight lines between them; two pairs at
    one time are a jump. Without it, always 1."""
    off_s: tuple[tuple[float, float], ...] = ()
    """Corrections of batch durations: pairs of a time and seconds, each applied to the first batch that starts then or
    later. They carry deviations of a recorded job that are unrelated to its size."""
    speed_up: tuple[tuple[int, float], ...] = ()
    """Throughput relative to one instance, as pairs of instances and factor with straight lines between them; constant
    beyond the last pair. Without it, proportional to the instances. A batch uses the instances present at its start."""
    batch_per_interval: bool = False
    """Whether each trigger interval makes a batch of its own, which then queues (DStreams). Otherwise a batch takes all
    waiting records when it starts (Structured Streaming)."""

    def __post_init__(self) -> None:
        allowed = (
            ("trigger_interval_s", 0 < self.trigger_interval_s < math.inf, "finite and above 0"),
            ("overhead_s", 0 <= self.overhead_s < math.inf, "finite and not negative"),
            ("max_records_per_batch", self.max_records_per_batch is None or self.max_records_per_batch > 0, "above 0"),
            ("cores", self.cores >= 1, "at least 1"),
            ("partitions", self.partitions is None or self.partitions >= 1, "at least 1"),
            ("task_overhead_s", 0 <= self.task_overhead_s < math.inf, "finite and not negative"),
            ("skew", 0 <= self.skew <= 1, "between 0 and 1"),
            ("cold_factor", 1 <= self.cold_factor < math.inf, "finite and at least 1"),
            ("cold_batches", self.cold_batches >= 0, "not negative"),
            ("cold_task_s", 0 <= self.cold_task_s < math.inf, "finite and not negative"),
            ("rescale_pause_s", 0 <= self.rescale_pause_s < math.inf, "finite and not negative"),
            ("noise", 0 <= self.noise < math.inf, "finite and not negative"),
            ("work_factor", _is_course(self.work_factor), "pairs of times that do not fall and finite factors above 0"),
            ("off_s", _is_off(self.off_s), "pairs of times that do not fall and finite seconds"),
            (
                "speed_up",
                _is_speed_up(self.speed_up),
                "rising instances from 1 on and finite factors above 0",
            ),
            (
                "batch_per_interval",
                not (self.batch_per_interval and self.max_records_per_batch),
                "false where max_records_per_batch is set",
            ),
        )
        for name, is_allowed, rule in allowed:
            if not is_allowed:
                raise InputError(f"{name} {getattr(self, name)} is not allowed; it must be {rule}.")

    @property
    def largest_share(self) -> float:
        """The share of a batch that skew makes indivisible; 0 where skew has no effect."""
        return self.skew if self.skew * (self.partitions or math.inf) > 1 else 0.0

    def efficiency(self, instances: int) -> float:
        """Return the throughput per instance relative to that of a single instance."""
        if not self.speed_up or instances <= 1:
            return 1.0
        counts, factors = zip(*self.speed_up, strict=True)
        return float(np.interp(instances, counts, factors) / (factors[0] * instances))


def _is_speed_up(pairs: tuple[tuple[int, float], ...]) -> bool:
    counts = [count for count, _ in pairs]
    rises = all(before < after for before, after in pairwise(counts))
    return not pairs or (counts[0] == 1 and rises and all(0 < factor < math.inf for _, factor in pairs))


def _is_off(pairs: tuple[tuple[float, float], ...]) -> bool:
    times_s = [at_s for at_s, _ in pairs]
    return times_s == sorted(times_s) and all(math.isfinite(seconds) for _, seconds in pairs)


def _is_course(pairs: tuple[tuple[float, float], ...]) -> bool:
    times_s = [at_s for at_s, _ in pairs]
    return times_s == sorted(times_s) and all(0 < factor < math.inf for _, factor in pairs)


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """How the throughput of a job grows with its instances: ``linear``, ``saturating`` or ``retrograde``.

    ``n`` instances have ``n / (1 + contention · (n - 1) + coherency · n · (n - 1))`` times the throughput of one: the
    universal scalability law (N. J. Gunther, Guerrilla Capacity Planning, Springer 2007). Contention is the serial
    share of the work; without coherency this is Amdahl's law, and no size has more than ``1 / contention`` times the
    throughput of one. Coherency is what each instance spends on agreeing with every other: beyond
    ``sqrt((1 - contention) / coherency)`` instances, more of them process less.

    >>> model = parse_service_model("retrograde:rate=50,contention=0.03,coherency=0.002,pause=30s,skew=10%")
    >>> round(model.peak_instances, 1), round(model.speed_up(22), 2), round(model.speed_up(40), 2)
    (22.0, 8.61, 7.56)
    >>> model.micro_batch(40).rescale_pause_s
    30.0
    """

    name: str
    rate_per_s: float
    """Records per second that one instance processes."""
    contention: float = 0.0
    coherency: float = 0.0
    pause_s: float = 0.0
    """How long the job stands still when instances join or leave."""
    skew: float = 0.0
    """The share of the records that have one key (``MicroBatch.skew``)."""
    startup_s: float | None = None
    """How long an instance takes to be ready; ``None`` where not given."""

    def __post_init__(self) -> None:
        if self.name not in _LAW:
            raise UnknownNameError("service model", self.name, _LAW)
        require_service_rate("an instance", self.rate_per_s)
        if not 0 <= self.contention < 1:
            raise InputError(f"contention {self.contention:g} is not allowed; it must be at least 0 and below 1.")
        if not 0 <= self.coherency < 1:
            raise InputError(f"coherency {self.coherency:g} is not allowed; it must be at least 0 and below 1.")
        for key, value in (("contention", self.contention), ("coherency", self.coherency)):
            if value and key not in _LAW[self.name]:
                raise InputError(f"{key} {value:g} is not allowed; {self.name} has none.")

    @property
    def peak_instances(self) -> float:
        """The size beyond which throughput falls; infinity where there is none."""
        return math.sqrt((1 - self.contention) / self.coherency) if self.coherency else math.inf

    def speed_up(self, instances: int) -> float:
        """Return the throughput of several instances relative to that of one."""
        return instances / (1 + (self.contention + self.coherency * instances) * (instances - 1))

    def micro_batch(self, max_instances: int, usual: MicroBatch | None = None) -> MicroBatch:
        """Return the micro-batch model up to a size; ``usual`` gives the remaining fields."""
        if self.coherency and not self.peak_instances < max_instances:
            raise InputError(
                f"service model {self.describe()!r} gets through most at {self.peak_instances:.1f} instances, which is "
                f"not below the {max_instances} that are allowed; raise coherency or the bound."
            )
        bends = self.contention or self.coherency
        curve = tuple((count, self.speed_up(count)) for count in range(1, max_instances + 1)) if bends else ()
        return dataclasses.replace(usual or MicroBatch(), speed_up=curve, rescale_pause_s=self.pause_s, skew=self.skew)

    def describe(self) -> str:
        """Return the specification that :func:`parse_service_model` reads."""
        law = {key: getattr(self, key) for key in ("contention", "coherency") if key in _KEYS[self.name]}
        parts = [f"rate={exact_number(self.rate_per_s)}", *(f"{key}={exact_number(law[key])}" for key in law)]
        if self.pause_s:
            parts.append(f"pause={exact_duration(self.pause_s)}")
        if self.skew:
            parts.append(f"skew={exact_share(self.skew)}")
        if self.startup_s is not None:
            parts.append(f"startup={exact_duration(self.startup_s)}")
        return f"{self.name}:{','.join(parts)}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"{text!r} is not a number; write for example 10 or 0.05.") from error


_LAW: Mapping[str, tuple[str, ...]] = {
    "linear": (),
    "saturating": ("contention",),
    "retrograde": ("contention", "coherency"),
}
"""The parameters of each model after the rate."""
_READ: Mapping[str, tuple[str, Callable[[str], float]]] = {
    "rate": ("rate_per_s", _number),
    "contention": ("contention", _number),
    "coherency": ("coherency", _number),
    "pause": ("pause_s", parse_duration_s),
    "skew": ("skew", parse_share),
    "startup": ("startup_s", parse_duration_s),
}
"""The field and the parser of each key."""
_KEYS = {name: ("rate", *needed, "pause", "skew", "startup") for name, needed in _LAW.items()}
_EXAMPLES = {
    "linear": "linear:rate=50",
    "saturating": "saturating:rate=50,contention=0.05",
    "retrograde": "retrograde:rate=50,contention=0.03,coherency=0.02",
}
SERVICE_MODELS = tuple(_LAW)
SERVICE_MODEL_EXAMPLES = tuple(_EXAMPLES.values())
"""An example of each model, for help texts."""


def parse_service_model(spec: str) -> ServiceModel:
    """Parse the specification of a service model."""
    spec = spec.strip()
    name, _, rest = (part.strip() for part in spec.partition(":"))
    name = name.lower()
    if name not in _LAW:
        raise UnknownNameError("service model", name, _LAW)
    example = _EXAMPLES[name]
    if not rest:
        raise InputError(f"service model {spec!r} says no more than its name; write for example {example}.")
    texts = key_texts("service model", spec, name, _KEYS[name], example, rest)
    missing = [key for key in ("rate", *_LAW[name]) if key not in texts]
    if missing:
        raise InputError(f"service model {spec!r} lacks {', '.join(missing)}; write for example {example}.")
    try:
        values = {_READ[key][0]: _READ[key][1](text) for key, text in texts.items()}
        for key in _LAW[name][-1:]:
            if not values[key] > 0:
                raise InputError(f"{key} {values[key]:g} is not allowed; {name} needs one above 0.")
        return ServiceModel(name, **values)
    except InputError as error:
        raise InputError(f"service model {spec!r} is not usable: {error}") from error
