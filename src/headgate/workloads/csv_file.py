"""A recorded trace from a CSV file.

The file has a header with ``timestamp`` (ISO 8601, or seconds) and one of ``count``, ``value`` (records in the row's
interval, the name public traces often use) or ``rate`` (records per second). Other columns are ignored, and a file may
be compressed with gzip.

- Time 0 is the first row's timestamp. A timestamp without a zone is taken as UTC.
- A row's interval reaches to the next row; the last row's is as long as the one before it. Nothing arrives after it.
- A gap is therefore one long interval: a count is spread over it, so that no record is lost or invented, and a rate
  goes on through it. Where a gap means something else, fill it in the file.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from headgate.core.errors import InputError
from headgate.workloads.steps import Steps

_COUNTS = ("count", "value")
_AMOUNTS = (*_COUNTS, "rate")
_GZIP_MAGIC = b"\x1f\x8b"


def read_csv(path: str | Path) -> Steps:
    """The trace in a file; whatever is wrong with it is said in one sentence with the file and the line."""
    path = Path(path)
    times_s: list[float] = []
    amounts: list[float] = []
    try:
        with _open(path) as file:
            reader = csv.reader(file, skipinitialspace=True)
            time_column, amount_column, is_count = _columns(path, next(reader, []))
            for row in filter(None, reader):
                place = f"workload file {str(path)!r} line {reader.line_num}"
                if len(row) <= max(time_column, amount_column):
                    raise InputError(f"{place} has {len(row)} columns; the header has more.")
                times_s.append(_time_s(place, row[time_column].strip(), times_s))
                amounts.append(_amount(place, row[amount_column].strip()))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise InputError(f"workload file {str(path)!r} cannot be read: {_cause(error)}.") from error
    if len(times_s) < 2:
        raise InputError(
            f"workload file {str(path)!r} has {len(times_s)} rows of data; at least 2 are needed to know an interval."
        )
    start_s = times_s[0]
    bounds_s = [at_s - start_s for at_s in times_s]
    bounds_s.append(bounds_s[-1] + (bounds_s[-1] - bounds_s[-2]))
    if is_count:
        amounts = [count / (bounds_s[row + 1] - bounds_s[row]) for row, count in enumerate(amounts)]
    return Steps(bounds_s, amounts, f"csv:{path}")


def _open(path: Path) -> IO[str]:
    with path.open("rb") as file:
        compressed = file.read(2) == _GZIP_MAGIC
    # A spreadsheet's byte order mark is no part of the first column's name.
    if compressed:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _columns(path: Path, header: list[str]) -> tuple[int, int, bool]:
    """Where the timestamp and the amount stand, and whether the amount is a count."""
    names = [name.strip().lower() for name in header]
    amounts = [name for name in _AMOUNTS if name in names]
    if "timestamp" not in names or len(amounts) != 1:
        raise InputError(
            f"workload file {str(path)!r} has the columns {', '.join(names) or '(none)'}; "
            "'timestamp' and one of 'count', 'value' or 'rate' are needed."
        )
    return names.index("timestamp"), names.index(amounts[0]), amounts[0] in _COUNTS


def _time_s(place: str, text: str, before: list[float]) -> float:
    try:
        at_s = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise InputError(
                f"{place} has the timestamp {text!r}; ISO 8601 (2024-05-01T12:00) or seconds are allowed."
            ) from error
        at_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(at_s):
        raise InputError(f"{place} has the timestamp {text!r}; it must be finite.")
    if before and at_s <= before[-1]:
        wrong = "the same timestamp as" if at_s == before[-1] else "an earlier timestamp than"
        raise InputError(f"{place} has {wrong} the row before it ({text}); rows must be sorted by time.")
    return at_s


def _amount(place: str, text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount >= 0):
        raise InputError(f"{place} has the amount {text!r}; a number that is not negative is needed.")
    return amount


def _cause(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).lower().rstrip(".")
