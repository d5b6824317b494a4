"""Assessment of a job from what people already have: event logs of Spark, progress lines, or counts of records.

It is the calibration of ``headgate replay`` with other readers: a simulated job that behaves as the recorded one did,
and on it autopilot, fixed sizes and Spark's own allocation under the recorded load. Every simulated figure is a range:
the simulations are repeated on jobs that are calibrated to batches and start-ups drawn from the recorded ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from headgate.core.errors import InputError
from headgate.core.objective import HOUR_S, LatencySlo, Objective, parse_objective
from headgate.core.types import JSON, Batch
from headgate.core.units import exact_duration, format_duration, plain
from headgate.engines.spark.event_log import OPERATOR, LoggedJob
from headgate.journal.findings import money
from headgate.lab.batch_times import joined_s
from headgate.lab.fidelity import Recording, calibrate
from headgate.lab.journal_replay import JobEstimate, estimates
from headgate.lab.what_if import CandidatePolicy, RecordedJob, from_first_reading, recorded_load
from headgate.render.verdict import NOTABLE, FixedSizes
from headgate.runtime.simulate import SimulationResult, fixed_size_comparison, simulate, usual_interval_s
from headgate.runtime.summary import Summary, course_of, is_objective_met, summarise
from headgate.workloads.steps import Steps

FORMAT_VERSION = 1
DRAWS = 4
DEFAULT_OBJECTIVE = "latency p95 < 10s"
AUTOPILOT, SPARKS_OWN, MEASURED = "autopilot", "spark-dra", "measured"
BOUNDS_S = (1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10_800.0, 86_400.0)
"""The latencies of objectives that are derived from what a job did."""
ASSUMED_STARTUP_S = 60.0
"""How long an executor takes to start, where the log does not say."""
MONTH_H = 730.0
DEFAULT_MOST = 10
"""Executors, where only counts are known."""
_LEAST_GROWTH = 0.7
"""The smallest power of the executors that throughput grows with, of those that autopilot tries."""
_MINUTE_S = 60.0
_LEAST_MINUTES = 20
_SHORT_S = 86_400.0
_SIZES_TRIED = 5
"""Fixed sizes that are tried on all draws, from the cheapest that meets the objective on the most likely job."""


@dataclass(frozen=True, slots=True)
class AssessmentTerms:
    """What an assessment is to assume, and how much of it is simulated."""

    objective: Objective | None = None
    """``None``: what the job met so far, 95 % of the records within a round bound."""
    price: float | None = None
    fewest: int | None = None
    most: int | None = None
    """Executors; ``None``: twice the most that were seen."""
    startup_s: float | None = None
    """``None``: as in the log."""
    draws: int = DRAWS
    seed: int = 0

    @property
    def late_after_s(self) -> float | None:
        """The bound of the objective, which a log has to be read with."""
        return None if self.objective is None else self.objective.late_after_s

    def goal(self, most_seen: int) -> Objective:
        """Return the objective within the bounds, at the price."""
        fewest = self.fewest or 1
        goal = self.objective or parse_objective(DEFAULT_OBJECTIVE)
        return goal.within(fewest, self.most or max(fewest, 2 * most_seen)).priced(self.price)


class TrialJob(Protocol):
    """A simulated job with the recorded load."""

    def under(
        self,
        contender: CandidatePolicy,
        objective: Objective,
        *,
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> tuple[Summary, SimulationResult]: ...

    def fixed_sizes(self, objective: Objective, progress: Callable[[float], None] | None = None) -> FixedSizes: ...


@dataclass(frozen=True, slots=True)
class CountedJob:
    """A job of which only the load is known, and by assumption how fast an instance is."""

    load: Steps
    service_rate_per_s: float
    startup_s: float
    start: int = 1

    def under(
        self,
        contender: CandidatePolicy,
        objective: Objective,
        *,
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> tuple[Summary, SimulationResult]:
        """Simulate a policy under the load."""
        result = simulate(
            contender.policy,
            self.load,
            objective=objective,
            settings=contender.settings,
            service_rate_per_s=self.service_rate_per_s,
            start=objective.clamp(self.start),
            startup_s=self.startup_s,
            interval_s=usual_interval_s(self.load.end_s),
            seconds=self.load.end_s,
            seed=seed,
            progress=progress,
        )
        return result.summary, result

    def fixed_sizes(self, objective: Objective, progress: Callable[[float], None] | None = None) -> FixedSizes:
        """Simulate fixed sizes under the load."""
        found = fixed_size_comparison(
            self.load,
            self.load.end_s,
            objective=objective,
            service_rate_per_s=self.service_rate_per_s,
            progress=progress,
        )
        return FixedSizes(found)


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """What the load was, by minutes; by twentieths of a log of less than that."""

    records: float
    mean_per_s: float
    peak_per_s: float
    """Of the busiest minute."""
    quiet_per_s: float
    """The rate that one minute in twenty was below."""
    peak_at_s: float
    """Seconds from the start."""

    @classmethod
    def of(cls, load: Steps, from_s: float, to_s: float) -> LoadFacts:
        count = max(_LEAST_MINUTES, round((to_s - from_s) / _MINUTE_S))
        bounds_s = np.linspace(from_s, to_s, count + 1)
        totals = np.array([load.arrivals(from_s, at_s) for at_s in bounds_s])
        rates = np.diff(totals) / max(1e-9, float(bounds_s[1] - bounds_s[0]))
        return cls(
            records=float(totals[-1]),
            mean_per_s=float(totals[-1]) / max(1e-9, to_s - from_s),
            peak_per_s=float(rates.max()),
            quiet_per_s=float(np.quantile(rates, 0.05)),
            peak_at_s=float(bounds_s[int(rates.argmax())] - from_s),
        )

    def to_json(self) -> dict[str, JSON]:
        return {
            "records": self.records,
            "mean_per_s": self.mean_per_s,
            "peak_per_s": self.peak_per_s,
            "quiet_per_s": self.quiet_per_s,
            "peak_after_s": self.peak_at_s,
        }


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a way to size the job would have come to: the most likely result first, then those of other draws."""

    name: str
    results: Sequence[Summary]
    met: Sequence[bool]
    """Whether each result meets the objective."""
    instances: int | None = None
    """Of a fixed size."""

    @property
    def is_met(self) -> bool:
        """Whether every result meets the objective."""
        return all(self.met)

    @property
    def hours(self) -> float:
        return self.results[0].instance_seconds / HOUR_S

    @property
    def hours_range(self) -> tuple[float, float]:
        return _range([summary.instance_seconds / HOUR_S for summary in self.results])

    @property
    def late_range(self) -> tuple[float, float] | None:
        late = [summary.late_records_pct for summary in self.results if summary.late_records_pct is not None]
        return _range(late) if late else None

    def to_json(self) -> dict[str, JSON]:
        hours, late, first = self.hours_range, self.late_range, self.results[0]
        return {
            "met": self.is_met,
            "met_share": sum(self.met) / len(self.met),
            "instances": self.instances,
            "instance_hours": {"value": self.hours, "low": hours[0], "high": hours[1]},
            "late_records_pct": None
            if late is None
            else {"value": first.late_records_pct, "low": late[0], "high": late[1]},
            "cost": first.cost,
            "rescales": first.rescales,
        }


@dataclass(frozen=True)
class Assessment:
    """Everything that is said of one job."""

    name: str
    about: str
    """One line: the application, the query, the version of Spark, the span."""
    objective: Objective
    is_derived: bool
    """Whether the objective is what the job met so far, because none was given."""
    seconds: float
    load: LoadFacts
    measured: Summary | None
    is_met: bool | None
    found: Sequence[JobEstimate]
    prospects: Mapping[str, Prospect]
    unknown: Sequence[str]
    left_out: Sequence[str]
    recommendation: str
    code: Sequence[str]
    saving: float | None
    """Share of what was paid that the recommendation saves; below 0 where meeting the objective costs more."""
    job: RecordedJob | None = None
    runs: Mapping[str, SimulationResult] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        return {
            "version": FORMAT_VERSION,
            "name": self.name,
            "about": self.about,
            "objective": str(self.objective),
            "objective_is_derived": self.is_derived,
            "min_instances": self.objective.min_instances,
            "max_instances": self.objective.max_instances,
            "seconds": self.seconds,
            "load": self.load.to_json(),
            "job": {estimate.name: estimate.to_json() for estimate in self.found},
            "measured": None if self.measured is None else {**self.measured.to_json(), "met": self.is_met},
            "simulated": {name: prospect.to_json() for name, prospect in self.prospects.items()},
            "unknown": list(self.unknown),
            "left_out": list(self.left_out),
            "recommendation": self.recommendation,
            "code": list(self.code),
            "saving": self.saving,
        }


# ----------------------------------------------------------------------------------------------------- from event logs


def assess_logged_job(
    logged: LoggedJob, terms: AssessmentTerms, progress: Callable[[float], None] = lambda share: None
) -> Assessment:
    """Assess the job of a log; a log that does not tell what arrived raises an ``InputError``.

    Where it does not tell how long batches take, load and figures so far are all that is returned.
    """
    sizes = [seen.instances[OPERATOR].planned for seen in logged.observations if OPERATOR in seen.instances]
    goal = terms.goal(max(1, *sizes))
    name = " / ".join(part for part in (logged.name, logged.query) if part)
    try:
        job = _calibrated(logged, goal, terms.startup_s)
    except InputError as error:
        return _uncalibrated(logged, name, goal, terms, str(error))
    measured = job.measured(goal, goal)
    if terms.objective is None:
        counted_by, goal = goal, replace(goal, slo=LatencySlo(_round_bound_s(measured.latency_p95_s)))
        measured = job.measured(goal, counted_by)
    seconds = job.recording.seconds - job.recording.lead_s
    prospects, runs = _prospects(job, goal, terms, progress)
    is_met = is_objective_met(measured, goal, seconds)
    load = job.recording.load
    assert isinstance(load, Steps)
    choice, recommendation = _recommend(goal, measured, is_met, prospects, seconds)
    return Assessment(
        name=name,
        about=_about(logged, seconds),
        objective=goal,
        is_derived=terms.objective is None,
        seconds=seconds,
        load=LoadFacts.of(load, job.recording.lead_s, job.recording.seconds),
        measured=measured,
        is_met=is_met,
        found=estimates(job, seed=terms.seed),
        prospects=prospects,
        unknown=_unknown(logged, job, goal, measured, terms.startup_s),
        left_out=_left_out(logged),
        recommendation=recommendation,
        code=_code(goal),
        saving=None if choice is None else 1 - choice.hours * HOUR_S / max(1e-9, measured.instance_seconds),
        job=job,
        runs=runs,
    )


def _calibrated(logged: LoggedJob, goal: Objective, startup_s: float | None) -> RecordedJob:
    job = RecordedJob.of(logged.observations, [], goal, OPERATOR)
    calibration = job.calibration
    if startup_s is not None or not logged.startups_from:
        assumed_s = ASSUMED_STARTUP_S if startup_s is None else startup_s
        calibration = replace(calibration, startup_s=assumed_s, startup_spread=0.0)
    return replace(job, calibration=calibration, interval_s=usual_interval_s(job.recording.seconds))


def _uncalibrated(logged: LoggedJob, name: str, goal: Objective, terms: AssessmentTerms, problem: str) -> Assessment:
    """Return what is known without a simulated job."""
    known = from_first_reading(logged.observations, OPERATOR)
    samples = [seen.samples[OPERATOR] for seen in known if OPERATOR in seen.samples]
    try:
        load = recorded_load(samples)
    except InputError as error:
        raise InputError(f"{name} cannot be assessed: {error}") from error
    course = course_of(known, OPERATOR)
    measured = summarise(course, [], goal, OPERATOR)
    if terms.objective is None:
        goal = replace(goal, slo=LatencySlo(_round_bound_s(measured.latency_p95_s)))
        measured = summarise(replace(course, counted_late=None), [], goal, OPERATOR)
    seconds = known[-1].at_s - known[0].at_s
    return Assessment(
        name=name,
        about=_about(logged, seconds),
        objective=goal,
        is_derived=terms.objective is None,
        seconds=seconds,
        load=LoadFacts.of(load, 0.0, seconds),
        measured=measured,
        is_met=is_objective_met(measured, goal, seconds),
        found=(),
        prospects={},
        unknown=["What other sizes would do: the log does not have what a simulated job is calibrated to."],
        left_out=_left_out(logged),
        recommendation=f"What other sizes would cost cannot be said: {problem}",
        code=_code(goal),
        saving=None,
    )


def _round_bound_s(latency_s: float | None) -> float:
    return next((bound_s for bound_s in BOUNDS_S if latency_s is not None and latency_s <= bound_s), BOUNDS_S[-1])


def _about(logged: LoggedJob, seconds: float) -> str:
    parts = [
        f"application {logged.application}" if logged.application else "",
        f"query {logged.query}",
        f"Spark {logged.spark}" if logged.spark else "",
        f"{logged.batches} batches in {format_duration(seconds)}",
    ]
    return ", ".join(part for part in parts if part)


def _left_out(logged: LoggedJob) -> list[str]:
    found = [f"{sentence}." for sentence in logged.left_out]
    if logged.others:
        named = ", ".join(f"{name} ({batches} batches)" for name, batches in logged.others.items())
        found.append(
            f"other queries of the application: {named}; they share its executors, and what they need is not simulated."
        )
    return [sentence[0].upper() + sentence[1:] for sentence in found]


# ------------------------------------------------------------------------------------------------------ what would be


def _prospects(
    job: RecordedJob | CountedJob,
    goal: Objective,
    terms: AssessmentTerms,
    progress: Callable[[float], None],
) -> tuple[dict[str, Prospect], dict[str, SimulationResult]]:
    """Simulate each way to size the job, on the most likely job and on some that it might be as well."""
    seed = terms.seed
    others: Sequence[TrialJob] = _drawn(job, terms) if isinstance(job, RecordedJob) else [job] * terms.draws
    policies = (AUTOPILOT, SPARKS_OWN)
    steps = (1 + len(others)) * len(policies) + 1
    done = 0

    def report(share: float) -> None:
        progress(min(1.0, (done + share) / steps))

    seconds = job.recording.seconds - job.recording.lead_s if isinstance(job, RecordedJob) else job.load.end_s
    fixed = _fixed(job, others, goal, seconds, seed, report)
    found = {fixed.name: fixed}
    runs: dict[str, SimulationResult] = {}
    done = 1
    for policy in policies:
        summaries = []
        for draw, other in enumerate([job, *others]):
            summary, run = other.under(CandidatePolicy(policy, {}), goal, seed=seed + draw, progress=report)
            summaries.append(summary)
            runs.setdefault(policy, run)
            done += 1
        found[policy] = Prospect(policy, summaries, [_is_met(summary, goal, seconds) for summary in summaries])
    return found, runs


def _is_met(summary: Summary, goal: Objective, seconds: float) -> bool:
    return is_objective_met(summary, goal, max(1.0, seconds)) is True


def _fixed(
    job: TrialJob,
    others: Sequence[TrialJob],
    goal: Objective,
    seconds: float,
    seed: int,
    progress: Callable[[float], None],
) -> Prospect:
    """Return the cheapest fixed size that meets the objective on all jobs; of none does, what comes closest."""
    fixed = job.fixed_sizes(goal, progress)
    met = sorted(fixed.met(goal, max(1.0, seconds)))
    # Where no size meets it, the largest comes closest.
    found: Prospect | None = None
    for size in met[:_SIZES_TRIED] or [max(fixed.summaries)]:
        bounded, contender = goal.within(size, size), CandidatePolicy("static", {"instances": size})
        results = [fixed.summaries[size], *(other.under(contender, bounded, seed=seed)[0] for other in others)]
        prospect = Prospect(f"fixed at {size}", results, [_is_met(item, goal, seconds) for item in results], size)
        if found is None or sum(prospect.met) > sum(found.met):
            found = prospect
        if all(prospect.met):
            break
    assert found is not None
    return found


def _drawn(job: RecordedJob, terms: AssessmentTerms) -> list[RecordedJob]:
    """Return jobs that are calibrated to batches and start-ups drawn from the recorded ones with replacement."""
    random = np.random.default_rng(terms.seed)
    found = []
    for _ in range(terms.draws):
        recording = _redrawn(job.recording, random)
        try:
            calibration = calibrate(recording)
        except InputError:
            continue  # Too few different batches were drawn.
        if terms.startup_s is not None or not job.recording.startups:
            calibration = replace(calibration, startup_s=job.calibration.startup_s, startup_spread=0.0)
        found.append(replace(job, calibration=calibration))
    return found


def _redrawn(recording: Recording, random: np.random.Generator) -> Recording:
    def drawn(count: int) -> list[int]:
        return sorted(random.integers(count, size=count).tolist()) if count else []

    batches: list[Batch] = [recording.batches[place] for place in drawn(len(recording.batches))]
    startups = [recording.startups[place] for place in drawn(len(recording.startups))]
    # A start-up that was drawn needs the batch with its first task, which may not have been drawn.
    first = {joined_s(startup) for startup in startups}
    for at_s in first:
        batch = next((item for item in recording.batches if item.records and item.ended_s > at_s), None)
        if batch is not None and not any(batch is item for item in batches):
            batches.append(batch)
    return replace(recording, batches=sorted(batches, key=lambda batch: batch.ended_s), startups=startups)


# ------------------------------------------------------------------------------------------------------- the sentences


def _recommend(
    goal: Objective,
    measured: Summary | None,
    is_met: bool | None,
    prospects: Mapping[str, Prospect],
    seconds: float,
) -> tuple[Prospect | None, str]:
    """Return the way that is recommended, and a sentence; ``None``: the job is to stay as it is."""
    ours = [prospect for name, prospect in prospects.items() if name != SPARKS_OWN]
    certain = [prospect for prospect in ours if prospect.is_met]
    if not certain:
        best = max(ours, key=lambda prospect: (sum(prospect.met), -prospect.hours))
        return None, (
            f"Nothing up to {_executors(goal.max_instances)} is sure to meet {goal.slo} under this load: {best.name} "
            f"comes closest, with {_late_words(best)} late ({plain(100 * goal.slo.allowed_share)} % allowed); allow "
            "more executors, or a longer latency."
        )
    best = min(certain, key=lambda prospect: prospect.hours)
    autopilot = prospects[AUTOPILOT]
    if autopilot.is_met and autopilot.hours <= (1 + NOTABLE) * best.hours:
        best = autopilot  # It also follows loads that this log does not have.
    paid_h = None if measured is None else measured.instance_seconds / HOUR_S
    if paid_h is not None and is_met and best.hours > (1 - NOTABLE) * paid_h:
        return None, (
            f"Leave the job as it is: it meets {goal.slo} at {plain(paid_h)} executor hours, and nothing that was "
            f"simulated is sure to meet it and expected to save {100 * NOTABLE:.0f} % or more."
        )
    what = "Run autopilot" if best is autopilot else f"Run a fixed {_executors(best.instances or 1)}"
    low, high = best.hours_range
    against = ""
    if paid_h is not None:
        against = f", {_saved(high, low, paid_h)} than the {plain(paid_h)} that were paid"
        against += "" if is_met else f" when {goal.slo} was not met"
    return best, (
        f"{what}: {_interval(low, high)} executor hours in {format_duration(seconds)}{against}, with "
        f"{_late_words(best)} late ({plain(100 * goal.slo.allowed_share)} % allowed)"
        f"{_money(goal, best, paid_h, seconds)}."
    )


def _executors(count: int) -> str:
    return "1 executor" if count == 1 else f"{count} executors"


def _saved(high: float, low: float, paid: float) -> str:
    shares = sorted(100 * (1 - hours / max(1e-9, paid)) for hours in (high, low))
    if shares[0] >= 0:
        return f"{_interval(shares[0], shares[1])} % less"
    if shares[1] <= 0:
        return f"{_interval(-shares[1], -shares[0])} % more"
    return f"between {plain(shares[1])} % less and {plain(-shares[0])} % more"


def _late_words(prospect: Prospect) -> str:
    late = prospect.late_range
    return "an unknown share" if late is None else f"{_interval(*late)} % of the records"


def _money(goal: Objective, best: Prospect, paid_h: float | None, seconds: float) -> str:
    price = goal.price_per_instance_hour
    if price is None or paid_h is None:
        return ""
    # What a day costs says something of a month, what an hour costs does not.
    is_long = seconds >= _SHORT_S
    per_hour = price * (MONTH_H * HOUR_S / seconds if is_long else 1.0)
    low, high = best.hours_range
    least, most = sorted(((paid_h - high) * per_hour, (paid_h - low) * per_hour))
    span = " a month at this load" if is_long else ""
    if most <= 0:
        return f"; it costs {_between(-most, -least)} more{span}"
    return f"; it saves {_between(least, most)}{span}"


def _between(low: float, high: float) -> str:
    first, last = money(low), money(high)
    return first if first == last else f"{first} to {last}"


def _interval(low: float, high: float) -> str:
    """
    >>> _interval(1.0, 2.5), _interval(3.0, 3.001)
    ('1 to 2.5', '3')
    """
    first, last = plain(low), plain(high)
    return first if first == last else f"{first} to {last}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _code(goal: Objective) -> list[str]:
    """Return the two lines that make autopilot recommend sizes without acting."""
    bounds = f"({goal.min_instances}, {goal.max_instances})"
    slo = replace(goal, price_per_instance_hour=None)
    return [
        "import headgate",
        f'headgate.autoscale(spark, "{slo}", executors={bounds}, mode="recommend", journal="headgate.db")',
    ]


def _unknown(
    logged: LoggedJob, job: RecordedJob, goal: Objective, measured: Summary, startup_s: float | None
) -> list[str]:
    """Return what the answer does not know, and why."""
    recording, times = job.recording, job.calibration.times
    sizes = sorted({batch.instances or 1 for batch in recording.batches if batch.records}) or [recording.start]
    most = sizes[-1]
    found = [_capacity_beyond(most, times.rate_per_s, recording.partitions)]
    if logged.settings.get("spark.master", "").startswith("local"):
        found.append(
            "The application ran in local mode, with all its tasks in one process: it counts as one executor, and "
            "what more executors would do is extrapolated from it."
        )
    if len(sizes) == 1:
        found.append(
            f"All batches ran on {_executors(most)}. That work divides evenly among executors is assumed, "
            "for smaller sizes too."
        )
    if startup_s is not None:
        found.append(f"Start-up is taken as {format_duration(startup_s)}, as given.")
    elif not logged.startups_from:
        found.append(
            f"How long executors take to start is not in the log; {format_duration(ASSUMED_STARTUP_S)} are assumed "
            "(--startup)."
        )
    elif logged.startups_from == "application":
        found.append(
            "When executors were requested is not in the log (Spark before 3.4); start-up is the time from the start "
            "of the application to its first executor."
        )
    elif not any(startup.requested_s > recording.lead_s for startup in recording.startups):
        found.append("No executor was started while the job ran; start-up is that of the first executors.")
    if not logged.counts:
        found.append(
            "The offsets of a source do not count records, so a record is taken to arrive when it is let into a "
            "batch: what waited before is not seen, and late records may be more."
        )
    found.append(_trigger_sentence(recording))
    found.append(_check_sentence(job, goal, measured))
    if recording.seconds < _SHORT_S:
        found.append(
            f"The log covers {format_duration(recording.seconds)}: what other hours, days and seasons bring is not "
            "known."
        )
    found.append(
        "Spark's own allocation is simulated with its default settings by Headgate's copy of it (policy spark-dra), "
        + (
            "which does not know how many tasks a batch has: the log has no jobs of the query."
            if recording.partitions is None
            else "which takes the waves of a batch's tasks to last equally long."
        )
    )
    return found


def _capacity_beyond(most: int, rate_per_s: float, partitions: int | None) -> str:
    low, high = most * rate_per_s * 2**_LEAST_GROWTH, most * rate_per_s * 2
    text = (
        f"Never more than {_executors(most)} were seen at work. The capacity of {2 * most} is extrapolated: between "
        f"{plain(low)} and {plain(high)} records/s"
    )
    if partitions is not None and partitions < 2 * most:
        return f"{text}, and a batch had no more than {partitions} executors' worth of tasks."
    return f"{text}."


def _trigger_sentence(recording: Recording) -> str:
    if recording.trigger_interval_s:
        return (
            f"The trigger interval is not in the log; {exact_duration(recording.trigger_interval_s)} is inferred from "
            "when batches began."
        )
    return "The trigger interval is not in the log; batches follow each other at once, as far as can be seen."


def _check_sentence(job: RecordedJob, goal: Objective, measured: Summary) -> str:
    predicted = job.predicted(goal)
    late, live = predicted.late_records_pct, measured.late_records_pct
    compared = "" if late is None or live is None else f"{plain(late)} % late where {plain(live)} % were, and "
    hours, paid = predicted.instance_seconds / HOUR_S, measured.instance_seconds / HOUR_S
    return (
        f"With the recorded sizes, the simulated job comes to {compared}{plain(hours)} executor hours where "
        f"{plain(paid)} were paid: what is simulated is no better than that."
    )


# ------------------------------------------------------------------------------------------------------- from counts


def assess_counts(
    name: str,
    load: Steps,
    terms: AssessmentTerms,
    service_rate_per_s: float | None,
    start: int = 1,
    progress: Callable[[float], None] = lambda share: None,
) -> Assessment:
    """Assess a job of which only the load is known, and how fast an instance is said to be, if it is said."""
    objective = terms.goal(DEFAULT_MOST // 2)
    startup_s = ASSUMED_STARTUP_S if terms.startup_s is None else terms.startup_s
    prospects: Mapping[str, Prospect] = {}
    runs: Mapping[str, SimulationResult] = {}
    unknown = ["What the job cost so far, and which objective it met, is not in a file of counts."]
    if service_rate_per_s is None:
        recommendation = (
            "What this load needs cannot be said without the speed of the job: say --service-rate with the records "
            "that an executor gets through in a second, or assess an event log."
        )
    else:
        job = CountedJob(load, service_rate_per_s, startup_s, start)
        prospects, runs = _prospects(job, objective, terms, progress)
        _, recommendation = _recommend(objective, None, None, prospects, load.end_s)
        unknown += [
            f"How fast the job is was given and not measured: {plain(service_rate_per_s)} records/s for each executor.",
            f"How long executors take to start was not measured; {format_duration(startup_s)} is assumed (--startup).",
        ]
    return Assessment(
        name=name,
        about=f"{load.describe()}, {format_duration(load.end_s)}",
        objective=objective,
        is_derived=False,
        seconds=load.end_s,
        load=LoadFacts.of(load, 0.0, load.end_s),
        measured=None,
        is_met=None,
        found=(),
        prospects=prospects,
        unknown=unknown,
        left_out=load.notes,
        recommendation=recommendation,
        code=_code(objective) if prospects else (),
        saving=None,
        runs=runs,
    )


def by_urgency(found: Sequence[Assessment]) -> list[Assessment]:
    """Return assessments, those that missed their objective by most first, then by what can be saved."""

    def key(item: Assessment) -> tuple[bool, float, float]:
        late = 0.0 if item.measured is None else (item.measured.late_records_pct or 0.0)
        is_missed = item.is_met is False
        return not is_missed, -late if is_missed else 0.0, -(item.saving or 0.0)

    return sorted(found, key=key)
