"""Findings from a journal: how the error budget and the cost stand, and where shadow policies would have differed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter

from headgate.core.budget import Budget, BudgetKeeper, Spending, SpendingKeeper
from headgate.core.errors import JournalError, StateError
from headgate.core.objective import DAY_S, By, LatencySlo, Objective, Slo, SlowShareSlo, ThroughputSlo, parse_slo
from headgate.core.topology import Topology
from headgate.core.types import JSON, Decision, Instant, Observation, Role, Verdict
from headgate.core.units import exact_duration, exact_number, format_duration, plain

LONGEST_BOUND = len("10.25s")


@dataclass(frozen=True, slots=True)
class Standing:
    """The error budgets of a job and its cost, compared with the objective."""

    budgets: Mapping[str, Budget]
    """By operator; without operators that have no counts yet."""
    spending: Spending | None = None

    def to_json(self) -> dict[str, JSON]:
        return {
            "budgets": {operator: budget.to_json() for operator, budget in self.budgets.items()},
            "spending": None if self.spending is None else self.spending.to_json(),
        }


def saved_standing(saved: Mapping[str, JSON], objective: Objective) -> Standing:
    """Return what a loop saved last."""
    budgets: dict[str, Budget] = {}
    try:
        for operator, state in saved["budgets"].items():
            keeper = BudgetKeeper(parse_slo(state["slo"]))
            keeper.restore(state, is_same_run=True)
            budget = keeper.budget(float(state["until_s"]))
            if budget is not None:
                budgets[operator] = budget
        spending = None
        if (state := saved.get("spending")) is not None:
            purse = SpendingKeeper({}, objective.cost)
            purse.restore(state, is_same_run=True)
            spending = purse.spending(float(state["until_s"]))
    except (AttributeError, KeyError, StateError, TypeError, ValueError) as error:
        raise JournalError(f"the budget in the journal is damaged: {error}") from error
    return Standing(budgets, spending)


def replayed_standing(
    observations: Iterable[Observation], objective: Objective, operators: Sequence[str] = ("job",)
) -> Standing:
    """Compute budgets and cost from observations."""
    keepers = {operator: BudgetKeeper(objective.slo_of(operator)) for operator in operators}
    purse = purse_of(objective, operators)
    at_s: Instant = 0.0
    for observation in observations:
        at_s = observation.at_s
        for operator, sample in observation.samples.items():
            if operator in keepers:
                keepers[operator].observe(sample)
        if purse is not None:
            purse.observe(observation)
    found = {operator: keeper.budget(at_s) for operator, keeper in keepers.items()}
    budgets = {operator: budget for operator, budget in found.items() if budget is not None}
    return Standing(budgets, None if purse is None else purse.spending(at_s))


def purse_of(objective: Objective, operators: Sequence[str]) -> SpendingKeeper | None:
    """Return the cost counter of some operators; ``None`` if they have no price."""
    if objective.price_per_instance_hour is None:
        return None
    return SpendingKeeper(objective.prices(Topology(tuple(operators))), objective.cost)


def budget_course(
    observations: Sequence[Observation], slo: Slo, operator: str, most: int
) -> list[tuple[Instant, Budget]]:
    """The budget as it stood in the course of a run, at no more than so many times."""
    keeper = BudgetKeeper(slo)
    stride = max(1, -(-len(observations) // most))
    found = []
    for index, observation in enumerate(observations):
        if (sample := observation.samples.get(operator)) is not None:
            keeper.observe(sample)
        is_sampled = index % stride == 0 or index == len(observations) - 1
        if is_sampled and (budget := keeper.budget(observation.at_s)) is not None:
            found.append((observation.at_s, budget))
    return found


# ------------------------------------------------------------------------------------------------------------- in words


def standing_in_words(standing: Standing) -> list[str]:
    """Return two sentences for the budget of each operator, and one for the cost."""
    named = len(standing.budgets) > 1
    sentences = []
    for operator, budget in standing.budgets.items():
        of = f" of {operator}" if named else ""
        sentences.append(f"Required{of}: {requirement_in_words(budget.slo)}; {delivered_in_words(budget)}.")
        sentences.append(f"Error budget{of}: {budget_in_words(budget)}.")
    if standing.spending is not None:
        sentences.append(f"Cost: {spending_in_words(standing.spending)}.")
    return sentences


def requirement_in_words(slo: Slo) -> str:
    """Describe what an objective allows.

    >>> requirement_in_words(LatencySlo(10.0, 99.9))
    'at most 0.1 % of the records of a day later than 10s'
    >>> requirement_in_words(LatencySlo(10.0, period_s=3600.0, by=By.TIME))
    'at most 5 % of the time of 1h with a record later than 10s'
    """
    share = f"at most {_percent(slo.allowed_share)}"
    of = f"of the {slo.by} of {'a day' if slo.period_s == DAY_S else exact_duration(slo.period_s)}"
    match slo:
        case LatencySlo(bound_s=bound_s, by=By.RECORDS):
            return f"{share} {of} later than {_bound(bound_s)}"
        case LatencySlo(bound_s=bound_s):
            return f"{share} {of} with a record later than {_bound(bound_s)}"
        case SlowShareSlo():
            return f"{share} {of} slow"
        case ThroughputSlo():
            return f"{share} {of} while the job falls behind"


def _bound(seconds: float) -> str:
    """Return a bound exactly, or to a tenth of a second if it is a computed share of an end-to-end bound.

    >>> _bound(0.25), _bound(10 / 3)
    ('250ms', '3.3s')
    """
    exact = exact_duration(seconds)
    return exact if len(exact) <= LONGEST_BOUND else format_duration(seconds)


def delivered_in_words(budget: Budget) -> str:
    """Describe what was delivered in the whole run, or in the last period where only that is known."""
    found = budget if budget.run is None else budget.run
    span = format_duration(found.covered_s)
    if found.missed_share is None:
        return f"nothing arrived in the {span} that are known"
    counted = f"{found.counted:,.0f} records" if budget.slo.by is By.RECORDS else "the time"
    when = f"in {span}" if budget.run is not None or budget.is_young else f"in the last {span}"
    return f"{when} {_percent(found.missed_share)} of {counted}"


def budget_in_words(budget: Budget) -> str:
    """Describe how much is spent and left, and the burn rate."""
    return f"{spent_in_words(budget)}, {left_in_words(budget)}; {burn_in_words(budget)}"


def spent_in_words(budget: Budget) -> str:
    """Describe how much of the budget is spent; of a young one, whose size is not known yet, what was missed so far.

    >>> spent_in_words(Budget(LatencySlo(10.0), 1000.0, 300.0, 3600.0, None, None))
    '30 % late so far'
    >>> spent_in_words(Budget(LatencySlo(10.0), 1000.0, 25.0, 86400.0, None, None))
    '50 % of the last day spent'
    """
    if not budget.is_young:
        return f"{_percent(budget.spent)} of the last {_period(budget.slo)} spent"
    missed = (
        "slow"
        if isinstance(budget.slo, SlowShareSlo)
        else "behind"
        if isinstance(budget.slo, ThroughputSlo)
        else "late"
    )
    return f"{_percent(budget.missed_share or 0.0)} {missed} so far"


def _period(slo: Slo) -> str:
    return "day" if slo.period_s == DAY_S else exact_duration(slo.period_s)


def left_in_words(budget: Budget) -> str:
    """Describe what may still be missed; of a young budget, what share is allowed.

    >>> left_in_words(Budget(LatencySlo(10.0), 1000.0, 90.0, 86400.0, 1.8, 1.8))
    '40 records too many'
    >>> left_in_words(Budget(LatencySlo(10.0), 1000.0, 90.0, 3600.0, 1.8, 1.8))
    '5 % allowed'
    """
    if budget.is_young:
        return f"{_percent(budget.slo.allowed_share)} allowed"
    amount = abs(budget.left)
    text = f"{amount:,.0f} records" if budget.slo.by is By.RECORDS else format_duration(amount)
    return f"{text} {'left' if budget.left >= 0 else 'too many'}"


def burn_in_words(budget: Budget) -> str:
    """Describe the burn rate over the long and the short window.

    >>> burn_in_words(Budget(LatencySlo(10.0), 1000.0, 50.0, 3600.0, 1.0, None))
    'burning at 1 × over 1h and unknown over 5m'
    """
    rates = ((budget.burn_long, budget.long_s), (budget.burn_short, budget.short_s))
    parts = [f"{'unknown' if rate is None else f'{plain(rate)} ×'} over {format_duration(s)}" for rate, s in rates]
    return f"burning at {' and '.join(parts)}"


def spending_in_words(spending: Spending) -> str:
    """Describe the cost of the run, that of the last period or its projection, and the limit.

    >>> from headgate.core.objective import CostLimit
    >>> spending_in_words(Spending(3.0, 21600.0, 86400.0, 0.5, CostLimit(10.0), 3.0, 21600.0))
    '3 in 6h; 12 per day at this pace, the limit is 10'
    >>> spending_in_words(Spending(12.0, 86400.0, 86400.0, 0.5, None, 84.0, 7 * 86400.0))
    '84 in 7d; 12 in the last day'
    >>> spending_in_words(Spending(12.0, 86400.0, 86400.0, 0.5, None, 12.0, 86400.0))
    '12 in 1d'
    """
    amount, span_s = total_spent(spending)
    parts = [f"{money(amount)} in {format_duration(span_s)}", pace_in_words(spending)]
    return "; ".join(part for part in parts if part)


def total_spent(spending: Spending) -> tuple[float, float]:
    """Return what the run has cost and over how many seconds; those of the last period where only they are known."""
    if spending.run_spent is None:
        return spending.spent, spending.covered_s
    return spending.run_spent, spending.run_s


def pace_in_words(spending: Spending) -> str:
    """Describe the cost of the last period, or its projection while it is not over, and the limit."""
    period = "day" if spending.period_s == DAY_S else exact_duration(spending.period_s)
    parts = []
    is_only_period = spending.run_spent is not None and spending.run_s <= 1.001 * spending.period_s
    if spending.covered_s >= 0.999 * spending.period_s:
        if not is_only_period:
            parts.append(f"{money(spending.spent)} in the last {period}")
    elif spending.projected is not None:
        parts.append(f"{money(spending.projected)} per {period} at this pace")
    if spending.limit is not None:
        parts.append(f"the limit is {exact_number(spending.limit.amount)}")
    return ", ".join(parts)


def _percent(share: float) -> str:
    return f"{plain(100 * share)} %"


def money(amount: float) -> str:
    """
    >>> money(1234.5), money(12.0), money(0.0043)
    ('1,234.5', '12', '0.0043')
    """
    return f"{amount:,.2f}".rstrip("0").rstrip(".") if amount >= 1 else plain(amount)


@dataclass(frozen=True, slots=True)
class Difference:
    """Decisions in a row in which a shadow wanted more, or fewer, instances of an operator than were decided."""

    at_s: Instant
    last_s: Instant
    count: int
    verdict: Verdict
    """The shadow's last."""
    decided: int
    """What the acting policy decided then."""
    fewest: int
    most: int
    """The sizes that the shadow wanted in that time."""

    @property
    def wants_more(self) -> bool:
        return self.verdict.target > self.decided

    def to_json(self) -> dict[str, JSON]:
        return {
            "at_s": self.at_s,
            "last_s": self.last_s,
            "count": self.count,
            "operator": self.verdict.operator,
            "current": self.verdict.current,
            "decided": self.decided,
            "fewest": self.fewest,
            "most": self.most,
            "code": self.verdict.code,
            "reason": self.verdict.reason,
        }


@dataclass(slots=True)
class ShadowStory:
    """What one shadow would have done."""

    decisions: int = 0
    differed: int = 0
    """Decisions in which it wanted another size of some operator."""
    more: int = 0
    """Those of them in which it wanted more instances in all."""
    differences: list[Difference] = field(default_factory=list)

    def to_json(self) -> dict[str, JSON]:
        return {
            "decisions": self.decisions,
            "differed": self.differed,
            "more": self.more,
            "differences": [difference.to_json() for difference in self.differences],
        }


class Differences:
    """Compares what shadows decide with what was decided, tick by tick. It is a watcher of shadows.

    >>> def decided(at_s: float, policy: str, target: int, role: Role) -> Decision:
    ...     return Decision(at_s, policy, {"job": Verdict("job", 2, target, target, "need", "a reason")}, role)
    >>> differences = Differences()
    >>> for at_s, target in ((0.0, 2), (5.0, 4), (10.0, 5)):
    ...     differences.add(decided(at_s, "hpa", 2, Role.ACTING), [decided(at_s, "ds2", target, Role.SHADOW)])
    >>> story = differences.stories()["ds2"]
    >>> story.decisions, story.differed, [difference_in_words(difference) for difference in story.differences]
    (3, 2, ['wanted 4 to 5 where 2 was decided, for 5s: a reason'])
    """

    def __init__(self) -> None:
        self._stories: dict[str, ShadowStory] = {}
        self._open: dict[tuple[str, str], int] = {}
        """The place of the difference that still lasts in its story, by shadow and operator."""

    def __call__(self, decision: Decision, shadows: Sequence[Decision]) -> None:
        self.add(decision, shadows)

    def add(self, decision: Decision, shadows: Iterable[Decision]) -> None:
        """Take in what was decided at one time, and what each shadow would have."""
        for shadow in shadows:
            story = self._stories.setdefault(shadow.policy, ShadowStory())
            story.decisions += 1
            both = [
                (verdict, decision.verdicts[name])
                for name, verdict in shadow.verdicts.items()
                if name in decision.verdicts
            ]
            story.differed += any(verdict.target != acting.target for verdict, acting in both)
            story.more += sum(verdict.target - acting.target for verdict, acting in both) > 0
            for verdict, acting in both:
                self._follow(story, shadow, verdict, acting.target)

    def _follow(self, story: ShadowStory, shadow: Decision, verdict: Verdict, decided: int) -> None:
        key = (shadow.policy, verdict.operator)
        found = Difference(shadow.at_s, shadow.at_s, 1, verdict, decided, verdict.target, verdict.target)
        index = self._open.pop(key, None)
        if verdict.target == decided:
            return
        before = None if index is None else story.differences[index]
        if index is None or before is None or before.wants_more != found.wants_more:
            self._open[key] = len(story.differences)
            story.differences.append(found)
            return
        self._open[key] = index
        story.differences[index] = replace(
            found,
            at_s=before.at_s,
            count=before.count + 1,
            fewest=min(before.fewest, verdict.target),
            most=max(before.most, verdict.target),
        )

    def stories(self) -> dict[str, ShadowStory]:
        """By the shadow's name."""
        return self._stories


def shadow_stories(decisions: Iterable[Decision]) -> dict[str, ShadowStory]:
    """What the shadows of a run would have done, from all that was decided in it."""
    differences = Differences()
    for _, group in groupby(sorted(decisions, key=attrgetter("at_s")), key=attrgetter("at_s")):
        together = list(group)
        acting = next((decision for decision in together if decision.role is not Role.SHADOW), None)
        if acting is not None:
            differences.add(acting, [decision for decision in together if decision.role is Role.SHADOW])
    return differences.stories()


def story_in_words(name: str, story: ShadowStory) -> str:
    """
    >>> story_in_words("hpa", ShadowStory(200, 50, 40))
    'hpa would have decided otherwise in 50 of 200 decisions: more in 40, fewer in 10'
    """
    if not story.differed:
        return f"{name} would have decided the same in all of {story.decisions} decisions"
    text = f"{name} would have decided otherwise in {story.differed} of {story.decisions} decisions"
    return f"{text}: more in {story.more}, fewer in {story.differed - story.more}"


def difference_in_words(difference: Difference) -> str:
    """What a shadow wanted instead, for how long, and why."""
    wanted = f"{difference.fewest}"
    if difference.most != difference.fewest:
        wanted = f"{difference.fewest} to {difference.most}"
    lasting_s = difference.last_s - difference.at_s
    span = f", for {format_duration(lasting_s)}" if lasting_s > 0 else ""
    return f"wanted {wanted} where {difference.decided} was decided{span}: {difference.verdict.reason}"
