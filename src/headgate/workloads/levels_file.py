"""A load-variation file: lines of ``seconds, level``, each a level and how long it lasts, one after the other.

This is how load drivers take them (giannakopoulos, figure 12): ``10, 500`` and then ``20, 700`` is a level of 500 for
10 seconds and of 700 for the 20 after them. A level is so many clients; each makes ``rate`` records per second, 1 where
it is not said. Empty lines, and what stands behind a #, are not looked at.
"""

from __future__ import annotations

import math
from itertools import accumulate
from pathlib import Path

from headgate.core.errors import InputError, cause_of
from headgate.workloads.load_columns import LoadColumns
from headgate.workloads.numbers import plain, require_rate
from headgate.workloads.steps import Steps


def read_levels(path: str | Path, columns: LoadColumns | None = None, *, rate: float = 1.0) -> Steps:
    """The load in a file; whatever is wrong with it is said in one sentence with the file and the line."""
    require_rate("rate", rate)
    path, columns = Path(path), columns or LoadColumns()
    file_name = f"workload file {str(path)!r}"
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file_name} cannot be read: {cause_of(error)}.") from error
    found = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if text:
            found.append(_pair(f"{file_name} line {number}", text))
    if not found:
        raise InputError(f"{file_name} has no line of seconds, level; at least 1 is needed.")
    bounds_s = list(accumulate((seconds for seconds, _ in found), initial=0.0))
    notes = () if rate == 1 else (f"a level of 1 is {plain(rate)} records/s",)
    described = f"levels:{path}" + ("" if rate == 1 else f",rate={plain(rate)}")
    return columns.applied(Steps(bounds_s, [level * rate for _, level in found], described, notes=notes))


def _pair(place: str, text: str) -> tuple[float, float]:
    try:
        seconds, level = (float(part) for part in text.split(","))
    except ValueError:
        seconds = level = math.nan
    if not (0 < seconds < math.inf and 0 <= level < math.inf):
        raise InputError(f"{place} has {text!r}; seconds above 0 and a level that is not negative are needed: 10, 500.")
    return seconds, level
