"""What settings are worth on load they were not found on: pairs of runs beside the default, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.types import JSON
from headgate.lab.measures.paired import Difference, difference_in_words, is_noise, paired_difference
from headgate.lab.tuning.trial import TrialRuns

HOURS = "instance-hours"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to take what was found, why, and the differences, found less default, of one run."""

    takes_found: bool
    sentence: str
    hours: Difference | None = None
    missed: Difference | None = None

    def to_json(self) -> dict[str, JSON]:
        return {
            "takes_found": self.takes_found,
            "sentence": self.sentence,
            "instance_hours": None if self.hours is None else self.hours.to_json(),
            "missed_pct": None if self.missed is None else self.missed.to_json(),
        }

    def lines(self) -> list[str]:
        """The differences for a terminal."""
        if self.hours is None or self.missed is None:
            return []
        return [
            f"{HOURS} of a run: {difference_in_words(self.hours)}",
            f"missed: {difference_in_words(self.missed, '% points')}",
        ]


NOTHING_FOUND = Verdict(False, "The default stays: on the load of the search nothing was better.")


def judged(found: TrialRuns, default: TrialRuns, seeds: int, allowed_pct: float) -> Verdict:
    """What to do, by runs on load that was held back; both were run on the same parts with the same seeds."""
    ours, theirs = _pairs(found, default, seeds)
    hours = paired_difference(*_figures(ours, theirs, 0))
    missed = paired_difference(*_figures(ours, theirs, 1))
    takes, why = _decided(hours, missed, found.mean_missed_pct, default.mean_missed_pct, allowed_pct)
    begin = "Take what was found" if takes else "The default stays"
    return Verdict(takes, f"{begin}: {why}.", hours, missed)


def _decided(
    hours: Difference, missed: Difference, found_pct: float, default_pct: float, allowed_pct: float
) -> tuple[bool, str]:
    is_cheaper = hours.mean < 0 and not is_noise(hours)
    is_dearer = hours.mean > 0 and not is_noise(hours)
    is_better = missed.mean < 0 and not is_noise(missed)
    keeps, kept_before = found_pct <= allowed_pct, default_pct <= allowed_pct
    if is_cheaper:
        if keeps:
            return True, "on load held back it is cheaper and keeps the objective"
        if not kept_before and missed.mean <= 0:
            return True, "on load held back it is cheaper; neither keeps the objective there, and it misses no more"
        return False, f"what was found is cheaper, but misses {found_pct:.3g} % of load held back"
    if is_better and not kept_before:
        told = "keeps the objective" if keeps else "misses less of the objective"
        dearer = ", though it costs more" if is_dearer else ""
        return True, f"on load held back it {told}, which the default does not keep{dearer}"
    if is_dearer:
        return False, "on load held back what was found costs more"
    return False, "on load held back no difference is seen that would be worth it"


def _pairs(found: TrialRuns, default: TrialRuns, seeds: int) -> tuple[dict[int, tuple[float, float]], ...]:
    """Each run by its place; seeds that change nothing at all count once, or noise would seem smaller than it is."""
    ours: dict[int, tuple[float, float]] = {}
    theirs: dict[int, tuple[float, float]] = {}
    known: set[tuple[int, tuple[float, float], tuple[float, float]]] = set()
    for place in range(found.runs):
        our = (found.hours[place], found.missed_pct[place])
        their = (default.hours[place], default.missed_pct[place])
        told = (place // seeds, our, their)
        if told not in known:
            known.add(told)
            ours[place], theirs[place] = our, their
    return ours, theirs


def _figures(
    ours: Mapping[int, tuple[float, float]], theirs: Mapping[int, tuple[float, float]], which: int
) -> tuple[dict[int, float | None], dict[int, float | None]]:
    return {place: pair[which] for place, pair in ours.items()}, {place: pair[which] for place, pair in theirs.items()}
