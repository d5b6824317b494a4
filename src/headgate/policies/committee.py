"""committee: several policies look at the same job, and what they want is combined (azimi Alg. 1 and §6.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from pydantic import model_validator

from headgate.core.errors import InputError
from headgate.core.types import JSON, Instances, Instant, Number, Proposal, Target
from headgate.core.window import Window
from headgate.policies.frame.base import (
    AnyPolicy,
    Context,
    PolicyBase,
    StateTable,
    hold,
    make_policy,
    policy_class,
    register,
)
from headgate.policies.frame.settings import Settings

NAME = "committee"
ABSTAINS = "no-data"
"""The code of a member that has nothing to go by."""


class Combination(StrEnum):
    """How the sizes that members want become one."""

    LARGEST = "largest"
    MEDIAN = "median"
    MAJORITY = "majority"
    WEIGHTS = "weights"


def _pairs(text: str) -> dict[str, str]:
    """``a=1, b=2`` as a mapping."""
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    for key, equals, _ in parts:
        if not (key.strip() and equals):
            raise ValueError(f"{text!r} is not understood; write for example hpa=2, reactive=1")
    return {key.strip(): value.strip() for key, _, value in parts}


class CommitteeSettings(Settings):
    members: str = "reactive, hpa, threshold"
    """The policies, by name. ``fast=threshold`` calls one by a name of its own, so that a policy can be in it twice."""
    combine: Combination = Combination.LARGEST
    """``largest`` or ``median`` of the sizes that members want; ``majority`` of those that want to grow, to stay or to
    shrink, none of which means to stay; or their mean by ``weights``."""
    weights: str = ""
    """How much members count, for example ``reactive=2, hpa=0.5``; 1 where nothing is said."""
    member_settings: str = ""
    """Settings of members, for example ``hpa.target=0.6, threshold.upper=0.9``."""

    @model_validator(mode="after")
    def _known_members(self) -> Self:
        seats = self.seats()
        if not seats:
            raise ValueError("members names no policy")
        weights = self.weight_of()
        if self.combine is Combination.WEIGHTS and not any(weights.values()):
            raise ValueError("weights are all 0")
        for key in _pairs(self.member_settings):
            member, _, setting = key.partition(".")
            if member not in seats or not setting:
                raise ValueError(f"member_settings names {key!r}; write MEMBER.SETTING of a member: {', '.join(seats)}")
        return self

    def weight_of(self) -> dict[str, float]:
        """How much each member counts."""
        weights = dict.fromkeys(self.seats(), 1.0)
        for name, text in _pairs(self.weights).items():
            if name not in weights:
                raise ValueError(f"weights names {name!r}, which is not a member: {', '.join(weights)}")
            weights[name] = float(text)
            if not 0 <= weights[name] < math.inf:
                raise ValueError(f"weight {text} of {name} must be finite and not negative")
        return weights

    def settings_of(self, member: str) -> dict[str, str]:
        """What is set for one member."""
        given = {tuple(key.split(".", 1)): value for key, value in _pairs(self.member_settings).items()}
        return {setting: value for (owner, setting), value in given.items() if owner == member}

    def seats(self) -> dict[str, str]:
        """The policy behind each member's name."""
        seats: dict[str, str] = {}
        for part in self.members.split(","):
            name, _, policy = (word.strip() for word in part.partition("="))
            if not name:
                continue
            if name in seats:
                raise ValueError(f"members names {name!r} twice; call one of them otherwise: other={policy or name}")
            seats[name] = policy or name
        return seats


@dataclass(frozen=True, slots=True)
class MemberTarget:
    """What one member wants for one operator."""

    member: str
    target: Target
    weight: float


@register
class Committee(PolicyBase[CommitteeSettings]):
    """Asks its members in turn and combines the sizes they want; the decision names who wanted what.

    A member without data abstains. Ties and fractions are resolved towards the larger size. Guards stand around the
    committee, not around its members.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> reading = Sample("job", 0, utilization=0.98)
    >>> target = last_target("committee", "latency < 10s", 5, reading, members="static, hpa")
    >>> target.instances, target.reason
    (7, 'static wants 5 (static), hpa wants 7 (above-target): the largest is 7')
    """

    name = NAME
    summary = "Several policies at once: the largest, the median, a majority or a weighted mean of what they want."
    Settings = CommitteeSettings

    def __init__(self, settings: CommitteeSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._weights = settings.weight_of()
        self._members: dict[str, AnyPolicy] = {}
        for index, (name, policy) in enumerate(settings.seats().items()):
            if policy == NAME:
                raise InputError(f"member {name!r} of a committee is a committee; name the policies themselves.")
            policy_class(policy)  # A misspelt name is answered before its settings are looked at.
            own = Context(context.objective, context.topology, context.seed + index)
            self._members[name] = make_policy(policy, own, settings.settings_of(name))
        self.subscriptions = frozenset().union(*(member.subscriptions for member in self._members.values()))
        self.lookback_s = max(member.lookback_s for member in self._members.values())

    def decide(self, now: Instant, window: Window) -> Proposal:
        # Every member decides, whatever the others propose: members that learn have to see every window.
        proposals = {name: member.decide(now, window).targets for name, member in self._members.items()}
        targets = {}
        for operator in window.operators:
            instances = window.instances(operator)
            if instances is None:
                continue
            wishes = [
                MemberTarget(name, wanted[operator], self._weights[name])
                for name, wanted in proposals.items()
                if operator in wanted
            ]
            targets[operator] = self._combined(instances, wishes)
        return Proposal(targets)

    def _combined(self, instances: Instances, wishes: Sequence[MemberTarget]) -> Target:
        numbers: dict[str, Number] = {wish.member: wish.target.instances for wish in wishes}
        voters = [wish for wish in wishes if wish.target.code != ABSTAINS]
        if not voters:
            return hold(instances, ABSTAINS, "no member of the committee has data to go by: holding", numbers)
        reason = ", ".join(
            f"{wish.member} wants {wish.target.instances} ({wish.target.code})"
            if wish in voters
            else f"{wish.member} abstains"
            for wish in wishes
        )
        size, how = _COMBINED[self.settings.combine](instances.planned, voters)
        code = (
            "agreed-on-none"
            if size == instances.planned
            else f"agreed-on-{'out' if size > instances.planned else 'in'}"
        )
        return Target(size, code, f"{reason}: {how}", numbers)

    def _state(self) -> dict[str, JSON]:
        return {"members": {name: dict(member.snapshot()) for name, member in self._members.items()}}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        saved = state["members"]
        if set(saved) != set(self._members):
            raise ValueError(f"it has the members {', '.join(saved)} instead of {', '.join(self._members)}")
        for name, member in self._members.items():
            member.restore(saved[name])

    @classmethod
    def state_tables(cls, state: Mapping[str, JSON]) -> list[StateTable]:
        """The tables of its members, each with the member's name before it."""
        return [
            replace(table, title=f"{name}: {table.title}")
            for name, saved in state["members"].items()
            for table in policy_class(saved["policy"]).state_tables(saved)
        ]


def _largest(planned: int, voters: Sequence[MemberTarget]) -> tuple[int, str]:
    size = max(wish.target.instances for wish in voters)
    return size, f"the largest is {size}"


def _median(planned: int, voters: Sequence[MemberTarget]) -> tuple[int, str]:
    sizes = sorted(wish.target.instances for wish in voters)
    size = sizes[len(sizes) // 2]
    return size, f"the median is {size}"


def _majority(planned: int, voters: Sequence[MemberTarget]) -> tuple[int, str]:
    """The median of those that want the same direction, if they are more than half."""
    for direction, word in ((1, "grow"), (-1, "shrink")):
        agreeing = [wish for wish in voters if (wish.target.instances - planned) * direction > 0]
        if 2 * len(agreeing) > len(voters):
            size, _ = _median(planned, agreeing)
            return size, f"{len(agreeing)} of {len(voters)} want to {word}, to {size}"
    return planned, f"no majority of {len(voters)} to change the size, so {planned}"


def _weighted(planned: int, voters: Sequence[MemberTarget]) -> tuple[int, str]:
    total = sum(wish.weight for wish in voters)
    if total == 0:
        return planned, f"those that count abstain, so {planned}"
    mean = sum(wish.weight * wish.target.instances for wish in voters) / total
    # Sums of weights are not exact in binary: a mean of exactly 4 must not become 5.
    size = math.ceil(round(mean, 9))
    return size, f"the weighted mean is {mean:.2f}, so {size}"


_COMBINED: Mapping[Combination, Callable[[int, Sequence[MemberTarget]], tuple[int, str]]] = {
    Combination.LARGEST: _largest,
    Combination.MEDIAN: _median,
    Combination.MAJORITY: _majority,
    Combination.WEIGHTS: _weighted,
}
