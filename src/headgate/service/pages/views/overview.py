"""All jobs in a table, those that need attention first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from markupsafe import Markup

from headgate.core.budget import Budget
from headgate.core.objective import DAY_S, LatencySlo
from headgate.core.types import Instances, Instant, Observation
from headgate.core.units import format_duration, plain
from headgate.journal.findings import left_in_words, money, spent_in_words
from headgate.runtime.loop import Mode
from headgate.service.jobs import ServedJob
from headgate.service.pages.plots import TimeAxis, meter, sparkline
from headgate.service.pages.rendering import UNKNOWN, Link, Tile, latency, rate, sizes
from headgate.service.pages.views.details import CAPPED, LATE, Badge, gravity, job_badges, objective_of, operator_states
from headgate.service.service import Service

PER_PAGE = 100
COURSE_S = 900.0
SHORTEST_COURSE_S = 120.0
"""The span of the small plots is between the shortest and this one, by what is known."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job."""

    name: str
    href: str
    policy: str
    objective: str
    badges: Sequence[Badge]
    load: str
    load_course: Markup
    size: str
    size_more: str
    size_course: Markup
    latency: str
    latency_more: str
    budget: str
    budget_meter: Markup
    cost: str
    cost_more: str


@dataclass(frozen=True, slots=True)
class Overview:
    summary: str
    tiles: Sequence[Tile]
    rows: Sequence[JobRow]
    pages: Sequence[Link]
    query: str
    is_many: bool


def overview(service: Service, query: str = "", page: int = 1) -> Overview:
    """Return a page of the jobs whose names contain the query."""
    now = service.clock.now()
    found = [job for job in service.fleet if query.lower() in job.name.lower()]
    badges = {job.name: badges_of(job) for job in found}
    found.sort(key=lambda job: (-gravity(badges[job.name]), job.name))
    pages = max(1, -(-len(found) // PER_PAGE))
    page = min(max(1, page), pages)
    shown = found[(page - 1) * PER_PAGE : page * PER_PAGE]
    worried = sum(gravity(found_badges) > 0 for found_badges in badges.values())
    links = [
        Link(str(number), f"/?{urlencode({'q': query, 'page': number})}", number == page)
        for number in range(1, pages + 1)
    ]
    count = len(found)
    summary = f"{count} job{'' if count == 1 else 's'}, " + (
        "all in order." if not worried else f"{worried} of them {'needs' if worried == 1 else 'need'} attention."
    )
    return Overview(
        summary if found else "No jobs.",
        _tiles(found, now),
        [_row(job, badges[job.name], now) for job in shown],
        links,
        query,
        len(service.fleet) > 8,
    )


def badges_of(job: ServedJob) -> list[Badge]:
    """Return the states of a job, the worst first."""
    recommends = job.loop.mode is Mode.RECOMMEND
    return job_badges(operator_states(job).values(), job.changes, recommends=recommends)


def _tiles(jobs: Sequence[ServedJob], now: Instant) -> list[Tile]:
    totals = [total(job.observation) for job in jobs if job.observation is not None]
    ready, planned = sum(size.ready for size in totals), sum(size.planned for size in totals)
    budgets = [budget for job in jobs if (budget := worst_budget(job)) is not None]
    met = sum(not budget.is_exceeded for budget in budgets)
    late = sum(LATE in states or CAPPED in states for states in (badges_of(job) for job in jobs))
    used = [job.day.used(now) for job in jobs]
    hours, fixed = sum(day.instance_hours for day in used), sum(day.fixed_hours for day in used)
    load = [job_load(job) for job in jobs]
    known = [rate_per_s for rate_per_s in load if rate_per_s is not None]
    return [
        Tile("Load", plain(sum(known)) if known else UNKNOWN, "at the sources of all jobs", "records/s"),
        Tile("Instances", f"{ready}", f"{planned} planned", "ready"),
        Tile(
            "Objectives met",
            f"{met} of {len(budgets)}" if budgets else UNKNOWN,
            "by their error budgets" + (f"; {late} violated by the newest reading" if late else ""),
            kind="bad" if met < len(budgets) or late else "",
        ),
        Tile(
            "Instance hours, last 24 hours",
            plain(hours),
            f"{saved_in_words(hours, fixed)}: {plain(fixed)} for jobs fixed at their largest size" if fixed else "",
        ),
    ]


def saved_in_words(used: float, fixed: float) -> str:
    """
    >>> saved_in_words(60.0, 100.0), saved_in_words(100.0, 100.0)
    ('40% saved', 'nothing saved')
    """
    saved = 100 * (1 - used / fixed) if fixed > 0 else 0.0
    return f"{saved:.0f}% saved" if saved >= 0.5 else "nothing saved"


def job_load(job: ServedJob) -> float | None:
    """Return the rate at which records arrive at the sources of a job."""
    if job.observation is None:
        return None
    rates = [
        sample.input_rate_per_s
        for name in job.spec.topology.sources
        if (sample := job.observation.samples.get(name)) is not None and sample.input_rate_per_s is not None
    ]
    return sum(rates) if rates else None


def job_latency(job: ServedJob) -> float | None:
    """Return the longest latency at any operator, by the newest readings."""
    samples = [] if job.observation is None else job.observation.samples.values()
    known = [sample.worst_latency_s for sample in samples if sample.worst_latency_s is not None]
    return max(known, default=None)


def total(observation: Observation) -> Instances:
    """Return the instances of all operators together."""
    every = observation.instances.values()
    return Instances(
        sum(size.planned for size in every), sum(size.requested for size in every), sum(size.ready for size in every)
    )


def worst_budget(job: ServedJob) -> Budget | None:
    """Return the budget of the operator that has spent the largest share of it."""
    found = [budget for name in job.operators if (budget := job.loop.history.budget(name)) is not None]
    return max(found, key=lambda budget: (budget.is_exceeded, budget.spent), default=None)


def budget_meter(budget: Budget) -> Markup:
    """Return how much is left; of a young budget, of the share that is allowed."""
    left = 1 - budget.spent
    if budget.is_young:
        left = 1 - (budget.missed_share or 0.0) / max(1e-9, budget.slo.allowed_share)
    is_burning = min(budget.burn_long or 0.0, budget.burn_short or 0.0) > 1
    kind = "bad" if left <= 0.1 else "warn" if left <= 0.35 or is_burning else "good"
    return meter(max(0.0, left), f"{100 * max(0.0, left):.0f} % of the error budget is left", kind)


def budget_left(budget: Budget | None) -> str:
    if budget is None:
        return UNKNOWN
    if budget.is_young:
        return spent_in_words(budget)
    left = 100 * (1 - budget.spent)
    return f"{plain(left)}% left" if left >= 0 else left_in_words(budget)


def cost_of(job: ServedJob, now: Instant) -> tuple[str, str]:
    """Return the cost of the last day, in money where there is a price, and compared with its own largest size."""
    used, spending = job.day.used(now), job.loop.history.spending()
    if not used.known_s:
        return UNKNOWN, ""
    against = (
        f"{saved_in_words(used.instance_hours, used.fixed_hours)} against a fixed {used.most}, its own largest size"
    )
    if spending is not None and spending.covered_s:
        return money(spending.spent), against
    return f"{plain(used.instance_hours)} instance hours", against


def cost_span(job: ServedJob) -> str:
    """Return what the cost is of: 24 hours, or what is known while that is less."""
    known_s = job.day.used(job.clock.now()).known_s
    return "24 hours" if known_s >= 0.99 * DAY_S else format_duration(round(known_s))


def _row(job: ServedJob, badges: Sequence[Badge], now: Instant) -> JobRow:
    with job.at_rest() as loop:
        recent = [reading for reading in loop.history.observations if reading.at_s >= now - COURSE_S]
    known_s = now - recent[0].at_s if recent else 0.0
    time = TimeAxis(now, min(COURSE_S, max(SHORTEST_COURSE_S, known_s)))
    seen, budget = job.observation, worst_budget(job)
    size = None if seen is None else total(seen)
    slo = objective_of(job).slo
    cost, cost_more = cost_of(job, now)
    ready = [(reading.at_s, float(total(reading).ready)) for reading in recent]
    source = job.spec.topology.sources[0]
    return JobRow(
        name=job.name,
        href=f"/jobs/{quote(job.name)}",
        policy=job.loop.policy.name,
        objective=str(slo),
        badges=badges,
        load=rate(job_load(job)),
        load_course=sparkline(
            time,
            "load",
            "rate",
            [
                (reading.at_s, reading.samples[source].input_rate_per_s)
                for reading in recent
                if source in reading.samples
            ],
        ),
        size=sizes(size),
        size_more="" if size is None else _leaving(size),
        size_course=sparkline(time, "instances", "ready", ready),
        latency=latency(job_latency(job)),
        latency_more=f"{format_duration(slo.bound_s)} allowed" if isinstance(slo, LatencySlo) else "",
        budget=budget_left(budget),
        budget_meter=Markup() if budget is None else budget_meter(budget),
        cost=cost,
        cost_more=cost_more,
    )


def _leaving(size: Instances) -> str:
    return f"{-size.pending} leaving" if size.pending < 0 else f"{size.pending} coming" if size.pending else "ready"
