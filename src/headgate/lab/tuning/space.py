"""The search space of a policy, from what its settings declare: type, bounds, unit and default.

A number with two bounds is searched between them. One without is searched around its default, from an eighth to eight
times as much, on a logarithmic scale; so is a small one far below its upper bound. Texts, files and lists are left out
and reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.types import JSON
from headgate.core.units import exact_number, parse_duration_s
from headgate.policies.frame.base import GuardSettings, policy_class
from headgate.policies.frame.settings import Settings

Value: TypeAlias = bool | int | float | str
_DIGITS = 3
"""Significant digits of searched numbers: more would not be meaningful, and people read them."""


@dataclass(frozen=True, slots=True)
class SearchDimension:
    """A number between ``low`` and ``high``, or one of ``choices``.

    >>> wait = SearchDimension("hold_s", 300.0, 37.5, 2400.0, is_log=True)
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
        """Return the number of the range that is nearest, rounded to a few digits."""
        if self.is_whole:
            return round(min(self.high, max(self.low, number)))
        return min(self.high, max(self.low, float(f"{number:.{_DIGITS}g}")))

    def holds(self, value: Value | None) -> bool:
        """Return whether a value is in the range."""
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


AROUND = 8.0
"""A setting without bounds is searched from its default by this factor down and up."""
LONGEST_FROM_NOTHING_S = 300.0
"""A duration that is 0 by default is searched from 0 to here."""
GUARDS = "guards."
"""Stands before the name of a setting of the guards."""
_SMALL = 1 / 20
"""A default below this share of its upper bound is searched by factors."""
_NO_NUMBERS = {"string": "a text", "array": "a list", "object": "values by name"}
_HAIR = 1e-3
"""Distance from an exclusive bound, as a share of the range."""


@dataclass(frozen=True)
class Space:
    """The searched settings, those fixed by the user, and those left out, with the reason."""

    policy: str
    dimensions: tuple[SearchDimension, ...]
    fixed: Mapping[str, str]
    left_out: Mapping[str, str]

    def defaults(self) -> dict[str, Value]:
        """Return the defaults of the searched settings, without those that are off by default."""
        return {dimension.name: dimension.default for dimension in self.dimensions if dimension.default is not None}

    def holds_defaults(self) -> bool:
        return all(dimension.holds(dimension.default) for dimension in self.dimensions)

    def at(self, places: Sequence[float]) -> dict[str, Value]:
        """The settings at a point of the unit cube."""
        return {dimension.name: dimension.at(place) for dimension, place in zip(self.dimensions, places, strict=True)}

    def split(self, values: Mapping[str, Value]) -> tuple[dict[str, str], dict[str, str]]:
        """Settings of the policy and of the guards as text, with those that are fixed."""
        searched = {
            dimension.name: dimension.text(values[dimension.name])
            for dimension in self.dimensions
            if dimension.name in values
        }
        texts = {**self.fixed, **searched}
        guards = {name.removeprefix(GUARDS): text for name, text in texts.items() if name.startswith(GUARDS)}
        return {name: text for name, text in texts.items() if not name.startswith(GUARDS)}, guards

    def to_json(self) -> dict[str, JSON]:
        return {
            "policy": self.policy,
            "dimensions": [dimension.to_json() for dimension in self.dimensions],
            "fixed": dict(self.fixed),
            "left_out": dict(self.left_out),
        }


def search_space(
    policy: str,
    *,
    guards: bool = False,
    only: Sequence[str] = (),
    fix: Mapping[str, str] | None = None,
    ranges: Mapping[str, str] | None = None,
) -> Space:
    """The space of a policy, with its guards if wanted; names of those begin with ``guards.``.

    - ``only``: search these alone, all others keep their defaults
    - ``fix``: fixed values; ``ranges``: ``LOW..HIGH`` instead of what would be searched
    """
    fix, ranges = fix or {}, ranges or {}
    named = {*only, *ranges}
    wanted = _wanted(policy, guards, named, fix)
    found, left_out = [], {}
    for name, part in wanted.items():
        if name in fix or (only and name not in named):
            continue
        made = _with_range(name, part, ranges[name]) if name in ranges else _dimension(name, part)
        if isinstance(made, SearchDimension):
            found.append(made)
        elif name in only:
            raise InputError(f"{name} of {policy} cannot be searched: it is {made}.")
        else:
            left_out[name] = made
    if not found:
        reasons = ", ".join(left_out) or "it has none"
        raise InputError(f"{policy} has no setting that can be searched ({reasons}); try --guards, or --range.")
    return Space(policy, tuple(found), dict(fix), left_out)


def _wanted(policy: str, guards: bool, named: set[str], fix: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the schema of each setting that may be searched; unknown names from the user are errors."""
    kind = policy_class(policy)
    parts = _parts(kind.Settings, {})
    in_force = kind.guards.model_dump(mode="json")
    of_guards = {GUARDS + name: part for name, part in _parts(GuardSettings, in_force).items()}
    for name in sorted({*named, *fix}):
        if name not in parts and name not in of_guards:
            raise UnknownNameError(f"setting of {policy}", name, [*parts, *of_guards])
        if name in named and name in fix:
            raise InputError(f"{name} is both fixed and searched; one of --fix, and --only or --range, is enough.")
    return parts | {name: part for name, part in of_guards.items() if guards or name in named}


def _parts(kind: type[Settings], defaults: Mapping[str, JSON]) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each setting, with its effective default."""
    schema = kind.model_json_schema()
    found: dict[str, dict[str, Any]] = {}
    for name, part in schema["properties"].items():
        whole = dict(part)
        options = [option for option in part.get("anyOf", []) if option.get("type") != "null"]
        if len(options) == 1:
            whole |= options[0]
        if "$ref" in whole:
            whole |= schema["$defs"][whole["$ref"].rsplit("/", 1)[-1]]
        found[name] = {**whole, "default": defaults.get(name, part.get("default"))}
    return found


def _dimension(name: str, part: Mapping[str, Any]) -> SearchDimension | str:
    """Return the dimension of a setting, or why it is not searched."""
    default = part["default"]
    if part.get("type") == "boolean":
        return SearchDimension(name, default, choices=(False, True))
    if options := part.get("enum"):
        return SearchDimension(name, default, choices=tuple(options))
    if part.get("type") not in ("number", "integer"):
        return _NO_NUMBERS.get(str(part.get("type")), "no number")
    if name.endswith("seed"):
        return "a seed"
    if default is None:
        return "off by default, so that there is nothing to search around; give --range"
    bounds = _bounds(name, part, float(default))
    if bounds is None:
        return f"{default:g} by default, which gives no scale; give --range"
    return _within(name, part, *bounds)


def _bounds(name: str, part: Mapping[str, Any], default: float) -> tuple[float, float, bool] | None:
    """Return the range, and whether it is logarithmic; ``None`` where the default gives no scale."""
    low, high = _end(part, "inimum", -math.inf), _end(part, "aximum", math.inf)
    if math.isfinite(low) and math.isfinite(high) and not (low >= 0 and 0 < default < _SMALL * high):
        hair = 0 if part.get("type") == "integer" else _HAIR * (high - low)
        low += min(hair, default - low) if "exclusiveMinimum" in part else 0
        high -= min(hair, high - default) if "exclusiveMaximum" in part else 0
        return low, high, False
    if default > 0:
        return max(low, default / AROUND), min(high, default * AROUND), True
    if default == 0 and low >= 0 and name.endswith("_s"):
        return low, min(high, LONGEST_FROM_NOTHING_S), False
    return None


def _end(part: Mapping[str, Any], word: str, otherwise: float) -> float:
    return float(part.get(f"m{word}", part.get(f"exclusiveM{word}", otherwise)))


def _within(name: str, part: Mapping[str, Any], low: float, high: float, is_log: bool) -> SearchDimension:
    if part.get("type") == "integer":
        low, high = max(1.0, math.floor(low)) if is_log else math.ceil(low), math.floor(high)
        return SearchDimension(name, part["default"], low, high, is_log=is_log, is_whole=True)
    return SearchDimension(name, part["default"], low, high, is_log=is_log)


def _with_range(name: str, part: Mapping[str, Any], text: str) -> SearchDimension:
    """Return the dimension of a range given by the user, logarithmic where it is wide."""
    wrong = InputError(f"--range {name}={text} is not understood; write {name}=LOW..HIGH with LOW below HIGH.")
    if part.get("type") not in ("number", "integer"):
        raise InputError(f"--range {name}={text} is of a setting that is no number.")
    low_text, dots, high_text = text.partition("..")
    try:
        low, high = _number(name, low_text), _number(name, high_text)
    except (InputError, ValueError) as error:
        raise wrong from error
    if not dots or not low < high < math.inf:
        raise wrong
    for value in (low, high):
        if not _is_allowed(part, value):
            raise InputError(f"--range {name}={text} goes beyond what the setting allows, with {value:g}.")
    made = _within(name, part, low, high, low > 0 and high / low > AROUND)
    return replace(made, low=float(low), high=float(high))


def _number(name: str, text: str) -> float:
    return parse_duration_s(text.strip()) if name.endswith("_s") else float(text)


def _is_allowed(part: Mapping[str, Any], value: float) -> bool:
    within = part.get("minimum", -math.inf) <= value <= part.get("maximum", math.inf)
    return bool(within and part.get("exclusiveMinimum", -math.inf) < value < part.get("exclusiveMaximum", math.inf))
