"""The maximum sustainable throughput (MST) of a real job: measurements and the models fitted to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from headgate._version import __version__
from headgate.core.errors import EngineError, InputError, UnknownNameError
from headgate.core.types import JSON
from headgate.lab.own_job import OwnJob
from headgate.local.machine import MOST_SLOTS
from headgate.policies.capacity.mst import (
    DISCREPANCY,
    FILE_VERSION,
    LAST,
    LEAST,
    TOLERANCE,
    TRAINING,
    VALIDATION,
    MstKind,
    MstModel,
    MstSamples,
    discrepancies,
    measurements_in,
    select_model,
)
from headgate.runtime.model_file import read_model_file

STEADY_JOB = "steady-job"
"""The job whose records all take the same time; all others are applications."""
CLUSTER_START_S = 12.0
"""Approximate start-up time of a cluster and its driver, once for all sizes."""
SIZE_START_S = 8.0
"""Approximate start-up time of the executors of a size and of the job on them."""
USUAL_BATCHES = LAST + 2
"""Batches until a size settles: the first ones are slower."""
PREDICTED_SIZES = 2
"""Models are compared up to this many times the largest measured size."""
PLOT_KEY = "Points: what was sustained. Lines: the models fitted to it; shaded: two deviations about the chosen one."


def measurable() -> list[str]:
    """Return the names of the jobs that can be measured."""
    from headgate.apps.registry import application_names

    return [STEADY_JOB, *application_names()]


@dataclass(frozen=True)
class MstPlan:
    """The job to measure, and the sizes to measure it at."""

    executors: tuple[int, ...]
    validation: tuple[int, ...] = ()
    """Sizes measured to choose between the models, not to fit them."""
    app: str = STEADY_JOB
    own: OwnJob | None = None
    """A job of the user's own, called ``app``."""
    cost_s: float = 0.02
    """Time of a record of the steady job on one executor; that of an application is measured."""
    partitions: int = 12
    """Tasks per batch."""
    batch_s: float = 2.0
    """Intended duration of a batch."""
    timeout_s: float = 120.0
    """How long one size may take to settle."""

    def __post_init__(self) -> None:
        if self.own is None and self.app != STEADY_JOB and self.app not in measurable():
            raise UnknownNameError("application", self.app, measurable())
        sizes = (*self.executors, *self.validation)
        if min(sizes, default=0) < 1 or len(set(sizes)) != len(sizes):
            raise InputError(f"executors {_listed(sizes)} are not allowed; each must be at least 1 and given once.")
        if max(sizes) > MOST_SLOTS:
            raise InputError(f"executors {max(sizes)} are not allowed; at most {MOST_SLOTS} fit a machine.")
        if len(self.executors) < 2:
            raise InputError(f"executors {_listed(self.executors)} are too few; a curve needs at least 2 sizes.")
        for name in ("cost_s", "batch_s", "timeout_s", "partitions"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} {getattr(self, name)} is not allowed; it must be above 0.")

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted((*self.executors, *self.validation)))

    @property
    def expected_s_per_size(self) -> float:
        """Approximate time of a size that settles."""
        return SIZE_START_S + min(self.timeout_s, USUAL_BATCHES * self.batch_s)

    def to_json(self) -> dict[str, JSON]:
        """Return the job and the way it was measured, for the model file."""
        plan = asdict(self)
        if plan.pop("own") is not None:
            plan["build"] = str(self.own)
        return {"name": plan.pop("app"), **plan}

    def rows_per_batch(self, throughput_per_s: float) -> int:
        """Return the records of a batch of the intended duration at a throughput."""
        return max(self.partitions, round(throughput_per_s * self.batch_s))


@dataclass(frozen=True)
class Measurement:
    """The throughput of one number of executors."""

    executors: int
    readings: tuple[float, ...]
    """Records per second of each batch, in order."""
    agreeing: tuple[float, ...]
    """The readings at which it settled; the middle ones if it did not in time; none if there were too few."""
    settled: bool = True

    @property
    def throughput_per_s(self) -> float | None:
        return sum(self.agreeing) / len(self.agreeing) if self.agreeing else None


@dataclass(frozen=True)
class MstResult:
    plan: MstPlan
    measurements: tuple[Measurement, ...]
    models: tuple[MstModel, ...]
    selected: MstModel
    spark_version: str

    def to_json(self) -> dict[str, JSON]:
        """Return the content of the model file."""
        return {
            "version": FILE_VERSION,
            "headgate": __version__,
            "spark": self.spark_version,
            "app": self.plan.to_json(),
            "settled_when": {"last": LAST, "least": LEAST, "tolerance": TOLERANCE},
            "measurements": [
                {
                    "executors": measurement.executors,
                    "throughput_per_s": _rounded(measurement.throughput_per_s),
                    "readings_per_s": [_rounded(value) for value in measurement.readings],
                    "agreeing_per_s": [_rounded(value) for value in measurement.agreeing],
                    "settled": measurement.settled,
                    "use": VALIDATION if measurement.executors in self.plan.validation else TRAINING,
                }
                for measurement in self.measurements
            ],
            "models": [_model_json(model) for model in self.models],
            "selected": int(self.selected.kind),
            "next_executors": None if (found := self.next_size()) is None else found[0],
            "curve": [
                {
                    "executors": size,
                    "throughput_per_s": _rounded(mean),
                    "deviation_per_s": _rounded(self.selected.deviation),
                }
                for size, mean in zip(self._sizes(), self._curve(self.selected), strict=True)
            ],
        }

    def next_size(self) -> tuple[int, float] | None:
        """Return the unmeasured size at which the models differ most, and by which share; ``None`` if they agree.

        A measurement there decides between the models (imai §III-A2). Sizes of up to twice the largest measured are
        considered, as far as they fit a machine.
        """
        known = {measurement.executors for measurement in self.measurements}
        most = min(MOST_SLOTS, PREDICTED_SIZES * max(self.plan.sizes))
        sizes = [size for size in range(1, most + 1) if size not in known]
        if not sizes:
            return None
        apart = discrepancies(self.models, np.array(sizes, dtype=float))
        furthest = int(np.argmax(apart))
        return (sizes[furthest], float(apart[furthest])) if apart[furthest] > DISCREPANCY else None

    def next_size_text(self) -> str:
        """Return the sentence on the next size worth measuring."""
        found, most = self.next_size(), min(MOST_SLOTS, PREDICTED_SIZES * max(self.plan.sizes))
        if found is None:
            return f"no other size is needed: up to {most} executors the models differ by at most {DISCREPANCY:.0%}"
        size, share = found
        first, second = (float(model.throughput(np.array([float(size)]))[0]) for model in self.models)
        return (
            f"next size worth measuring: {size} executors, for which the models predict {first:,.0f} and "
            f"{second:,.0f} records/s ({share:.0%} apart); add --validate {size}"
        )

    def _sizes(self) -> list[int]:
        return list(range(1, max(self.plan.sizes) + 1))

    def _curve(self, model: MstModel) -> list[float]:
        return [float(value) for value in model.throughput(np.array(self._sizes(), dtype=float))]

    def rows(self) -> list[dict[str, JSON]]:
        """Return a row per size: its measured throughput, and that of each model."""
        rows: list[dict[str, JSON]] = []
        for measurement in self.measurements:
            row: dict[str, JSON] = {
                "executors": measurement.executors,
                "measured_per_s": _rounded(measurement.throughput_per_s),
                "settled": "yes" if measurement.settled else "no",
                "batches": len(measurement.readings),
            }
            for model in self.models:
                name = f"model_{int(model.kind)}_per_s"
                row[name] = _rounded(float(model.throughput(np.array([float(measurement.executors)]))[0]))
            rows.append(row)
        return rows

    def figure(self) -> tuple[list[Mapping[str, JSON]], Mapping[str, JSON]]:
        """Return data and layout of a plot: measurements, both curves, and two deviations about the chosen one."""
        sizes, chosen = self._sizes(), self._curve(self.selected)
        band = 2 * self.selected.deviation
        measured = [measurement for measurement in self.measurements if measurement.throughput_per_s is not None]
        data: list[Mapping[str, JSON]] = [
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"model {int(self.selected.kind)} ± 2 σ",
                "x": [*sizes, *reversed(sizes)],
                "y": [
                    *(_rounded(mean + band) for mean in chosen),
                    *(_rounded(mean - band) for mean in reversed(chosen)),
                ],
                "fill": "toself",
                "line": {"color": "planned", "width": 0},
                "hoverinfo": "skip",
            },
            *(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"model {int(model.kind)}{', chosen' if model is self.selected else ''}",
                    "x": sizes,
                    "y": [_rounded(value) for value in self._curve(model)],
                    "line": {"color": colour, "dash": "solid" if model is self.selected else "dot"},
                }
                for model, colour in zip(self.models, ("rate", "latency"), strict=True)
            ),
            {
                "type": "scatter",
                "mode": "markers",
                "name": "measured",
                "x": [measurement.executors for measurement in measured for _ in measurement.agreeing],
                "y": [_rounded(value) for measurement in measured for value in measurement.agreeing],
                "marker": {"color": "ready", "size": 8},
            },
        ]
        layout = {
            "xaxis": {"title": {"text": "executors"}, "dtick": 1},
            "yaxis": {"title": {"text": "records/s"}, "rangemode": "tozero"},
        }
        return data, layout


def fitted(plan: MstPlan, measurements: Sequence[Measurement], spark_version: str) -> MstResult:
    """Fit both models, and select the one that is nearer to the validation samples."""
    training, validation = MstSamples(), MstSamples()
    for measurement in measurements:
        samples = validation if measurement.executors in plan.validation else training
        for value in measurement.agreeing:
            samples.add(measurement.executors, value)
    if len(training.sizes) < 2:
        raise EngineError(
            f"the throughput of {_listed(training.sizes)} of {_listed(plan.executors)} executors is known; "
            "at least 2 sizes are needed: allow a longer --timeout or a quieter machine."
        )
    models = tuple(training.fit(kind) for kind in MstKind)
    chosen = select_model(training, validation if validation.sizes else None).kind
    selected = next(model for model in models if model.kind is chosen)
    return MstResult(plan, tuple(measurements), models, selected, spark_version)


def _model_json(model: MstModel) -> dict[str, JSON]:
    return {
        "model": int(model.kind),
        "weights": list(model.weights),
        "deviation_per_s": _rounded(model.deviation),
        "degrees_of_freedom": model.freedom,
    }


def _listed(sizes: Sequence[int]) -> str:
    return ",".join(str(size) for size in sizes) or "(none)"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def cached_result(plan: MstPlan, file: Path) -> MstResult | None:
    """Return the result in a model file; ``None`` if there is no file, or it is of another plan.

    A file that cannot be read is refused and not replaced: it may be something else.
    """
    if not file.exists():
        return None
    found = read_model_file(file)
    measurements_in(found, str(file))
    try:
        if found["app"] != json.loads(json.dumps(plan.to_json())):
            return None
        measurements = [
            Measurement(
                int(row["executors"]),
                _numbers(row["readings_per_s"]),
                _numbers(row["agreeing_per_s"]),
                settled=bool(row["settled"]),
            )
            for row in found["measurements"]
        ]
        return fitted(plan, measurements, str(found["spark"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"model file {str(file)!r} is damaged: {error!r}; delete it to measure again.") from error


def _numbers(values: list[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
