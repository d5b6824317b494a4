"""What decisions expected, and what came: a policy that foretells puts ``expected_NAME`` among its numbers.

Beside it stand ``expected_NAME_low`` and ``expected_NAME_high``, between which nine of ten answers are to lie, and
``expected_after_s``: how long after the decision. What came is in the observations that follow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.core.types import Decision, Instant, Number, Observation, Role, Verdict
from headgate.core.units import format_duration, plain

PREFIX = "expected_"
AFTER = "expected_after_s"
LATEST_S = 15.0
"""An observation that comes later than this after the moment that was foretold tells nothing of it."""
UNITS = {"latency_s": ("latency", " s"), "backlog": ("backlog", ""), "instances": ("instances", "")}


@dataclass(frozen=True, slots=True)
class Expectation:
    """One thing that was expected, and what came; ``None`` where that is not known (yet)."""

    name: str
    middle: float
    low: float
    high: float
    actual: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether what came lies within the interval; what was stated is rounded like what is compared."""
        return None if self.actual is None else self.low - 1e-6 <= self.actual <= self.high + 1e-6


def expectations(verdict: Verdict, at_s: Instant, observations: Sequence[Observation]) -> list[Expectation]:
    """What one verdict expected, with what came by the observations in their order."""
    numbers = verdict.numbers
    after_s = numbers.get(AFTER)
    if not isinstance(after_s, int | float):
        return []
    due = _due(observations, at_s + after_s)
    found = []
    for name in UNITS:
        middle, low, high = (numbers.get(f"{PREFIX}{name}{end}") for end in ("", "_low", "_high"))
        if isinstance(middle, int | float) and isinstance(low, int | float) and isinstance(high, int | float):
            found.append(Expectation(name, middle, low, high, _actual(name, verdict.operator, due)))
    return found


def coverage(decisions: Iterable[Decision], observations: Sequence[Observation]) -> dict[str, tuple[int, int]]:
    """Of each thing that was foretold how often that was answered, and how often within the interval."""
    counts: dict[str, tuple[int, int]] = {}
    for decision in decisions:
        if decision.role is Role.SHADOW:
            continue
        for verdict in decision.verdicts.values():
            for one in expectations(verdict, decision.at_s, observations):
                if one.is_met is not None:
                    answered, met = counts.get(one.name, (0, 0))
                    counts[one.name] = (answered + 1, met + one.is_met)
    return counts


def without_expectations(numbers: Mapping[str, Number]) -> dict[str, Number]:
    """The other numbers of a decision, for those who tell what was expected in words."""
    return {name: value for name, value in numbers.items() if not _is_told(name)}


def _is_told(name: str) -> bool:
    return name == AFTER or any(
        name in (f"{PREFIX}{one}", f"{PREFIX}{one}_low", f"{PREFIX}{one}_high") for one in UNITS
    )


def expectations_in_words(after_s: float, expected: Sequence[Expectation]) -> str:
    """
    >>> expectations_in_words(60.0, [Expectation("backlog", 120.0, 80.0, 200.0, 130.0)])
    'expected after 60s: backlog 120 (80 … 200), came 130'
    >>> expectations_in_words(60.0, [Expectation("latency_s", 3.0, 1.0, 5.0, 9.0)])
    'expected after 60s: latency 3 s (1 … 5), came 9 s, beyond that'
    """
    parts = []
    for one in expected:
        name, unit = UNITS[one.name]
        told = f"{name} {plain(one.middle)}{unit} ({plain(one.low)} … {plain(one.high)})"
        if one.actual is not None:
            told += f", came {plain(one.actual)}{unit}{'' if one.is_met else ', beyond that'}"
        parts.append(told)
    return f"expected after {format_duration(after_s)}: {'; '.join(parts)}"


def coverage_in_words(counts: Mapping[str, tuple[int, int]]) -> list[str]:
    """
    >>> coverage_in_words({"backlog": (200, 181)})
    ['What was expected came within the stated interval: backlog 90.5 % of 200 times (90 % is stated).']
    >>> coverage_in_words({})
    []
    """
    told = [
        f"{UNITS[name][0]} {100 * met / answered:.1f} % of {answered} times" for name, (answered, met) in counts.items()
    ]
    return [f"What was expected came within the stated interval: {', '.join(told)} (90 % is stated)."] if told else []


def _due(observations: Sequence[Observation], at_s: Instant) -> Observation | None:
    index = bisect_left(observations, at_s - 1e-6, key=lambda one: one.at_s)
    if index == len(observations) or observations[index].at_s > at_s + LATEST_S:
        return None
    return observations[index]


def _actual(name: str, operator: str, seen: Observation | None) -> float | None:
    if seen is None:
        return None
    if name == "instances":
        instances = seen.instances.get(operator)
        return None if instances is None else float(instances.planned)
    sample = seen.samples.get(operator)
    value = None if sample is None else getattr(sample, name)
    return None if value is None else float(value)
