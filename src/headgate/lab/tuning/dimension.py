"""One setting that is searched: its range or its choices, and how a place between 0 and 1 becomes a value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from headgate.core.types import JSON
from headgate.core.units import exact_number

Value: TypeAlias = bool | int | float | str
_DIGITS = 3
"""Of a number that was searched: nobody knows a setting better, and people have to read it."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A number between ``low`` and ``high``, or one of ``choices``.

    >>> wait = Dimension("hold_s", 300.0, 37.5, 2400.0, is_log=True)
    >>> wait.at(0.0), wait.at(0.5), wait.at(1.0), wait.text(wait.at(0.5))
    (37.5, 300.0, 2400.0, '300')
    """

    name: str
    default: Value | None
    """``None`` where the setting is off unless it is given a value."""
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    is_whole: bool = False
    choices: tuple[Value, ...] = ()

    def at(self, place: float) -> Value:
        """The value at a place from 0 to 1."""
        if self.choices:
            return self.choices[min(int(place * len(self.choices)), len(self.choices) - 1)]
        if self.is_log:
            found = math.exp(math.log(self.low) + place * (math.log(self.high) - math.log(self.low)))
        else:
            found = self.low + place * (self.high - self.low)
        return self.near(found)

    def near(self, number: float) -> Value:
        """A number in the range, as it is written down."""
        if self.is_whole:
            return round(min(self.high, max(self.low, number)))
        return min(self.high, max(self.low, float(f"{number:.{_DIGITS}g}")))

    def holds(self, value: Value | None) -> bool:
        """Whether a value can be found here."""
        if self.choices:
            return value in self.choices
        return isinstance(value, int | float) and self.low <= value <= self.high

    def text(self, value: Value) -> str:
        """As ``--set`` takes it."""
        if isinstance(value, bool):
            return "true" if value else "false"
        return exact_number(value) if isinstance(value, float) else str(value)

    def describe(self) -> str:
        if self.choices:
            return ", ".join(self.text(choice) for choice in self.choices)
        return f"{self.low:g} to {self.high:g}{', by factors' if self.is_log else ''}"

    def to_json(self) -> dict[str, JSON]:
        plain: dict[str, JSON] = {"name": self.name, "default": self.default}
        if self.choices:
            return {**plain, "choices": list(self.choices)}
        return {**plain, "low": self.low, "high": self.high, "log": self.is_log, "whole": self.is_whole}
