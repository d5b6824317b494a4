"""How much several instances get through, by name: as many times as much as one (``linear``), ever less
(``saturating``), or in the end even less than fewer of them (``retrograde``).

``n`` instances get through ``n / (1 + contention · (n - 1) + coherency · n · (n - 1))`` times as much as one: the
universal scalability law (N. J. Gunther, Guerrilla Capacity Planning, Springer 2007). Contention is the share of the
work that cannot be done side by side; without coherency that is Amdahl's law, and no number of instances gets through
more than ``1 / contention``. Coherency is what each instance spends on agreeing with every other, so that there is a
size, ``sqrt((1 - contention) / coherency)``, beyond which more of them get through less.

>>> model = parse_service_model("retrograde:rate=50,contention=0.03,coherency=0.002,pause=30s,skew=10%")
>>> round(model.peak_instances, 1), round(model.speed_up(22), 2), round(model.speed_up(40), 2)
(22.0, 8.61, 7.56)
>>> model.micro_batch(40).rescale_pause_s
30.0
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.units import exact_duration, exact_number, exact_share, key_texts, parse_duration_s, parse_share
from headgate.simulation.contract import require_service_rate
from headgate.simulation.micro_batch import MicroBatch


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """How a job works, beside what its batches are like."""

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
    """How long an instance takes to be ready; ``None``: nothing is said of it."""

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
        """The size beyond which more instances get through less; infinity where there is none."""
        return math.sqrt((1 - self.contention) / self.coherency) if self.coherency else math.inf

    def speed_up(self, instances: int) -> float:
        """How many times as much as one instance several get through."""
        return instances / (1 + (self.contention + self.coherency * instances) * (instances - 1))

    def micro_batch(self, max_instances: int, usual: MicroBatch | None = None) -> MicroBatch:
        """The job in micro-batches, up to a size; all that is not said here is as in ``usual``."""
        if self.coherency and not self.peak_instances < max_instances:
            raise InputError(
                f"service model {self.describe()!r} gets through most at {self.peak_instances:.1f} instances, which is "
                f"not below the {max_instances} that are allowed; raise coherency or the bound."
            )
        bends = self.contention or self.coherency
        curve = tuple((count, self.speed_up(count)) for count in range(1, max_instances + 1)) if bends else ()
        return dataclasses.replace(usual or MicroBatch(), speed_up=curve, rescale_pause_s=self.pause_s, skew=self.skew)

    def describe(self) -> str:
        """The model as text that :func:`parse_service_model` understands."""
        said = {key: getattr(self, key) for key in ("contention", "coherency") if key in _KEYS[self.name]}
        parts = [f"rate={exact_number(self.rate_per_s)}", *(f"{key}={exact_number(said[key])}" for key in said)]
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
"""What each model needs beside the rate."""
_READ: Mapping[str, tuple[str, Callable[[str], float]]] = {
    "rate": ("rate_per_s", _number),
    "contention": ("contention", _number),
    "coherency": ("coherency", _number),
    "pause": ("pause_s", parse_duration_s),
    "skew": ("skew", parse_share),
    "startup": ("startup_s", parse_duration_s),
}
"""What each key is called here, and how it is read."""
_KEYS = {name: ("rate", *needed, "pause", "skew", "startup") for name, needed in _LAW.items()}
_EXAMPLES = {
    "linear": "linear:rate=50",
    "saturating": "saturating:rate=50,contention=0.05",
    "retrograde": "retrograde:rate=50,contention=0.03,coherency=0.02",
}
SERVICE_MODELS = tuple(_LAW)
SERVICE_MODEL_EXAMPLES = tuple(_EXAMPLES.values())
"""One specification of each model, for help texts."""


def parse_service_model(spec: str) -> ServiceModel:
    """A service model from its specification, or one sentence that says what is wrong with it."""
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
