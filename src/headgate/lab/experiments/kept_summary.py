"""What a lab run came to, as one Parquet file beside its runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.lab.experiments.carry import FIGURES, LABELS
from headgate.lab.experiments.summary import Group, group_from

if TYPE_CHECKING:
    import pyarrow as pa

_COUNTS = ("place", "runs", "failed", "kept")


def write_summary(path: Path, groups: Sequence[Group]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    unfinished = path.with_name(f".{path.name}")
    pq.write_table(pa.Table.from_pylist([_row(group) for group in groups], _schema()), unfinished)
    unfinished.replace(path)


def read_summary(path: Path) -> list[Group]:
    import pyarrow.parquet as pq

    return [group_from(row) for row in pq.read_table(path, schema=_schema()).to_pylist()]


def _row(group: Group) -> dict[str, object]:
    row: dict[str, object] = dict(zip(LABELS, group.labels, strict=True))
    row |= {name: getattr(group, name) for name in (*_COUNTS, "error")}
    for name in FIGURES:
        found = group.figures[name]
        row[f"{name}_count"] = 0 if found is None else found.count
        row[f"{name}_mean"] = None if found is None else found.mean
        row[f"{name}_stddev"] = None if found is None else found.stddev
    return row


def _schema() -> pa.Schema:
    import pyarrow as pa

    figures = [
        pa.field(f"{name}_{part}", pa.int64() if part == "count" else pa.float64())
        for name in FIGURES
        for part in ("count", "mean", "stddev")
    ]
    return pa.schema(
        [
            *(pa.field(name, pa.string()) for name in (*LABELS, "error")),
            *(pa.field(name, pa.int64()) for name in _COUNTS),
            *figures,
        ]
    )
