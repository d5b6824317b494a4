"""All jobs in a table, those that need attention first, and what several pages show of a job: its state and details."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from markupsafe import Markup

from headgate.core.budget import Budget
from headgate.core.guards import is_capped, is_limited_by_cluster
from headgate.core.objective import DAY_S, LatencySlo, Objective
from headgate.core.types import Decision, Instances, Instant, Observation, Role, Sample
from headgate.core.units import format_duration, plain
from headgate.journal.findings import (
    difference_in_words,
    left_in_words,
    money,
    shadow_stories,
    spent_in_words,
    story_in_words,
)
from headgate.render.story import UNITS, coverage, expectations
from headgate.rules.explain import constraint_in_words, rule_in_words
from headgate.rules.rules_policy import RulesPolicy
from headgate.runtime.loop import Mode
from headgate.service.jobs import ServedJob, Used
from headgate.service.pages.plots import TimeAxis, meter, sparkline
from headgate.service.pages.rendering import UNKNOWN, Link, Tile, clock, latency, moment, rate, sizes
from headgate.service.service import Service
from headgate.service.store.changes import ChangeKind, JobChange


def objective_of(job: ServedJob) -> Objective:
    """Return the objective of the job's policy."""
    found = job.loop.policy.objective  # type: ignore[attr-defined]  # all policies of a service are made by name
    assert isinstance(found, Objective)
    return found


@dataclass(frozen=True, slots=True)
class Badge:
    kind: str
    """The class that gives it its colour."""
    sign: str
    """Distinguishes it without colours."""
    word: str
    more: str = ""


WAITING = Badge("waiting", "…", "waits for its agent", "no agent has reported yet")
LOST = Badge("lost", "?", "agent lost", "an agent does not report; its size is left unchanged")
LATE = Badge("late", "✕", "objective violated", "by the newest reading")
CAPPED = Badge("late", "⤒", "capped at the maximum", "the objective is violated, and no more instances are allowed")
LIMITED = Badge("late", "⊘", "limited by the cluster", "the objective is violated, and the cluster gives no more")
GROWING = Badge("scaling", "▲", "scaling out", "more instances are planned than are ready")
SHRINKING = Badge("scaling", "▼", "scaling in", "fewer instances are planned than are ready")
STEADY = Badge("steady", "●", "steady")
RECOMMENDING = Badge("recommending", "◇", "recommends only", "what is decided is not carried out")
_GRAVITY = (STEADY, SHRINKING, GROWING, WAITING, LATE, LIMITED, CAPPED, LOST)
_WORRYING = frozenset({WAITING, LATE, LIMITED, CAPPED, LOST})


def operator_state(
    objective: Objective,
    operator: str,
    instances: Instances | None,
    sample: Sample | None,
    *,
    is_joined: bool,
    is_at_limit: bool = False,
    is_refused: bool = False,
) -> Badge:
    """Return the state of one operator."""
    if sample is None and not is_joined:
        return WAITING
    if not is_joined:
        return LOST
    if sample is not None and objective.slo_of(operator).violated_by(sample):
        return CAPPED if is_at_limit else LIMITED if is_refused else LATE
    if instances is not None and instances.pending:
        return GROWING if instances.pending > 0 else SHRINKING
    return STEADY


def operator_states(job: ServedJob) -> dict[str, Badge]:
    """Return the state of each operator of a job."""
    decided = {} if job.decision is None else job.decision.verdicts
    seen, joined, objective = job.observation, job.engine.joined, objective_of(job)
    return {
        name: operator_state(
            objective,
            name,
            None if seen is None else seen.instances.get(name),
            None if seen is None else seen.samples.get(name),
            is_joined=name in joined,
            is_at_limit=name in decided and is_capped(decided[name]),
            is_refused=name in decided and is_limited_by_cluster(decided[name]),
        )
        for name in job.operators
    }


def job_badges(states: Iterable[Badge], changes: Sequence[JobChange], *, recommends: bool) -> list[Badge]:
    """Return the worst state of a job's operators, and the overrides in force."""
    found = [max(states, key=_GRAVITY.index)]
    found += [badge for change in changes if (badge := _change_badge(change)) is not None]
    return [*found, RECOMMENDING] if recommends else found


def gravity(badges: Sequence[Badge]) -> int:
    """Return how urgently a job needs attention; 0: not at all."""
    return _GRAVITY.index(badges[0]) if badges[0] in _WORRYING else 0


def _change_badge(change: JobChange) -> Badge | None:
    if change.kind is ChangeKind.PAUSE:
        return Badge("paused", "❚❚", "paused", change.why)
    if change.kind is ChangeKind.SIZE:
        return Badge("forced", "⚑", "size forced", change.why)
    return None


_NOT_FIRING = frozenset({"waiting", "guard-time", "at-limit"})


@dataclass(frozen=True, slots=True)
class PredictionRow:
    name: str
    expected: str
    observed: str
    within: str


def prediction_rows(
    decisions: Sequence[Decision], observations: Sequence[Observation], operator: str
) -> list[PredictionRow]:
    """Return the newest checked prediction of each quantity, and how often the stated interval held."""
    own = [
        Decision(decision.at_s, decision.policy, {operator: decision.verdicts[operator]}, decision.role)
        for decision in decisions
        if decision.role is not Role.SHADOW and operator in decision.verdicts
    ]
    counts = coverage(own, observations)
    newest: dict[str, PredictionRow] = {}
    for decision in reversed(own):
        for prediction in expectations(decision.verdicts[operator], decision.at_s, observations):
            if prediction.actual is None or prediction.name in newest:
                continue
            name, unit = UNITS[prediction.name]
            answered, met = counts[prediction.name]
            newest[prediction.name] = PredictionRow(
                name,
                f"{plain(prediction.middle)}{unit} ({plain(prediction.low)} … {plain(prediction.high)})",
                f"{plain(prediction.actual)}{unit}",
                f"{100 * met / answered:.0f} % of {answered}",
            )
        if len(newest) == len(UNITS):
            break
    return list(newest.values())


@dataclass(frozen=True, slots=True)
class ShadowRow:
    name: str
    now: str
    summary: str
    last: str


def shadow_rows(job: ServedJob, decisions: Sequence[Decision]) -> list[ShadowRow]:
    """Return what each shadow would decide now, and when it last differed."""
    newest = {decision.policy: decision for decision in decisions if decision.role is Role.SHADOW}
    stories = shadow_stories(decisions)
    rows = []
    for shadow in job.loop.shadows:
        name = shadow.policy.name
        decision, story = newest.get(name), stories.get(name)
        now = "has not decided yet"
        if decision is not None:
            now = "would have " + ", ".join(
                f"{verdict.target} {operator if len(job.operators) > 1 else ''}".strip()
                for operator, verdict in decision.verdicts.items()
            )
        last = ""
        if story is not None and story.differences:
            difference = story.differences[-1]
            last = f"{clock(difference.at_s)}: {difference_in_words(difference)}"
        rows.append(ShadowRow(name, now, "" if story is None else f"{story_in_words(name, story)}.", last))
    return rows


@dataclass(frozen=True, slots=True)
class RuleRow:
    text: str
    more: str
    sign: str
    fires: bool


def rule_rows(job: ServedJob) -> list[RuleRow]:
    """Return the rules and constraints in force, with the reason of each rule that fires."""
    policy, rows = job.loop.policy, []
    constraints = list(job.spec.constraints)
    if isinstance(policy, RulesPolicy):
        reasons = _reasons(job)
        for rule in policy.policy.rules:
            reason, fires = reasons.get(rule.name, ("", False))
            rows.append(RuleRow(rule_in_words(rule), reason, "▶" if fires else "·", fires))
        constraints += policy.policy.constraints
    rows += [RuleRow(constraint_in_words(constraint), "", "≤", False) for constraint in constraints]
    return rows


def _reasons(job: ServedJob) -> dict[str, tuple[str, bool]]:
    """Return the reason, and whether it fires, by the rule that the newest decision names."""
    verdicts = () if job.decision is None else job.decision.verdicts.values()
    return {
        str(verdict.numbers["rule"]): (verdict.reason, verdict.code not in _NOT_FIRING)
        for verdict in verdicts
        if "rule" in verdict.numbers
    }


@dataclass(frozen=True, slots=True)
class ChangeRow:
    text: str
    who: str
    why: str


def change_rows(changes: Sequence[JobChange]) -> list[ChangeRow]:
    return [
        ChangeRow(
            f"{change_text(change)}{'' if change.until_s is None else f', until {clock(change.until_s)}'}",
            f"{change.who}, {moment(change.at_s)}",
            change.why,
        )
        for change in changes
    ]


def change_text(change: JobChange) -> str:
    """Return a change in a few words."""
    name = "" if change.name in ("", "*") else f" of {change.name}"
    body = change.body
    if not isinstance(body, dict):
        return f"{change.kind}{name}: {body}"
    fields = ", ".join(f"{key.replace('_', ' ')} {_value(value)}" for key, value in body.items() if value is not None)
    return f"{change.kind}{name}: {fields}" if fields else f"{change.kind}{name}"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(part)}" for key, part in value.items()) or UNKNOWN
    if isinstance(value, list | tuple):
        return " to ".join(map(str, value))
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def now_facts(job: ServedJob, operator: str) -> list[tuple[str, str]]:
    """Return the current state of an operator as names and values."""
    seen, decided = job.observation, job.decision
    instances = None if seen is None else seen.instances.get(operator)
    verdict = None if decided is None else decided.verdicts.get(operator)
    reported_s = job.engine.last_reports_s.get(operator)
    fewest, most = objective_of(job).bounds_of(operator, job.spec.topology)
    facts = []
    if verdict is not None and decided is not None:
        facts.append(("decision", f"{verdict.target}: {verdict.reason} ({clock(decided.at_s)})"))
    if instances is not None:
        facts.append(
            (
                "instances",
                f"{instances.planned} planned, {instances.requested} requested, {instances.ready} ready"
                + (" (last known)" if instances.stale else ""),
            )
        )
    reported = (
        "never" if reported_s is None else f"{format_duration(max(0.0, round(job.clock.now() - reported_s, 1)))} ago"
    )
    return [*facts, ("bounds", f"{fewest} to {most}"), ("last report of its agent", reported)]


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
    late = sum(bool({LATE, LIMITED, CAPPED} & {*states}) for states in (badges_of(job) for job in jobs))
    used = [job.day.used(now) for job in jobs]
    hours = sum(day.instance_hours for day in used)
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
            "Instance hours",
            plain(hours),
            f"in {_longest_span(used)}; the page of a job compares with fixed sizes" if hours else "",
        ),
    ]


def _longest_span(used: Sequence[Used]) -> str:
    return span_in_words(max(day.known_s for day in used))


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
    """Return the cost of the last day, in money where there is a price, and how many instances that are."""
    used, spending = job.day.used(now), job.loop.history.spending()
    if not used.known_s:
        return UNKNOWN, ""
    mean = f"{plain(used.mean_instances)} instances on average"
    if spending is not None and spending.covered_s:
        return money(spending.spent), mean
    return f"{plain(used.instance_hours)} instance hours", mean


def span_in_words(known_s: float) -> str:
    """Return the time that figures are of: the last 24 hours, or what is known while that is less."""
    return "the last 24 hours" if known_s >= 0.99 * DAY_S else format_duration(round(known_s))


def cost_span(job: ServedJob) -> str:
    return span_in_words(job.day.used(job.clock.now()).known_s)


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
