"""How much a setting mattered in a search: the share of a score's variation that its value explains.

Values are sorted into a few groups of the same size; what the means of the groups vary by is explained, what is left
within them is not. A search visits some places more than others, so that this is a hint and no measurement.

>>> importance([1.0, 2.0, 3.0, 4.0], [10.0, 10.0, 30.0, 30.0], groups=2)
1.0
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from statistics import fmean

from headgate.lab.tuning.space import Space, Value
from headgate.lab.tuning.trial import Trial

GROUPS = 4
LEAST_TRIALS = 16
"""Of fewer nothing is said."""


def importances(space: Space, trials: Sequence[Trial]) -> dict[str, tuple[float, float]]:
    """Of each setting what it explains of cost and of what was missed, the weightiest first; none of few trials."""
    known = [trial for trial in trials if trial.is_done and trial.number > 0]
    if len(known) < LEAST_TRIALS:
        return {}
    hours = [trial.seen.total_hours for trial in known]
    missed_pct = [trial.seen.mean_missed_pct for trial in known]
    found = {}
    for one in space.dimensions:
        values = [trial.values[one.name] for trial in known]
        found[one.name] = importance(values, hours), importance(values, missed_pct)
    return dict(sorted(found.items(), key=lambda pair: -max(pair[1])))


def importance(values: Sequence[Value], scores: Sequence[float], groups: int = GROUPS) -> float:
    mean = fmean(scores)
    total = sum((score - mean) ** 2 for score in scores)
    if total == 0:
        return 0.0
    grouped: dict[Hashable, list[float]] = {}
    for label, score in zip(_labels(values, groups), scores, strict=True):
        grouped.setdefault(label, []).append(score)
    explained = sum(len(one) * (fmean(one) - mean) ** 2 for one in grouped.values())
    return min(1.0, explained / total)


def _labels(values: Sequence[Value], groups: int) -> list[Hashable]:
    if any(isinstance(value, bool | str) for value in values):
        return list(values)
    numbers = [float(value) for value in values]
    ranked = sorted(numbers)
    # Equal values have the same first place, so that they are in one group.
    return [ranked.index(number) * groups // len(ranked) for number in numbers]
