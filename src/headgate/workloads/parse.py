"""Workloads as people write them: a shape, a colon, and what the shape needs; or several of them put together.

>>> parse_workload("constant:10").rate_per_s(0.0)
10.0
>>> parse_workload("constant:10 * 3 + ramp:from=0,to=60,over=1m | clip 0..50").rate_per_s(30.0)
50.0
>>> parse_workload("spike:base=10,peak=70,at=5m,width=300s").rate_per_s(400.0)
70.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.units import key_texts, parse_duration_s
from headgate.workloads.contract import Workload
from headgate.workloads.csv_file import read_csv
from headgate.workloads.day_load import DayLoad
from headgate.workloads.expression import is_expression, parse_expression
from headgate.workloads.levels_file import read_levels
from headgate.workloads.load_columns import KEYS, LoadColumns
from headgate.workloads.parquet_file import read_parquet
from headgate.workloads.shapes import Constant, Gaussian, Periodic, Ramp, Sine, Spike
from headgate.workloads.trace_load import trace_load


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"rate {text!r} is not a number; write for example 10 or 2.5.") from error


@dataclass(frozen=True, slots=True)
class _Shape:
    """One shape: how it is made, the key of each argument in order, and an example."""

    make: Callable[..., Workload]
    keys: Mapping[str, Callable[[str], float]]
    example: str


_SHAPES = {
    "constant": _Shape(Constant, {"rate": _rate}, "constant:10"),
    "periodic": _Shape(
        Periodic,
        {"base": _rate, "peak": _rate, "high": parse_duration_s, "low": parse_duration_s},
        "periodic:base=10,peak=20,high=20s,low=40s",
    ),
    "sine": _Shape(
        Sine, {"mean": _rate, "amplitude": _rate, "period": parse_duration_s}, "sine:mean=50,amplitude=30,period=1h"
    ),
    "gaussian": _Shape(
        Gaussian,
        {"base": _rate, "peak": _rate, "center": parse_duration_s, "sigma": parse_duration_s},
        "gaussian:base=0,peak=100,center=30m,sigma=8m",
    ),
    "ramp": _Shape(Ramp, {"from": _rate, "to": _rate, "over": parse_duration_s}, "ramp:from=10,to=100,over=10m"),
    "spike": _Shape(
        Spike,
        {"base": _rate, "peak": _rate, "at": parse_duration_s, "width": parse_duration_s},
        "spike:base=10,peak=70,at=300s,width=300s",
    ),
}
_FILES = {"csv": "csv:PATH", "parquet": "parquet:PATH", "levels": "levels:PATH"}
_TRACE = "trace"
_TRACE_KEYS = {"peak": _rate, "from": parse_duration_s, "lasting": parse_duration_s}
_TRACE_EXAMPLE = "trace:wc98,peak=500,from=2h,lasting=10m"
_DAY = "day"
_DAY_KEYS = ("peak", "lasting", "seed")
_DAY_EXAMPLE = "day:waves,peak=500,lasting=8h"

WORKLOAD_EXAMPLES = (*(shape.example for shape in _SHAPES.values()), *_FILES.values(), _TRACE_EXAMPLE, _DAY_EXAMPLE)
"""One specification of each shape, for help texts."""


def parse_workload(spec: str, folder: Path | None = None) -> Workload:
    """A workload from its specification, or one sentence that says what is wrong with it.

    ``folder`` is where the files that it names are looked for; the present one where not given.
    """
    return _parsed(spec, partial(_simple, folder=folder or Path()))


def workload_files(spec: str) -> list[str]:
    """The files that a specification names, as it names them.

    >>> workload_files("csv:load.csv * 3 + constant:10")
    ['load.csv']
    """
    found: list[str] = []

    def note(one: str) -> Workload:
        name, _, rest = (part.strip() for part in one.partition(":"))
        if name.lower() in _FILES:
            found.append(_file_parts(one, name.lower(), rest)[0])
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
    if name == _DAY:
        return _day(spec, rest)
    if name not in _SHAPES:
        raise UnknownNameError("workload", name, (*_SHAPES, *_FILES, _TRACE, _DAY))
    shape = _SHAPES[name]
    if not colon or not rest:
        raise InputError(f"workload {spec!r} says no more than its shape; write for example {shape.example}.")
    values = key_texts("workload", spec, name, shape.keys, shape.example, rest)
    missing = [key for key in shape.keys if key not in values]
    if missing:
        raise InputError(f"workload {spec!r} lacks {', '.join(missing)}; write for example {shape.example}.")
    try:
        return shape.make(*(convert(values[key]) for key, convert in shape.keys.items()))
    except InputError as error:
        raise InputError(f"workload {spec!r} is not usable: {error}") from error


def _file_parts(spec: str, kind: str, rest: str) -> tuple[str, dict[str, str]]:
    """The name of a user's file, and what is said of it behind that."""
    parts, given = rest.split(","), dict[str, str]()
    # A file's name may have commas, too.
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
    """A public trace by its name; all else that is said of it may be left out."""
    trace, _, further = (part.strip() for part in rest.partition(","))
    if not trace:
        raise InputError(f"workload {spec!r} names no trace; write for example {_TRACE_EXAMPLE}.")
    values = key_texts("workload", spec, _TRACE, _TRACE_KEYS, _TRACE_EXAMPLE, further) if further else {}
    given = {key: convert(values[key]) for key, convert in _TRACE_KEYS.items() if key in values}
    return trace_load(trace, peak=given.get("peak"), from_s=given.get("from", 0.0), lasting_s=given.get("lasting"))


def _day(spec: str, rest: str) -> Workload:
    """A day of a load by its name, scaled to a peak."""
    load, _, further = (part.strip() for part in rest.partition(","))
    if not load:
        raise InputError(f"workload {spec!r} names no load; write for example {_DAY_EXAMPLE}.")
    values = key_texts("workload", spec, _DAY, _DAY_KEYS, _DAY_EXAMPLE, further) if further else {}
    if "peak" not in values:
        raise InputError(f"workload {spec!r} lacks peak; write for example {_DAY_EXAMPLE}.")
    lasting_s = parse_duration_s(values["lasting"]) if "lasting" in values else None
    seed = values.get("seed", "0")
    if not seed.isdigit():
        raise InputError(f"workload {spec!r} has the seed {seed!r}; a whole number that is not negative is needed.")
    return DayLoad(load, _rate(values["peak"]), lasting_s=lasting_s, seed=int(seed))
