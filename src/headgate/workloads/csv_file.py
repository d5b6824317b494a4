"""A recorded load from a CSV file.

The file has a header with ``timestamp`` (ISO 8601, or seconds) and one of ``count``, ``value`` (records in the row's
interval, the name public traces often use) or ``rate`` (records per second), or columns that are named. Other columns
are ignored, and a file may be compressed with gzip. What the rows mean is said in ``recorded_rows.py``.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from pathlib import Path
from typing import IO

from headgate.core.errors import InputError, cause_of
from headgate.workloads.load_columns import LoadColumns
from headgate.workloads.recorded_rows import Row, steps_of
from headgate.workloads.steps import Steps
from headgate.workloads.timestamps import Timestamps

_GZIP_MAGIC = b"\x1f\x8b"


def read_csv(path: str | Path, columns: LoadColumns | None = None) -> Steps:
    """The load in a file; whatever is wrong with it is said in one sentence with the file and the line."""
    path, columns = Path(path), columns or LoadColumns()
    file_name = f"workload file {str(path)!r}"
    timestamps = Timestamps(columns.zone)
    rows: list[Row] = []
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
                told = row[time_column].strip()
                rows.append(Row.of(place, told, timestamps.seconds(place, told), row[amount_column]))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise InputError(f"{file_name} cannot be read: {cause_of(error)}.") from error
    steps = steps_of(
        file_name,
        rows,
        is_count=is_count,
        repair=columns.repair,
        fill_gaps=columns.fill_gaps,
        any_order=False,
        described=f"csv:{path}",
    )
    return columns.applied(steps, timestamps.second_times)


def _open(path: Path) -> IO[str]:
    with path.open("rb") as file:
        compressed = file.read(2) == _GZIP_MAGIC
    # A spreadsheet's byte order mark is no part of the first column's name.
    if compressed:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
