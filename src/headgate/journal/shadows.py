"""Where shadow policies would have decided otherwise, told from what all of them decided.

>>> def decided(at_s: float, policy: str, target: int, role: Role) -> Decision:
...     return Decision(at_s, policy, {"job": Verdict("job", 2, target, target, "need", "a reason")}, role)
>>> differences = Differences()
>>> for at_s, target in ((0.0, 2), (5.0, 4), (10.0, 5)):
...     differences.add(decided(at_s, "hpa", 2, Role.ACTING), [decided(at_s, "ds2", target, Role.SHADOW)])
>>> told = differences.told()["ds2"]
>>> told.decisions, told.differed, [difference_in_words(one) for one in told.differences]
(3, 2, ['wanted 4 to 5 where 2 was decided, for 5s: a reason'])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from headgate.core.types import JSON, Decision, Instant, Role, Verdict
from headgate.core.units import format_duration


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
            "differences": [one.to_json() for one in self.differences],
        }


class Differences:
    """Compares what shadows decide with what was decided, tick by tick. It is a watcher of shadows."""

    def __init__(self) -> None:
        self._told: dict[str, ShadowStory] = {}
        self._open: dict[tuple[str, str], int] = {}
        """Where the difference that goes on lies in its story, by shadow and operator."""

    def __call__(self, decision: Decision, shadows: Sequence[Decision]) -> None:
        self.add(decision, shadows)

    def add(self, decision: Decision, shadows: Iterable[Decision]) -> None:
        """Take in what was decided at one time, and what each shadow would have."""
        for shadow in shadows:
            story = self._told.setdefault(shadow.policy, ShadowStory())
            story.decisions += 1
            both = [
                (one, decision.verdicts[name]) for name, one in shadow.verdicts.items() if name in decision.verdicts
            ]
            story.differed += any(one.target != acting.target for one, acting in both)
            story.more += sum(one.target - acting.target for one, acting in both) > 0
            for one, acting in both:
                self._follow(story, shadow, one, acting.target)

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

    def told(self) -> dict[str, ShadowStory]:
        """By the shadow's name."""
        return self._told


def shadow_stories(decisions: Iterable[Decision]) -> dict[str, ShadowStory]:
    """What the shadows of a run would have done, from all that was decided in it."""
    differences = Differences()
    for _, group in groupby(sorted(decisions, key=lambda one: one.at_s), key=lambda one: one.at_s):
        together = list(group)
        acting = next((one for one in together if one.role is not Role.SHADOW), None)
        if acting is not None:
            differences.add(acting, [one for one in together if one.role is Role.SHADOW])
    return differences.told()


def story_in_words(name: str, story: ShadowStory) -> str:
    """
    >>> story_in_words("hpa", ShadowStory(200, 50, 40))
    'hpa would have decided otherwise in 50 of 200 decisions: more in 40, fewer in 10'
    """
    if not story.differed:
        return f"{name} would have decided the same in all of {story.decisions} decisions"
    told = f"{name} would have decided otherwise in {story.differed} of {story.decisions} decisions"
    return f"{told}: more in {story.more}, fewer in {story.differed - story.more}"


def difference_in_words(difference: Difference) -> str:
    """What a shadow wanted instead, for how long, and why."""
    wanted = f"{difference.fewest}"
    if difference.most != difference.fewest:
        wanted = f"{difference.fewest} to {difference.most}"
    lasting_s = difference.last_s - difference.at_s
    span = f", for {format_duration(lasting_s)}" if lasting_s > 0 else ""
    return f"wanted {wanted} where {difference.decided} was decided{span}: {difference.verdict.reason}"
