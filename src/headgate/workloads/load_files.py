"""Recorded loads from files: CSV, Parquet and levels with their durations."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import IO
from zoneinfo import ZoneInfo

from headgate.core.errors import InputError, cause_of
from headgate.core.extras import needing
from headgate.core.units import parse_duration_s
from headgate.workloads.recorded_rows import RecordedRow, Timestamps, find_zone, steps_of
from headgate.workloads.shapes import plain, require_rate
from headgate.workloads.steps import Steps

_TIMES = ("timestamp",)
_COUNTS = ("count", "value")
_RATES = ("rate",)
KEYS = ("time", "count", "rate", "zone", "repair", "gaps", "scale", "step")


@dataclass(frozen=True)
class LoadColumns:
    """How a file is read.

    >>> LoadColumns.from_text({"time": "ts", "count": "n", "repair": "yes"}).found_in("it", ["ts", "n"])
    ('ts', 'n', True)
    """

    time: str | None = None
    count: str | None = None
    rate: str | None = None
    zone: ZoneInfo | None = None
    repair: bool = False
    fill_gaps: bool = False
    scale: float = 1.0
    step_s: float | None = None

    @classmethod
    def from_text(cls, given: Mapping[str, str]) -> LoadColumns:
        if "count" in given and "rate" in given:
            raise InputError(f"count={given['count']} and rate={given['rate']} do not go together; one is the amount.")
        repair = given.get("repair", "no").lower()
        if repair not in ("yes", "no"):
            raise InputError(f"repair={given['repair']} is not allowed; yes or no is.")
        gaps = given.get("gaps", "empty").lower()
        if gaps not in ("empty", "fill"):
            raise InputError(f"gaps={given['gaps']} is not allowed; empty or fill is.")
        named = {key: given[key].strip().lower() for key in ("time", "count", "rate") if key in given}
        return cls(
            **named,
            zone=find_zone(given["zone"]) if "zone" in given else None,
            repair=repair == "yes",
            fill_gaps=gaps == "fill",
            scale=parse_scale(given.get("scale", "1")),
            step_s=parse_duration_s(given["step"]) if "step" in given else None,
        )

    def found_in(self, file: str, names: Sequence[str]) -> tuple[str, str, bool]:
        """The column of the time, that of the amount, and whether the amount is a count."""
        times = [name for name in ((self.time,) if self.time else _TIMES) if name in names]
        if self.count or self.rate:
            amounts = [name for name in (self.count, self.rate) if name in names]
        else:
            amounts = [name for name in (*_COUNTS, *_RATES) if name in names]
        if len(times) != 1 or len(amounts) != 1:
            named = self.count or self.rate
            needed = f"{named!r}" if named else "one of 'count', 'value' or 'rate'"
            # A quotation mark that is never closed makes one name of all lines.
            listed = ", ".join(name if name.isprintable() else repr(name) for name in names)
            apart = len(names) == 1 and any(sign in names[0] for sign in ";\t|")
            raise InputError(
                f"{file} has the columns {listed or '(none)'}; "
                f"{(self.time or _TIMES[0])!r} and {needed} are needed"
                + (", with a comma between columns." if apart else ".")
                + ("" if self.time or named else " time=NAME and count=NAME or rate=NAME choose others.")
            )
        amount = amounts[0] or ""
        for name in (times[0], amount):
            if names.count(name) > 1:
                raise InputError(f"{file} has the column {name!r} {names.count(name)} times; once is allowed.")
        return times[0], amount, bool(self.count) or (not self.rate and amount in _COUNTS)

    def load(
        self,
        file: str,
        rows: Sequence[RecordedRow],
        timestamps: Timestamps,
        *,
        is_count: bool,
        any_order: bool,
        described: str,
    ) -> Steps:
        """Return the load of a file's rows; ``any_order`` where the rows have no order of their own."""
        steps = steps_of(
            file,
            rows,
            is_count=is_count,
            repair=self.repair,
            fill_gaps=self.fill_gaps,
            any_order=any_order,
            described=described,
        )
        return self.applied(steps, timestamps.second_times)

    def applied(self, steps: Steps, second_times: int = 0) -> Steps:
        """Return a load resampled and scaled, with notes on both."""
        notes, options = list(steps.notes), self._options()
        if second_times:
            notes.append(f"{second_times} timestamps taken for the second of an hour that the clocks had twice")
        if self.step_s is not None:
            notes.append(f"resampled to steps of {plain(self.step_s)} s, from {_steps(steps)}")
        steps = steps if self.step_s is None else steps.resampled(self.step_s)
        if self.scale != 1:
            notes.append(f"multiplied by {plain(self.scale)}")
        steps = steps if self.scale == 1 else steps.scaled(self.scale)
        return steps.described_as(",".join((steps.describe(), *options)), tuple(notes))

    def _options(self) -> list[str]:
        found = [f"{key}={getattr(self, key)}" for key in ("time", "count", "rate") if getattr(self, key) is not None]
        found += [f"zone={self.zone.key}"] if self.zone is not None else []
        found += ["repair=yes"] if self.repair else []
        found += ["gaps=fill"] if self.fill_gaps else []
        found += [f"step={plain(self.step_s)}s"] if self.step_s is not None else []
        return found + ([f"scale={plain(self.scale)}"] if self.scale != 1 else [])


def parse_scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError as error:
        raise InputError(f"scale {text!r} is not a number; write for example 2 or 0.5.") from error
    require_rate("scale", scale)
    return scale


def _steps(steps: Steps) -> str:
    return f"{len(steps)} of {plain(round(steps.end_s / len(steps), 3))} s on average"


_GZIP_MAGIC = b"\x1f\x8b"


def read_csv(path: str | Path, columns: LoadColumns | None = None) -> Steps:
    """Read a CSV file, compressed with gzip or not.

    Its header has ``timestamp`` (ISO 8601, or seconds) and one of ``count``, ``value`` (records in the row's interval,
    a name that public traces often use) or ``rate`` (records per second), or the columns that are named. Other
    columns are ignored. ``recorded_rows.py`` says what the rows mean.
    """
    path, columns = Path(path), columns or LoadColumns()
    file_name = f"workload file {str(path)!r}"
    timestamps = Timestamps(columns.zone)
    rows: list[RecordedRow] = []
    try:
        with _open(path) as file:
            reader = csv.reader(file, skipinitialspace=True)
            names = [name.strip().lower() for name in next(reader, [])]
            time_name, amount_name, is_count = columns.found_in(file_name, names)
            time_column, amount_column = names.index(time_name), names.index(amount_name)
            for row in filter(None, reader):
                place = f"{file_name} line {reader.line_num}"
                if len(row) <= max(time_column, amount_column):
                    few = "1 column" if len(row) == 1 else f"{len(row)} columns"
                    raise InputError(f"{place} has {few}; the header has more.")
                if len(row) > len(names):
                    raise InputError(
                        f"{place} has {len(row)} columns; the header has {len(names)}. Numbers are written with a "
                        "point, such as 1.5."
                    )
                text = row[time_column].strip()
                rows.append(RecordedRow.of(place, text, timestamps.seconds(place, text), row[amount_column]))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise InputError(f"{file_name} cannot be read: {cause_of(error)}.") from error
    return columns.load(file_name, rows, timestamps, is_count=is_count, any_order=False, described=f"csv:{path}")


def _open(path: Path) -> IO[str]:
    with path.open("rb") as file:
        compressed = file.read(2) == _GZIP_MAGIC
    # A spreadsheet's byte order mark is no part of the first column's name.
    if compressed:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def read_parquet(path: str | Path, columns: LoadColumns | None = None) -> Steps:
    """Read a Parquet file, or a folder of its parts as Spark writes them, with the columns of a CSV file.

    Timestamps may be of any unit, with a zone or without; whole numbers are seconds. The parts of a folder have no
    order, so their rows are sorted by time.
    """
    with needing("a Parquet file"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    path, columns = Path(path), columns or LoadColumns()
    file_name = f"workload file {str(path)!r}"
    if not path.exists():
        raise InputError(f"{file_name} cannot be read: no such file or directory.")
    try:
        names = list(pq.ParquetDataset(path).schema.names)
        lower = {name.strip().lower(): name for name in names}
        time_name, amount_name, is_count = columns.found_in(file_name, list(lower))
        table = pq.read_table(path, columns=[lower[time_name], lower[amount_name]])
        times, amounts = table.column(lower[time_name]), table.column(lower[amount_name])
        if pa.types.is_timestamp(times.type):
            # Finer than a microsecond is more than Python's datetime holds.
            times = times.cast(pa.timestamp("us", tz=times.type.tz), safe=False)
        pairs = list(zip(times.to_pylist(), amounts.to_pylist(), strict=True))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file_name} cannot be read: {str(error).splitlines()[0].rstrip('.')}.") from error
    timestamps = Timestamps(columns.zone)
    rows = []
    for number, (at, amount) in enumerate(pairs, start=1):
        place = f"{file_name} row {number}"
        text = "" if at is None else str(at)
        rows.append(RecordedRow.of(place, text, timestamps.seconds(place, text if at is None else at), amount))
    described = f"parquet:{path}"
    return columns.load(file_name, rows, timestamps, is_count=is_count, any_order=path.is_dir(), described=described)


def read_levels(path: str | Path, columns: LoadColumns | None = None, *, rate: float = 1.0) -> Steps:
    """Read a load-variation file: lines of ``seconds, level``, each a level and how long it lasts.

    Load drivers take this format (giannakopoulos, figure 12): ``10, 500`` and then ``20, 700`` is a level of 500 for
    10 seconds and of 700 for the next 20. A level is a number of clients, each of which makes ``rate`` records per
    second. Empty lines and comments after # are ignored.
    """
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
