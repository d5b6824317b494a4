"""Groups of repeats: their means with intervals, computed by Spark SQL or Arrow, and verdicts that consider noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.core.types import JSON
from headgate.lab.experiments.run_case import FIGURES, LABELS
from headgate.lab.measures.measures import Estimate, t_quantile

if TYPE_CHECKING:
    import pyarrow as pa

_MET_COLUMN = "kept"
COST = "instance_hours"
"""The figure that stands for cost: a price only multiplies it."""


@dataclass(frozen=True)
class RepeatGroup:
    """The repeats of a case."""

    workload: str
    job: str
    objective: str
    policy: str
    place: int
    runs: int
    failed: int
    error: str | None
    """The error of a failed run, if any."""
    met: int
    """Repeats that met the objective."""
    figures: Mapping[str, Estimate | None]

    @property
    def labels(self) -> tuple[str, str, str, str]:
        return self.workload, self.job, self.objective, self.policy

    @property
    def contest(self) -> tuple[str, str, str]:
        """The labels within which policies are compared."""
        return self.workload, self.job, self.objective

    @property
    def is_met(self) -> bool:
        """Whether every repeat met the objective."""
        return self.met == self.runs

    def to_json(self) -> dict[str, JSON]:
        """Return a flat row: each figure with the half-width of its interval."""
        row: dict[str, JSON] = dict(zip(LABELS, self.labels, strict=True))
        row |= {"runs": self.runs, "failed": self.failed, "kept": self.met, "error": self.error}
        for name in FIGURES:
            found = self.figures[name]
            row[name] = None if found is None else found.mean
            row[f"{name}_ci95"] = None if found is None else found.half_width
        return row


class GroupVerdict(StrEnum):
    BEST = "best"
    NOISE = "as good"
    """The difference in cost to the best is within the noise."""
    DEARER = "dearer"
    MISSED = "not kept"
    FAILED = "failed"


def group_from(row: Mapping[str, Any]) -> RepeatGroup:
    """Build a group from a row with count, mean and deviation of every figure."""
    figures = {}
    for name in FIGURES:
        # Files may be older than a figure.
        count, mean, stddev = row[f"{name}_count"] or 0, row[f"{name}_mean"], row[f"{name}_stddev"]
        known = stddev if count > 1 and stddev is not None and math.isfinite(stddev) else None
        figures[name] = Estimate(mean, known, count) if count else None
    labels = {name: row[name] for name in (*LABELS, "place", "runs", "failed", "error")}
    return RepeatGroup(**labels, met=row["kept"] or 0, figures=figures)


def verdicts(groups: Sequence[RepeatGroup]) -> list[GroupVerdict]:
    """Return the verdict on each group within its contest."""
    best: dict[tuple[str, str, str], RepeatGroup] = {}
    for group in groups:
        if group.is_met and (first := best.setdefault(group.contest, group)) is not group:
            best[group.contest] = min(first, group, key=lambda rival: (_hours(rival), rival.place))
    return [_verdict(group, best.get(group.contest)) for group in groups]


def _verdict(group: RepeatGroup, best: RepeatGroup | None) -> GroupVerdict:
    if group.failed:
        return GroupVerdict.FAILED
    if not group.is_met:
        return GroupVerdict.MISSED
    if best is None or group is best:
        return GroupVerdict.BEST
    return GroupVerdict.DEARER if differs(group.figures[COST], best.figures[COST]) else GroupVerdict.NOISE


def differs(first: Estimate | None, other: Estimate | None) -> bool:
    """Return whether two means differ by more than noise (Welch's test, 95 %); single runs differ if unequal."""
    if first is None or other is None:
        return first is not other
    gap = abs(first.mean - other.mean)
    if first.stddev is None or other.stddev is None:
        return gap > 0
    shares = [found.stddev**2 / found.count for found in (first, other) if found.stddev is not None]
    noise = sum(shares)
    if noise == 0:
        return gap > 0
    freedom = noise**2 / sum(share**2 / (found.count - 1) for share, found in zip(shares, (first, other), strict=True))
    return gap > t_quantile(freedom) * math.sqrt(noise)


def notes_on(groups: Sequence[RepeatGroup]) -> list[str]:
    """Return notes that explain the table."""
    notes = [
        f"{_MET_COLUMN}: repeats in which the objective was met. best: least instance-hours where all repeats met it."
    ]
    if any(group.runs > 1 for group in groups):
        notes.append(
            "±: half of the 95 % confidence interval of the mean (Student's t). "
            "as good: the difference to the best is inside the noise (Welch's test, 95 %)."
        )
    if any(group.runs == 1 for group in groups):
        notes.append("One run says nothing about noise: with repeats, differences could turn out to be chance.")
    return [*notes, *failures_of(groups)]


def failures_of(groups: Sequence[RepeatGroup]) -> list[str]:
    """Return a sentence for each group with failed runs."""
    return [
        f"{group.failed} of {group.runs} runs of {', '.join(group.labels)} failed: {group.error}"
        for group in groups
        if group.failed
    ]


def _hours(group: RepeatGroup) -> float:
    found = group.figures[COST]
    return math.inf if found is None else found.mean


_COUNTS = ("place", "runs", "failed", "kept")


def write_summary(path: Path, groups: Sequence[RepeatGroup]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    unfinished = path.with_name(f".{path.name}")
    pq.write_table(pa.Table.from_pylist([_row(group) for group in groups], _schema()), unfinished)
    unfinished.replace(path)


def read_summary(path: Path) -> list[RepeatGroup]:
    import pyarrow.parquet as pq

    return [group_from(row) for row in pq.read_table(path, schema=_schema()).to_pylist()]


def _row(group: RepeatGroup) -> dict[str, object]:
    row: dict[str, object] = dict(zip(LABELS, group.labels, strict=True))
    row |= {name: getattr(group, "met" if name == "kept" else name) for name in (*_COUNTS, "error")}
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


def query() -> str:
    """Return the SQL for a row per group of the table ``runs``, in the order of their first cases."""
    figures = ",\n  ".join(
        f"count({name}) AS {name}_count, avg({name}) AS {name}_mean, stddev_samp({name}) AS {name}_stddev"
        for name in FIGURES
    )
    labels = ", ".join(LABELS)
    return f"""SELECT {labels}, min(place) AS place, count(*) AS runs, count(error) AS failed,
  min(error) AS error, coalesce(sum(CAST({_MET_COLUMN} AS INT)), 0) AS {_MET_COLUMN}, count({_MET_COLUMN}) AS judged,
  {figures}
FROM runs GROUP BY {labels} ORDER BY place"""


def groups_by_sql(session: Any, runs: Path) -> list[RepeatGroup]:
    """Aggregate rows with Spark."""
    from headgate.engines.spark.spread import sql_rows

    return [group_from(row) for row in sql_rows(session, runs, "runs", query(), order="place")]


def groups_by_arrow(table: pa.Table) -> list[RepeatGroup]:
    """Aggregate rows with Arrow, without Spark."""
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
