"""Parser of workload specifications: a shape, a colon and its parameters; or several of them combined.

>>> parse_workload("constant:10").rate_per_s(0.0)
10.0
>>> parse_workload("constant:10 * 3 + ramp:from=0,to=60,over=1m | clip 0..50").rate_per_s(30.0)
50.0
>>> parse_workload("spike:base=10,peak=70,at=5m,width=300s").rate_per_s(400.0)
70.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.units import key_texts, parse_duration_s, parse_share
from headgate.workloads.clock_load import ClockLoad
from headgate.workloads.composed import DEFAULT_EVERY_S, Clipped, Noisy, Scaled, Shifted, Sum
from headgate.workloads.contract import Workload
from headgate.workloads.day_load import DayLoad
from headgate.workloads.load_files import KEYS, LoadColumns, read_csv, read_levels, read_parquet
from headgate.workloads.shapes import Constant, Gaussian, Periodic, Ramp, Shape, Sine, Spike
from headgate.workloads.traces import trace_load

OPERATORS = (" + ", " * ", " | ")
MODIFIERS = {
    "shift": "shift 2h",
    "clip": "clip 10..500",
    "noise": "noise 10% every 1m seed 3",
}
"""Modifiers, written after ``|``, with an example each."""


def is_expression(spec: str) -> bool:
    """Return whether a specification combines workloads."""
    return spec.startswith("(") or any(operator in spec for operator in OPERATORS)


def parse_expression(spec: str, simple: Callable[[str], Workload]) -> Workload:
    """Return a composed workload, such as ``trace:nasa * 3 + spike:base=0,peak=70,at=2h,width=5m | clip 0..500``.

    ``+`` adds loads and ``*`` multiplies one by a number; both need spaces around them, because file names may hold
    them. A modifier after ``|`` changes everything before it, and parentheses group. ``simple`` parses the parts.
    """
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


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"rate {text!r} is not a number; write for example 10 or 2.5.") from error


_SHAPES: Mapping[str, type[Shape]] = {shape.name: shape for shape in (Constant, Periodic, Sine, Gaussian, Ramp, Spike)}
_FILES = {"csv": "csv:PATH", "parquet": "parquet:PATH", "levels": "levels:PATH"}
_TRACE = "trace"
_TRACE_KEYS = {"peak": _rate, "from": parse_duration_s, "lasting": parse_duration_s}
_TRACE_EXAMPLE = "trace:wc98,peak=500,from=2h,lasting=10m"
_DAYS: Mapping[str, type[DayLoad]] = {kind.word: kind for kind in (DayLoad, ClockLoad)}
_DAY_KEYS = ("peak", "lasting", "seed")
_DAY_EXAMPLES = {"day": "day:waves,peak=500,lasting=8h", "clock": "clock:flush,peak=500,seed=3"}

WORKLOAD_EXAMPLES = (
    *(shape.example for shape in _SHAPES.values()),
    *_FILES.values(),
    _TRACE_EXAMPLE,
    *_DAY_EXAMPLES.values(),
)
"""An example of each shape, for help texts."""


def parse_workload(spec: str, folder: Path | None = None) -> Workload:
    """Parse a workload specification; ``folder`` holds the files it names, by default the current one."""
    return _parsed(spec, partial(_simple, folder=folder or Path()))


def workload_files(spec: str) -> list[str]:
    """Return the files that a specification names, unchanged.

    >>> workload_files("csv:load.csv * 3 + constant:10")
    ['load.csv']
    """
    found: list[str] = []

    def note(part: str) -> Workload:
        name, _, rest = (part.strip() for part in part.partition(":"))
        if name.lower() in _FILES:
            found.append(_file_parts(part, name.lower(), rest)[0])
        return Constant(1.0)

    _parsed(spec, note)
    return found


def _parsed(spec: str, simple: Callable[[str], Workload]) -> Workload:
    spec = spec.strip()
    return parse_expression(spec, simple) if is_expression(spec) else simple(spec)


def _simple(spec: str, folder: Path) -> Workload:
    name, colon, rest = (part.strip() for part in spec.partition(":"))
    name = name.lower()
    if name in _FILES:
        return _file(spec, name, rest, folder)
    if name == _TRACE:
        return _trace(spec, rest)
    if name in _DAYS:
        return _day(spec, name, rest)
    if name not in _SHAPES:
        raise UnknownNameError("workload", name, (*_SHAPES, *_FILES, _TRACE, *_DAYS))
    shape = _SHAPES[name]
    if not colon or not rest:
        raise InputError(f"workload {spec!r} says no more than its shape; write for example {shape.example}.")
    parsers = shape.parsers(_rate, parse_duration_s)
    values = key_texts("workload", spec, name, parsers, shape.example, rest)
    missing = [key for key in parsers if key not in values]
    if missing:
        raise InputError(f"workload {spec!r} lacks {', '.join(missing)}; write for example {shape.example}.")
    try:
        return shape(*(convert(values[key]) for key, convert in parsers.items()))
    except InputError as error:
        raise InputError(f"workload {spec!r} is not usable: {error}") from error


def _file_parts(spec: str, kind: str, rest: str) -> tuple[str, dict[str, str]]:
    """Split a file specification into its name and its parameters."""
    parts, given = rest.split(","), dict[str, str]()
    # File names may contain commas, too.
    while len(parts) > 1 and parts[-1].partition("=")[0].strip() in KEYS and "=" in parts[-1]:
        key, _, value = (piece.strip() for piece in parts.pop().partition("="))
        if key in given:
            raise InputError(f"workload {spec!r} gives {key} twice; once is allowed.")
        given[key] = value
    path = ",".join(parts).strip()
    if not path:
        raise InputError(f"workload {spec!r} names no file; write {_FILES[kind]}.")
    return path, given


def _file(spec: str, kind: str, rest: str, folder: Path) -> Workload:
    name, given = _file_parts(spec, kind, rest)
    path = folder / name
    try:
        if kind != "levels":
            return (read_csv if kind == "csv" else read_parquet)(path, LoadColumns.from_text(given))
        if wrong := given.keys() - {"rate", "scale", "step"}:
            raise UnknownNameError("key of workload levels", min(wrong), ("rate", "scale", "step"))
        rate = _rate(given.pop("rate", "1"))
        return read_levels(path, LoadColumns.from_text(given), rate=rate)
    except UnknownNameError:
        raise
    except InputError as error:
        if "workload file" in str(error):
            raise
        raise InputError(f"workload {spec!r} is not usable: {error}") from error


def _trace(spec: str, rest: str) -> Workload:
    """Parse a public trace with optional parameters."""
    trace, _, parameters = (part.strip() for part in rest.partition(","))
    if not trace:
        raise InputError(f"workload {spec!r} names no trace; write for example {_TRACE_EXAMPLE}.")
    values = key_texts("workload", spec, _TRACE, _TRACE_KEYS, _TRACE_EXAMPLE, parameters) if parameters else {}
    given = {key: convert(values[key]) for key, convert in _TRACE_KEYS.items() if key in values}
    return trace_load(trace, peak=given.get("peak"), from_s=given.get("from", 0.0), lasting_s=given.get("lasting"))


def _day(spec: str, kind: str, rest: str) -> Workload:
    """Parse a named load that is scaled to a peak."""
    example = _DAY_EXAMPLES[kind]
    load, _, parameters = (part.strip() for part in rest.partition(","))
    if not load:
        raise InputError(f"workload {spec!r} names no load; write for example {example}.")
    values = key_texts("workload", spec, kind, _DAY_KEYS, example, parameters) if parameters else {}
    if "peak" not in values:
        raise InputError(f"workload {spec!r} lacks peak; write for example {example}.")
    lasting_s = parse_duration_s(values["lasting"]) if "lasting" in values else None
    seed = values.get("seed", "0")
    if not seed.isdigit():
        raise InputError(f"workload {spec!r} has the seed {seed!r}; a whole number that is not negative is needed.")
    return _DAYS[kind](load, _rate(values["peak"]), lasting_s=lasting_s, seed=int(seed))
