"""Workloads put together as text: ``trace:nasa * 3 + spike:base=0,peak=70,at=2h,width=5m | clip 0..500 | noise 10%``.

``+`` adds loads and ``*`` multiplies one by a number, with spaces around them, as file names may hold either. What
stands behind a ``|`` changes all that stands before it; parentheses group.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.units import parse_duration_s, parse_share
from headgate.workloads.composed import DEFAULT_EVERY_S, Clipped, Noisy, Scaled, Shifted, Sum
from headgate.workloads.contract import Workload

OPERATORS = (" + ", " * ", " | ")
MODIFIERS = {
    "shift": "shift 2h",
    "clip": "clip 10..500",
    "noise": "noise 10% every 1m seed 3",
}
"""What may stand behind a ``|``, with an example."""


def is_expression(spec: str) -> bool:
    """Whether a text is more than one workload's own."""
    return spec.startswith("(") or any(operator in spec for operator in OPERATORS)


def parse_expression(spec: str, simple: Callable[[str], Workload]) -> Workload:
    """A workload that is put together; ``simple`` makes those that it is made of."""
    first, *modifiers = _split(spec, spec, " | ")
    made = _sum(spec, first, simple)
    for modifier in modifiers:
        made = _modified(spec, made, modifier.strip())
    return made


def _sum(spec: str, text: str, simple: Callable[[str], Workload]) -> Workload:
    parts = [_product(spec, part, simple) for part in _split(spec, text, " + ")]
    return parts[0] if len(parts) == 1 else Sum(tuple(parts))


def _product(spec: str, text: str, simple: Callable[[str], Workload]) -> Workload:
    found: Workload | None = None
    factor, is_scaled = 1.0, False
    for part in (part.strip() for part in _split(spec, text, " * ")):
        try:
            factor, is_scaled = factor * float(part), True
            continue
        except ValueError:
            pass
        if found is not None:
            raise InputError(f"workload {spec!r} multiplies two loads; a load can be multiplied by numbers only.")
        is_group = part.startswith("(") and part.endswith(")")
        found = parse_expression(part[1:-1].strip(), simple) if is_group else simple(part)
    if found is None:
        raise InputError(f"workload {spec!r} has {text.strip()!r}, which is no load; write for example constant:10.")
    return Scaled(found, factor) if is_scaled else found


def _modified(spec: str, load: Workload, modifier: str) -> Workload:
    word, *rest = modifier.split()
    if word not in MODIFIERS:
        raise UnknownNameError("change of a workload", word, MODIFIERS)
    wrong = InputError(f"workload {spec!r} has {modifier!r}; write for example {MODIFIERS[word]}.")
    match word, rest:
        case "shift", [by]:
            return Shifted(load, -parse_duration_s(by[1:]) if by.startswith("-") else parse_duration_s(by))
        case "clip", [between] if ".." in between:
            low, _, high = between.partition("..")
            try:
                return Clipped(load, float(low or 0.0), float(high or "inf"))
            except ValueError as error:
                raise wrong from error
        case "noise", [share, *others] if len(others) % 2 == 0:
            given = dict(zip(others[::2], others[1::2], strict=True))
            if len(given) * 2 != len(others) or not given.keys() <= {"every", "seed"}:
                raise wrong
            every_s, seed = parse_duration_s(given.get("every", DEFAULT_EVERY_S)), given.get("seed", "0")
            if not seed.isdigit():
                raise wrong
            return Noisy(load, parse_share(share), every_s, int(seed))
    raise wrong


def _split(spec: str, text: str, operator: str) -> list[str]:
    """The parts between operators that stand outside of all parentheses."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        before, after = text[:place].rstrip(), text[place + 1 : place + 2] or " "
        # One within a word, or between two, is part of a file's name.
        if letter == "(" and (before == "" or before.endswith(("(", " +", " *", " |"))):
            depth += 1
        elif letter == ")" and after in " )" and depth:
            depth -= 1
        elif depth == 0 and text.startswith(operator, place):
            parts.append(text[begin:place])
            begin = place + len(operator)
    if depth:
        raise InputError(f"workload {spec!r} has a parenthesis that is not closed.")
    parts.append(text[begin:])
    if not all(part.strip() for part in parts):
        raise InputError(f"workload {spec!r} has nothing on one side of '{operator.strip()}'.")
    return parts
