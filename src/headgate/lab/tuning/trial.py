"""Trials: settings with the figures of their runs, the scores for a search, the choice, and importances."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from headgate.core.types import JSON
from headgate.lab.tuning.search import Scores
from headgate.lab.tuning.space import Space, Value

MISSED = 10.0
"""With a single score, settings that miss the objective score at least this. Those that meet it score their cost as a
multiple of the default's, and at most this."""

FAR = 4.0
"""Settings that miss this many times what is allowed are never chosen, however cheap."""


class Minimise(StrEnum):
    """What a search minimises."""

    BOTH = "both"
    """Cost and what is missed, weighed against each other."""
    COST = "cost"
    """Cost, of what keeps the objective."""


class TrialStatus(StrEnum):
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    """Stopped early, because it could not win any more."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TrialRuns:
    """Figures of the runs so far, in the order of the parts of the load and the seeds, which is the same for all."""

    hours: tuple[float, ...] = ()
    """Instance-hours."""
    missed_pct: tuple[float, ...] = ()
    """Late records, or time in violation where the objective is about time."""

    def and_then(self, hours: Sequence[float], missed_pct: Sequence[float]) -> TrialRuns:
        return TrialRuns((*self.hours, *hours), (*self.missed_pct, *missed_pct))

    @property
    def runs(self) -> int:
        return len(self.hours)

    @property
    def total_hours(self) -> float:
        return sum(self.hours)

    @property
    def mean_missed_pct(self) -> float:
        return sum(self.missed_pct) / len(self.missed_pct)

    def first(self, runs: int) -> TrialRuns:
        return TrialRuns(self.hours[:runs], self.missed_pct[:runs])


@dataclass(frozen=True, slots=True)
class TuningTrial:
    number: int
    """0 is the default."""
    values: Mapping[str, Value]
    seen: TrialRuns
    status: TrialStatus
    why: str = ""
    scores: Scores | None = None

    @property
    def is_running(self) -> bool:
        return self.status is TrialStatus.RUNNING

    @property
    def is_done(self) -> bool:
        return self.status is TrialStatus.DONE

    def to_json(self) -> dict[str, JSON]:
        known = self.seen.runs > 0
        return {
            "number": self.number,
            "status": str(self.status),
            "why": self.why,
            "runs": self.seen.runs,
            "instance_hours": self.seen.total_hours if known else None,
            "missed_pct": self.seen.mean_missed_pct if known else None,
            "settings": dict(self.values),
        }


def scores_of(seen: TrialRuns, default: TrialRuns, allowed_pct: float, minimise: Minimise) -> Scores:
    """Return a trial's scores: its cost as a share of the default's on the same runs, so that stopped trials are
    comparable, and what is missed."""
    cost = seen.total_hours / max(default.first(seen.runs).total_hours, 1e-9)
    missed_pct = seen.mean_missed_pct
    if minimise is Minimise.BOTH:
        # Otherwise a search would spend its time on what is cheap because nearly all is missed.
        return (MISSED + missed_pct if missed_pct > FAR * allowed_pct else cost), missed_pct
    return (min(cost, MISSED) if missed_pct <= allowed_pct else MISSED + missed_pct - allowed_pct,)


def chosen(trials: Sequence[TuningTrial], allowed_pct: float) -> TuningTrial:
    """The cheapest that keeps the objective on the whole; where none does, the one that misses least.

    The earlier one of two that are alike, so that the default gives way only to something better.
    """
    done = [trial for trial in trials if trial.is_done]
    keeping = [trial for trial in done if trial.seen.mean_missed_pct <= allowed_pct]
    if keeping:
        return min(keeping, key=lambda trial: (trial.seen.total_hours, trial.number))
    return min(done, key=lambda trial: (trial.seen.mean_missed_pct, trial.seen.total_hours, trial.number))


def pareto_front(trials: Sequence[TuningTrial], allowed_pct: float) -> list[TuningTrial]:
    """Those that no other beats in both cost and what is missed, the cheapest first; without those that are far from
    the objective, unless all are."""
    front: list[TuningTrial] = []
    done = [trial for trial in trials if trial.is_done]
    done = [trial for trial in done if trial.seen.mean_missed_pct <= FAR * allowed_pct] or done
    for trial in sorted(done, key=lambda trial: (trial.seen.total_hours, trial.seen.mean_missed_pct, trial.number)):
        if not front or trial.seen.mean_missed_pct < front[-1].seen.mean_missed_pct:
            front.append(trial)
    return front


GROUPS = 4
LEAST_TRIALS = 16
"""With fewer trials, importances are not computed."""


def importances(space: Space, trials: Sequence[TuningTrial]) -> dict[str, tuple[float, float]]:
    """Return the importance of each setting for cost and for what was missed, the largest first; empty for few trials.

    Importance is the share of a score's variation that the setting explains.
    """
    known = [trial for trial in trials if trial.is_done and trial.number > 0]
    if len(known) < LEAST_TRIALS:
        return {}
    hours = [trial.seen.total_hours for trial in known]
    missed_pct = [trial.seen.mean_missed_pct for trial in known]
    found = {}
    for dimension in space.dimensions:
        values = [trial.values[dimension.name] for trial in known]
        found[dimension.name] = importance(values, hours), importance(values, missed_pct)
    return dict(sorted(found.items(), key=lambda pair: -max(pair[1])))


def importance(values: Sequence[Value], scores: Sequence[float], groups: int = GROUPS) -> float:
    """Return the share of the scores' variation that is between groups of similar values.

    Values are sorted into groups of equal size. A search visits some places more often than others, so the result is a
    hint, not a measurement.

    >>> importance([1.0, 2.0, 3.0, 4.0], [10.0, 10.0, 30.0, 30.0], groups=2)
    1.0
    """
    mean = fmean(scores)
    total = sum((score - mean) ** 2 for score in scores)
    if total == 0:
        return 0.0
    grouped: dict[Hashable, list[float]] = {}
    for label, score in zip(_labels(values, groups), scores, strict=True):
        grouped.setdefault(label, []).append(score)
    explained = sum(len(group) * (fmean(group) - mean) ** 2 for group in grouped.values())
    return min(1.0, explained / total)


def _labels(values: Sequence[Value], groups: int) -> list[Hashable]:
    if any(isinstance(value, bool | str) for value in values):
        return list(values)
    numbers = [float(value) for value in values]
    ranked = sorted(numbers)
    # Equal values have the same first place, so that they are in one group.
    return [ranked.index(number) * groups // len(ranked) for number in numbers]
