"""SPEC's measures of elasticity: how well what was there (supply) followed what was needed (demand).

With supply ``s`` and demand ``d`` in instances over a run of length ``T``:

- accuracy, in per cent of what was needed: ``θ_U = 100/T · ∫ max(d - s, 0)/d dt`` and
  ``θ_O = 100/T · ∫ max(s - d, 0)/d dt``
- time share, in per cent: ``τ_U = 100/T · ∫ [d > s] dt`` and ``τ_O = 100/T · ∫ [s > d] dt``
- instability, in per cent: ``υ = 100/(T - t₁) · Σ min(|sgn Δs - sgn Δd|, 1) Δt`` from the second point ``t₁`` on, the
  share of the time in which one rises or falls and the other does not

All are best at 0. Sources: N. Herbst et al., Ready for Rain? A View from SPEC Research on the Future of Cloud Metrics,
SPEC RG Cloud technical report SPEC-RG-2016-01, 2016; N. Herbst et al., Quantifying Cloud Performance and Dependability:
Taxonomy, Metric Design, and Emerging Challenges, ACM ToMPECS 3(4), 2018. A demand of 0 counts as 1 where it divides.
What of the formulas was checked against programs of their authors is told in ``docs/guides/measures.md``.

>>> from headgate.core.course import rows
>>> found = elasticity(rows([(0, 60, 2, 2), (60, 120, 4, 4)], 4), np.array([0.0, 60.0, 120.0]), np.array([4.0, 2.0]))
>>> found.under_accuracy_pct, found.over_accuracy_pct, found.under_time_pct, found.over_time_pct
(25.0, 50.0, 50.0, 50.0)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.core.course import Rows
from headgate.forecast.base import FloatArray

INSTABILITY_STEP_S = 60.0
"""Changes are looked at from minute to minute: a shorter step finds more of them in either curve."""


@dataclass(frozen=True, slots=True)
class Elasticity:
    under_accuracy_pct: float
    over_accuracy_pct: float
    under_time_pct: float
    over_time_pct: float
    instability_pct: float | None
    """``None`` where the run is shorter than two steps."""


def elasticity(
    sizes: Rows, edges_s: FloatArray, needed: FloatArray, instability_step_s: float = INSTABILITY_STEP_S
) -> Elasticity:
    """What a course's ``sizes`` are against what was needed between each two of some edges."""
    from_s, to_s = edges_s[0], edges_s[-1]
    begins_s = np.union1d(edges_s[:-1], sizes[:, 0])
    begins_s = begins_s[(begins_s >= from_s) & (begins_s < to_s)]
    weights = np.diff(begins_s, append=to_s) / (to_s - from_s)
    supply, demand = _supply(sizes, begins_s), _demand(edges_s, needed, begins_s)
    missing, divisor = demand - supply, np.maximum(demand, 1.0)
    return Elasticity(
        under_accuracy_pct=100 * float((weights * np.maximum(missing, 0.0) / divisor).sum()),
        over_accuracy_pct=100 * float((weights * np.maximum(-missing, 0.0) / divisor).sum()),
        under_time_pct=100 * float(weights[missing > 0].sum()),
        over_time_pct=100 * float(weights[missing < 0].sum()),
        instability_pct=_instability_pct(sizes, edges_s, needed, instability_step_s),
    )


def _instability_pct(sizes: Rows, edges_s: FloatArray, needed: FloatArray, step_s: float) -> float | None:
    at_s = np.arange(edges_s[0], edges_s[-1], step_s)
    if len(at_s) < 2:
        return None
    change = np.sign(np.diff(_supply(sizes, at_s)))
    wanted_change = np.sign(np.diff(_demand(edges_s, needed, at_s)))
    return 100 * float(np.mean(change != wanted_change))


def _supply(sizes: Rows, at_s: FloatArray) -> FloatArray:
    """Ready instances at some times."""
    place = np.clip(np.searchsorted(sizes[:, 0], at_s, side="right") - 1, 0, len(sizes) - 1)
    return np.asarray(sizes[place, 2])


def _demand(edges_s: FloatArray, needed: FloatArray, at_s: FloatArray) -> FloatArray:
    place = np.clip(np.searchsorted(edges_s, at_s, side="right") - 1, 0, len(needed) - 1)
    return np.asarray(needed[place])
