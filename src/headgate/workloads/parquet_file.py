"""A recorded load from a Parquet file, or a folder of its parts as Spark writes them.

The columns are those of a CSV file. Timestamps may be of any unit, with a zone or without; whole numbers are seconds.
The parts of a folder have no order, so their rows are put in the order of time.
"""

from __future__ import annotations

from pathlib import Path

from headgate.core.errors import InputError
from headgate.core.extras import needing
from headgate.workloads.load_columns import LoadColumns
from headgate.workloads.recorded_rows import Row, steps_of
from headgate.workloads.steps import Steps
from headgate.workloads.timestamps import Timestamps


def read_parquet(path: str | Path, columns: LoadColumns | None = None) -> Steps:
    """The load in a file or folder; whatever is wrong with it is said in one sentence with the row."""
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
        told = "" if at is None else str(at)
        rows.append(Row.of(place, told, timestamps.seconds(place, told if at is None else at), amount))
    steps = steps_of(
        file_name,
        rows,
        is_count=is_count,
        repair=columns.repair,
        fill_gaps=columns.fill_gaps,
        any_order=path.is_dir(),
        described=f"parquet:{path}",
    )
    return columns.applied(steps, timestamps.second_times)
