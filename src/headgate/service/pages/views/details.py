"""The states of a job and its operators, and its details: predictions, shadows, rules and changes in force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headgate.core.guards import is_capped
from headgate.core.objective import Objective
from headgate.core.types import Decision, Instances, Observation, Role, Sample
from headgate.core.units import format_duration, plain
from headgate.journal.findings import difference_in_words, shadow_stories, story_in_words
from headgate.render.story import UNITS, coverage, expectations
from headgate.rules.explain import constraint_in_words, rule_in_words
from headgate.rules.rules_policy import RulesPolicy
from headgate.service.jobs import ServedJob
from headgate.service.pages.rendering import UNKNOWN, clock, moment
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
GROWING = Badge("scaling", "▲", "scaling out", "more instances are planned than are ready")
SHRINKING = Badge("scaling", "▼", "scaling in", "fewer instances are planned than are ready")
STEADY = Badge("steady", "●", "steady")
RECOMMENDING = Badge("recommending", "◇", "recommends only", "what is decided is not carried out")
_GRAVITY = (STEADY, SHRINKING, GROWING, WAITING, LATE, CAPPED, LOST)
_WORRYING = frozenset({WAITING, LATE, CAPPED, LOST})


def operator_state(
    objective: Objective,
    operator: str,
    instances: Instances | None,
    sample: Sample | None,
    *,
    is_joined: bool,
    is_at_limit: bool = False,
) -> Badge:
    """Return the state of one operator."""
    if sample is None and not is_joined:
        return WAITING
    if not is_joined:
        return LOST
    if sample is not None and objective.slo_of(operator).violated_by(sample):
        return CAPPED if is_at_limit else LATE
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
