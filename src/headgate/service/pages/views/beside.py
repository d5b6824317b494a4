"""What stands beside the plots of a job: what was expected, shadows, rules and changes in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.types import Decision, Observation, Role
from headgate.core.units import format_duration, plain
from headgate.journal.findings import difference_in_words, shadow_stories, story_in_words
from headgate.render.story import UNITS, coverage, expectations
from headgate.rules.explain import constraint_in_words, rule_in_words
from headgate.rules.rules_policy import RulesPolicy
from headgate.service.jobs import ServedJob
from headgate.service.pages.views.states import objective_of
from headgate.service.pages.words import UNKNOWN, clock, moment
from headgate.service.store.changes import JobChange

_NOT_FIRING = frozenset({"waiting", "guard-time", "at-limit"})


@dataclass(frozen=True, slots=True)
class Expected:
    name: str
    expected: str
    came: str
    within: str


def expected_rows(decisions: Sequence[Decision], observations: Sequence[Observation], operator: str) -> list[Expected]:
    """The newest expectation that was answered, of each thing, and how often all of them were right."""
    acting = [one for one in decisions if one.role is not Role.SHADOW and operator in one.verdicts]
    own = [Decision(one.at_s, one.policy, {operator: one.verdicts[operator]}, one.role) for one in acting]
    counts = coverage(own, observations)
    newest: dict[str, Expected] = {}
    for decision in reversed(own):
        for one in expectations(decision.verdicts[operator], decision.at_s, observations):
            if one.actual is None or one.name in newest:
                continue
            name, unit = UNITS[one.name]
            answered, met = counts[one.name]
            newest[one.name] = Expected(
                name,
                f"{plain(one.middle)}{unit} ({plain(one.low)} … {plain(one.high)})",
                f"{plain(one.actual)}{unit}",
                f"{100 * met / answered:.0f} % of {answered}",
            )
        if len(newest) == len(UNITS):
            break
    return list(newest.values())


@dataclass(frozen=True, slots=True)
class ShadowRow:
    name: str
    now: str
    told: str
    last: str


def shadow_rows(job: ServedJob, decisions: Sequence[Decision]) -> list[ShadowRow]:
    """What each shadow would do now, and where it differed."""
    newest = {one.policy: one for one in decisions if one.role is Role.SHADOW}
    stories = shadow_stories(decisions)
    rows = []
    for shadow in job.loop.shadows:
        name = shadow.policy.name
        decision, story = newest.get(name), stories.get(name)
        told = "has not decided yet"
        if decision is not None:
            told = "would have " + ", ".join(
                f"{verdict.target} {operator if len(job.operators) > 1 else ''}".strip()
                for operator, verdict in decision.verdicts.items()
            )
        last = ""
        if story is not None and story.differences:
            difference = story.differences[-1]
            last = f"{clock(difference.at_s)}: {difference_in_words(difference)}"
        rows.append(ShadowRow(name, told, "" if story is None else f"{story_in_words(name, story)}.", last))
    return rows


@dataclass(frozen=True, slots=True)
class RuleRow:
    text: str
    more: str
    sign: str
    fires: bool


def rule_rows(job: ServedJob) -> list[RuleRow]:
    """The rules and constraints in force; those that fire say what they found."""
    policy, rows = job.loop.policy, []
    constraints = list(job.spec.constraints)
    if isinstance(policy, RulesPolicy):
        told = _told_by_rules(job)
        for rule in policy.policy.rules:
            reason, fires = told.get(rule.name, ("", False))
            rows.append(RuleRow(rule_in_words(rule), reason, "▶" if fires else "·", fires))
        constraints += policy.policy.constraints
    rows += [RuleRow(constraint_in_words(one), "", "≤", False) for one in constraints]
    return rows


def _told_by_rules(job: ServedJob) -> dict[str, tuple[str, bool]]:
    """Why, and whether it fires, by the rule that the newest decision tells of."""
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
    """A change in a few words."""
    name = "" if change.name in ("", "*") else f" of {change.name}"
    body = change.body
    if not isinstance(body, dict):
        return f"{change.kind}{name}: {body}"
    told = ", ".join(f"{key.replace('_', ' ')} {_value(value)}" for key, value in body.items() if value is not None)
    return f"{change.kind}{name}: {told}" if told else f"{change.kind}{name}"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(one)}" for key, one in value.items()) or UNKNOWN
    if isinstance(value, list | tuple):
        return " to ".join(map(str, value))
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def now_facts(job: ServedJob, operator: str) -> list[tuple[str, str]]:
    """What holds for an operator at this moment."""
    seen, decided = job.observation, job.decision
    instances = None if seen is None else seen.instances.get(operator)
    verdict = None if decided is None else decided.verdicts.get(operator)
    heard_s = job.engine.last_reports_s.get(operator)
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
    heard = "never" if heard_s is None else f"{format_duration(max(0.0, round(job.clock.now() - heard_s, 1)))} ago"
    return [*facts, ("bounds", f"{fewest} to {most}"), ("heard of its agent", heard)]
