"""Small applications to plan for."""

from __future__ import annotations

from itertools import pairwise

from headgate.core.topology import Topology
from headgate.policies.planning.model import ApplicationModel, Weights

RUSSO_RATES_PER_S = (3.7, 3.3, 2.7, 3.3)


def pipeline(
    *service_rates_per_s: float, bound_s: float = 1.95, largest: int = 5, smallest: int = 1
) -> ApplicationModel:
    names = tuple(f"o{index}" for index in range(len(service_rates_per_s)))
    return ApplicationModel(
        Topology(names, tuple(pairwise(names))), service_rates_per_s, bound_s, largest, smallest, weights=Weights()
    )


RUSSO = pipeline(*RUSSO_RATES_PER_S[:3])
