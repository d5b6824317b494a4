"""What was done to recordings to make a load of them."""

from __future__ import annotations

from headgate.core.units import format_duration
from headgate.workloads.composed import Clipped, Noisy, Scaled, Shifted, Sum, end_of
from headgate.workloads.contract import Workload
from headgate.workloads.numbers import plain
from headgate.workloads.steps import Steps


def ends_early(workload: Workload, seconds: float) -> list[str]:
    """That nothing more comes before a run is over, in a sentence; nothing where that is not so."""
    end_s = end_of(workload)
    if end_s is None or end_s >= seconds:
        return []
    told = f"{workload.describe()} ends after {format_duration(end_s)}, and the run lasts {format_duration(seconds)}"
    return [f"{told}: nothing arrives from then on."]


def notes_of(workload: Workload) -> list[str]:
    """What was done to recordings to make this load, and by which numbers they are multiplied: a sentence each."""
    match workload:
        case Steps():
            return [f"{workload.describe()}: {note}." for note in workload.notes]
        case Sum():
            return [note for part in workload.parts for note in notes_of(part)]
        case Scaled():
            own = f"{workload.load.describe()}: multiplied by {plain(workload.factor)}."
            return [*notes_of(workload.load), *([own] if end_of(workload.load) is not None else [])]
        case Shifted() | Clipped() | Noisy():
            return notes_of(workload.load)
        case _:
            return []
