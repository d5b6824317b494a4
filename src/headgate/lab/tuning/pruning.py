"""When trials are stopped before they have run on all parts of the load.

``sure`` stops only trials that cannot win any more, so it never loses the best. ``half`` is successive halving: after
each part the worse half of a batch stops, which saves more and may lose a trial that would have recovered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from headgate.lab.tuning.trial import FAR, Minimise, TrialRuns, scores_of


class Prune(StrEnum):
    SURE = "sure"
    HALF = "half"
    NO = "no"


@dataclass(frozen=True, slots=True)
class PruningTerms:
    """What stopping depends on."""

    runs: int
    """The number of runs of a trial that is not stopped."""
    least_hours: float
    """The instance-hours of a run with the minimum of instances."""
    allowed_pct: float
    minimise: Minimise


def lost(seen: TrialRuns, finished: Sequence[TrialRuns], terms: PruningTerms) -> str | None:
    """Return why a trial cannot win any more; ``None`` while it still may.

    Its cost grows at least by that of the fewest instances, and what it has missed stays missed.

    >>> terms = PruningTerms(runs=4, least_hours=1.0, allowed_pct=5.0, minimise=Minimise.BOTH)
    >>> best = TrialRuns((2.0,) * 4, (1.0,) * 4)
    >>> lost(TrialRuns((4.0, 4.0), (9.0, 0.0)), [best], terms)
    'at least 10 instance-hours and 2.25 % missed, beaten by 8 and 1 %'
    >>> lost(TrialRuns((2.0, 2.0), (9.0, 0.0)), [best], terms) is None
    True
    """
    hours = seen.total_hours + terms.least_hours * (terms.runs - seen.runs)
    missed_pct = sum(seen.missed_pct) / terms.runs
    for other in finished:
        their_hours, their_pct = other.total_hours, other.mean_missed_pct
        if their_pct <= terms.allowed_pct:
            # Of those that keep the objective the cheapest is wanted: the others are of interest only near to it.
            is_cost = terms.minimise is Minimise.COST
            if missed_pct > (1 if is_cost else FAR) * terms.allowed_pct:
                return f"at least {missed_pct:.3g} % missed, where {terms.allowed_pct:.3g} % are allowed"
            if is_cost and their_hours < hours:
                return f"at least {hours:.3g} instance-hours, beaten by {their_hours:.3g}"
        if their_hours < hours and their_pct <= missed_pct:
            return (
                f"at least {hours:.3g} instance-hours and {missed_pct:.3g} % missed, "
                f"beaten by {their_hours:.3g} and {their_pct:.3g} %"
            )
    return None


def worse_half(batch: Sequence[TrialRuns], default: TrialRuns, terms: PruningTerms) -> set[int]:
    """Return the places of the worse half of a batch, by how many trials dominate each, then by cost among those that
    meet the objective."""
    scores = [scores_of(seen, default, terms.allowed_pct, Minimise.BOTH) for seen in batch]

    def order(place: int) -> tuple[float, float, int]:
        cost, missed_pct = scores[place]
        beaten = sum(
            other_cost <= cost and other_pct <= missed_pct and (other_cost, other_pct) != (cost, missed_pct)
            for other_cost, other_pct in scores
        )
        whole = scores_of(batch[place], default, terms.allowed_pct, Minimise.COST)[0]
        return (beaten if terms.minimise is Minimise.BOTH else 0), whole, place

    ranked = sorted(range(len(batch)), key=order)
    return set(ranked[(len(batch) + 1) // 2 :])
