"""The course of a tuning: the default first, then batches of trials, part by part of the load, then the rest of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from headgate.core.errors import InputError
from headgate.core.objective import HOUR_S
from headgate.core.types import JSON
from headgate.lab.experiments.run_case import Case, Row
from headgate.lab.measures.measures import PairedDifference, difference_in_words, is_noise, paired_difference
from headgate.lab.scenario import Progress, mark_begin
from headgate.lab.tuning.plan import Stretch, TunePlan
from headgate.lab.tuning.pruning import Prune, PruningTerms, lost, worse_half
from headgate.lab.tuning.search import Search, Values, make_search
from headgate.lab.tuning.trial import Minimise, TrialRuns, TrialStatus, TuningTrial, chosen, pareto_front, scores_of

HOURS = "instance-hours"


@dataclass(frozen=True, slots=True)
class TuningVerdict:
    """Whether to take what was found, why, and the differences, found less default, of one run."""

    takes_found: bool
    sentence: str
    hours: PairedDifference | None = None
    missed: PairedDifference | None = None

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


NOTHING_FOUND = TuningVerdict(False, "The default stays: on the load of the search nothing was better.")


def judged(found: TrialRuns, default: TrialRuns, seeds: int, allowed_pct: float) -> TuningVerdict:
    """Return whether to take what was found, judged by runs of both on the held-back parts with the same seeds."""
    ours, theirs = _pairs(found, default, seeds)
    hours = paired_difference(*_figures(ours, theirs, 0))
    missed = paired_difference(*_figures(ours, theirs, 1))
    takes, why = _decided(hours, missed, found.mean_missed_pct, default.mean_missed_pct, allowed_pct)
    begin = "Take what was found" if takes else "The default stays"
    return TuningVerdict(takes, f"{begin}: {why}.", hours, missed)


def _decided(
    hours: PairedDifference, missed: PairedDifference, found_pct: float, default_pct: float, allowed_pct: float
) -> tuple[bool, str]:
    is_cheaper = hours.mean < 0 and not is_noise(hours)
    is_dearer = hours.mean > 0 and not is_noise(hours)
    is_better = missed.mean < 0 and not is_noise(missed)
    keeps, met_before = found_pct <= allowed_pct, default_pct <= allowed_pct
    if is_cheaper:
        if keeps:
            return True, "on load held back it is cheaper and keeps the objective"
        if not met_before and missed.mean <= 0:
            return True, "on load held back it is cheaper; neither keeps the objective there, and it misses no more"
        return False, f"what was found is cheaper, but misses {found_pct:.3g} % of load held back"
    if is_better and not met_before:
        effect = "keeps the objective" if keeps else "misses less of the objective"
        dearer = ", though it costs more" if is_dearer else ""
        return True, f"on load held back it {effect}, which the default does not keep{dearer}"
    if is_dearer:
        return False, "on load held back what was found costs more"
    return False, "on load held back no difference is seen that would be worth it"


def _pairs(found: TrialRuns, default: TrialRuns, seeds: int) -> tuple[dict[int, tuple[float, float]], ...]:
    """Return the figures of both by run; runs with equal figures count once, or noise would seem smaller than it is."""
    ours: dict[int, tuple[float, float]] = {}
    theirs: dict[int, tuple[float, float]] = {}
    known: set[tuple[int, tuple[float, float], tuple[float, float]]] = set()
    for place in range(found.runs):
        our = (found.hours[place], found.missed_pct[place])
        their = (default.hours[place], default.missed_pct[place])
        pair = (place // seeds, our, their)
        if pair not in known:
            known.add(pair)
            ours[place], theirs[place] = our, their
    return ours, theirs


def _figures(
    ours: Mapping[int, tuple[float, float]], theirs: Mapping[int, tuple[float, float]], which: int
) -> tuple[dict[int, float | None], dict[int, float | None]]:
    return {place: pair[which] for place, pair in ours.items()}, {place: pair[which] for place, pair in theirs.items()}


Evaluate: TypeAlias = Callable[[Sequence[Case]], Sequence[Row]]
"""Runs cases, on Spark or elsewhere, and returns their rows in the same order."""
_DEFAULT = "default"
_SEARCHED = 0.95
"""The share of the work that is the search, for the progress bar."""


@dataclass(frozen=True)
class TuningResult:
    """The result of a tuning."""

    plan: TunePlan
    trials: Sequence[TuningTrial]
    """The default first."""
    found: TuningTrial
    verdict: TuningVerdict
    refused: int
    """Drawn settings that contradict each other."""
    held_back: Mapping[str, TrialRuns]
    """The runs of the default and of what was found on held-back load."""

    @property
    def front(self) -> list[TuningTrial]:
        return pareto_front(self.trials, self.plan.allowed_pct)

    @property
    def runs(self) -> int:
        """The number of simulated runs of the search."""
        return sum(trial.seen.runs for trial in self.trials)

    @property
    def saved_pct(self) -> float:
        """The share of the search's runs that were saved by stopping trials early."""
        whole = len(self.plan.training) * len(self.plan.seeds)
        stopped = sum(whole - trial.seen.runs for trial in self.trials if trial.status is TrialStatus.STOPPED)
        return 100 * stopped / (self.runs + stopped)

    @property
    def recommended(self) -> Values:
        return self.found.values if self.verdict.takes_found else {}


def tune(plan: TunePlan, evaluate: Evaluate, progress: Progress = lambda _: None) -> TuningResult:
    """Search, choose and judge; the result depends only on the plan."""
    plan.check({})
    default = _default_on(plan, plan.training, evaluate)
    search = make_search(
        plan.search,
        plan.space,
        seed=plan.seed,
        trials=plan.trials,
        is_allowed=plan.is_allowed,
        default=scores_of(default, default, plan.allowed_pct, plan.minimise),
        scores=2 if plan.minimise is Minimise.BOTH else 1,
    )
    trials = [TuningTrial(0, plan.space.defaults(), default, TrialStatus.DONE)]
    mark_begin(progress, 0.0)
    _searched(plan, evaluate, search, trials, progress)
    found = chosen(trials, plan.allowed_pct)
    verdict, held_back = NOTHING_FOUND, {_DEFAULT: TrialRuns()}
    if found.number != 0:
        before = _default_on(plan, plan.held_back, evaluate)
        after = _on_all(plan, plan.held_back, evaluate, f"trial {found.number}", found.values)
        verdict = judged(after, before, len(plan.seeds), plan.allowed_pct)
        held_back = {_DEFAULT: before, "found": after}
    progress(1.0)
    return TuningResult(plan, trials, found, verdict, search.refused, held_back)


def _searched(
    plan: TunePlan, evaluate: Evaluate, search: Search, trials: list[TuningTrial], progress: Progress
) -> None:
    """Append batches of trials until there are enough."""
    while (left := plan.trials + 1 - len(trials)) > 0:
        drawn = search.ask(left)
        if not drawn:
            return
        first = len(trials)

        def on_part(share: float, begun: int = first - 1, count: int = len(drawn)) -> None:
            progress(_SEARCHED * (begun + count * share) / plan.trials)

        batch = [
            TuningTrial(first + place, values, TrialRuns(), TrialStatus.RUNNING) for place, values in enumerate(drawn)
        ]
        done = _batch(plan, evaluate, batch, trials, on_part)
        trials += done
        search.tell([trial.scores for trial in done])


def _batch(
    plan: TunePlan, evaluate: Evaluate, batch: Sequence[TuningTrial], before: Sequence[TuningTrial], on_part: Progress
) -> list[TuningTrial]:
    """Run trials in parallel, one part of the load after the other, without those that are stopped."""
    default = before[0].seen
    finished = [trial.seen for trial in before if trial.is_done]
    now = {trial.number: trial for trial in batch}
    for place, stretch in enumerate(plan.training):
        running = {f"trial {trial.number}": trial for trial in now.values() if trial.is_running}
        if not running:
            break
        rows = _rows(plan, stretch, evaluate, {name: trial.values for name, trial in running.items()})
        for name, trial in running.items():
            now[trial.number] = _gone_on(plan, trial, rows[name])
        on_part((place + 1) / len(plan.training))
        if place + 1 < len(plan.training):
            _stop_some(plan, now, finished, default)
    return [_scored(plan, trial, default) for trial in now.values()]


def _gone_on(plan: TunePlan, trial: TuningTrial, rows: Sequence[Row]) -> TuningTrial:
    errors = [str(row["error"]) for row in rows if row["error"] is not None]
    missed = [plan.missed_pct(row) for row in rows]
    known = [pct for pct in missed if pct is not None]
    if errors or len(known) < len(rows):
        why = errors[0] if errors else "nothing is known of what it missed"
        return replace(trial, status=TrialStatus.FAILED, why=why)
    return replace(trial, seen=trial.seen.and_then([float(row["instance_hours"]) for row in rows], known))


def _stop_some(plan: TunePlan, now: dict[int, TuningTrial], finished: Sequence[TrialRuns], default: TrialRuns) -> None:
    if plan.prune is Prune.NO:
        return
    terms = terms_of(plan)
    running = [trial for trial in now.values() if trial.is_running]
    for trial in running:
        if why := lost(trial.seen, finished, terms):
            now[trial.number] = replace(trial, status=TrialStatus.STOPPED, why=why)
    if plan.prune is Prune.HALF:
        for place in worse_half([trial.seen for trial in running], default, terms):
            trial = now[running[place].number]
            if trial.is_running:
                now[trial.number] = replace(trial, status=TrialStatus.STOPPED, why="among the worse half of its batch")


def terms_of(plan: TunePlan) -> PruningTerms:
    shortest_s = min(stretch.load.seconds for stretch in plan.training)
    return PruningTerms(
        runs=len(plan.training) * len(plan.seeds),
        least_hours=plan.objective.min_instances * shortest_s / HOUR_S,
        allowed_pct=plan.allowed_pct,
        minimise=plan.minimise,
    )


def _scored(plan: TunePlan, trial: TuningTrial, default: TrialRuns) -> TuningTrial:
    if trial.status is TrialStatus.FAILED:
        return trial
    status = TrialStatus.DONE if trial.is_running else trial.status
    return replace(trial, status=status, scores=scores_of(trial.seen, default, plan.allowed_pct, plan.minimise))


def _rows(plan: TunePlan, stretch: Stretch, evaluate: Evaluate, wanted: Mapping[str, Values]) -> dict[str, list[Row]]:
    """Return the rows of each name, one per seed."""
    rows = list(evaluate(list(plan.cases(stretch, wanted))))
    seeds = len(plan.seeds)
    return {name: rows[place * seeds : (place + 1) * seeds] for place, name in enumerate(wanted)}


def _default_on(plan: TunePlan, stretches: Sequence[Stretch], evaluate: Evaluate) -> TrialRuns:
    return _on_all(plan, stretches, evaluate, _DEFAULT, {})


def _on_all(plan: TunePlan, stretches: Sequence[Stretch], evaluate: Evaluate, name: str, values: Values) -> TrialRuns:
    """Run all parts at once; a failure is an error, because nothing could be compared."""
    cases = [case for stretch in stretches for case in plan.cases(stretch, {name: values})]
    found = _gone_on(plan, TuningTrial(0, values, TrialRuns(), TrialStatus.RUNNING), list(evaluate(cases)))
    if found.status is TrialStatus.FAILED:
        raise InputError(f"{plan.space.policy} with settings {name} cannot be run on this load: {found.why}")
    return found.seen
