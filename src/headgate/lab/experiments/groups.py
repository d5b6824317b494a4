"""What repeats come to: counts, means and deviations of every figure, per workload, job, objective and policy.

Spark SQL does it for a lab run; the same from an Arrow table is for whoever looks at results without Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.lab.experiments.run_case import FIGURES, LABELS
from headgate.lab.experiments.summary import Group, group_from

if TYPE_CHECKING:
    import pyarrow as pa

_KEPT = "CAST(kept AS INT)"


def query() -> str:
    """The SQL that makes one row per group of the table ``runs``, in the order of their first cases."""
    figures = ",\n  ".join(
        f"count({name}) AS {name}_count, avg({name}) AS {name}_mean, stddev_samp({name}) AS {name}_stddev"
        for name in FIGURES
    )
    labels = ", ".join(LABELS)
    return f"""SELECT {labels}, min(place) AS place, count(*) AS runs, count(error) AS failed,
  min(error) AS error, coalesce(sum({_KEPT}), 0) AS kept, count(kept) AS judged,
  {figures}
FROM runs GROUP BY {labels} ORDER BY place"""


def groups_by_sql(session: Any, runs: Path) -> list[Group]:
    """By Spark, whose session it is."""
    from headgate.engines.spark.spread import sql_rows

    return [group_from(row) for row in sql_rows(session, runs, "runs", query(), order="place")]


def groups_by_arrow(table: pa.Table) -> list[Group]:
    """By Arrow, from rows that are at hand."""
    import pyarrow.compute as pc

    ready = table.set_column(table.schema.get_field_index("kept"), "kept", pc.cast(table["kept"], "int64"))
    spread = pc.VarianceOptions(ddof=1)
    wanted: list[tuple[Any, ...]] = [
        ("place", "min"),
        ("place", "count"),
        ("error", "count"),
        ("error", "min"),
        ("kept", "sum"),
        ("kept", "count"),
    ]
    for name in FIGURES:
        wanted += [(name, "count"), (name, "mean"), (name, "stddev", spread)]
    renamed = {
        "place_min": "place",
        "place_count": "runs",
        "error_count": "failed",
        "error_min": "error",
        "kept_sum": "kept",
        "kept_count": "judged",
    }
    found = ready.group_by(list(LABELS), use_threads=False).aggregate(wanted).sort_by("place_min").to_pylist()
    return [group_from({renamed.get(name, name): value for name, value in row.items()}) for row in found]
