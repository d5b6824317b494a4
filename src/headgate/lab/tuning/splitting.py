"""A load cut into parts in time: the first for the search, the last held back, to see what the result is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headgate.core.errors import InputError
from headgate.core.units import exact_number, format_duration
from headgate.lab.experiments.model import LoadPart
from headgate.workloads import Workload

SHORTEST_S = 60.0
"""A part that is shorter tells little."""
LEAST_HELD_BACK = 3
"""Parts of the load that is held back, at least: of fewer pairs nobody can tell how sure a difference is."""
_BUSY = 0.8
"""How busy the instances are that a part begins with."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a load, and the instances that a run on it begins with."""

    load: LoadPart
    start: int


@dataclass(frozen=True, slots=True)
class Sized:
    """What the size at the beginning of a part depends on."""

    rate_per_s: float
    min_instances: int
    max_instances: int

    def start(self, load: Workload, at_s: float) -> int:
        """As many as the load of that moment needs, so that no part begins with a backlog that is nobody's fault."""
        needed = math.ceil(load.rate_per_s(at_s) / (_BUSY * self.rate_per_s))
        return min(self.max_instances, max(self.min_instances, needed))


def split_load(
    text: str, load: Workload, seconds: float, parts: int, held_back: float, sized: Sized
) -> tuple[list[Stretch], list[Stretch]]:
    """The parts for the search, and those held back: the last share of the time."""
    if not 0 < held_back < 1:
        raise InputError(f"--held-back {held_back:.0%} is not allowed; it must lie between 0 % and 100 %.")
    cut_s = seconds * (1 - held_back)
    later = max(LEAST_HELD_BACK, round(parts * held_back / (1 - held_back)))
    return (
        cut(text, load, 0.0, cut_s, parts, sized, "part"),
        cut(text, load, cut_s, seconds, later, sized, "held back"),
    )


def cut(text: str, load: Workload, from_s: float, to_s: float, count: int, sized: Sized, name: str) -> list[Stretch]:
    """So many parts of the same length."""
    length_s = (to_s - from_s) / count
    if length_s < SHORTEST_S:
        raise InputError(
            f"{format_duration(to_s - from_s)} of load in {count} parts makes {format_duration(length_s)} each; "
            f"at least {format_duration(SHORTEST_S)} are needed."
        )
    found = []
    for place in range(count):
        at_s = from_s + place * length_s
        later = text if at_s == 0 else f"({text}) | shift -{exact_number(at_s)}s"
        found.append(Stretch(LoadPart(f"{name} {place + 1}", later, length_s), sized.start(load, at_s)))
    return found
