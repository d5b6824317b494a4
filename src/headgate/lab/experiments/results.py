"""Run an experiment on Spark, and the folder of a run: parts that tasks write, and results that are read from them."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from headgate.core.errors import EngineError, InputError, UnknownNameError
from headgate.core.types import JSON
from headgate.lab.experiments.run_case import FIGURES, LABELS, Case, ExperimentMatrix, Row, own_code, run_case
from headgate.lab.experiments.summary import (
    COST,
    GroupVerdict,
    RepeatGroup,
    differs,
    groups_by_arrow,
    groups_by_sql,
    notes_on,
    read_summary,
    verdicts,
    write_summary,
)
from headgate.lab.measures.measures import Estimate
from headgate.lab.run_folder import ResultFolder
from headgate.lab.scenario import Progress, mark_begin
from headgate.local.machine import java, spark_home

if TYPE_CHECKING:
    import pyarrow as pa

    from headgate.lab.experiments.run_case import ExperimentMatrix

FORMAT_VERSION = 1


@dataclass(frozen=True)
class LabResults:
    """Groups of a lab run with their verdicts, in the order of their cases."""

    name: str
    path: Path
    groups: Sequence[RepeatGroup]
    judged: Sequence[GroupVerdict]
    done: int
    total: int
    headgate: str = ""
    """The version that made them."""
    experiment: Mapping[str, JSON] = field(default_factory=dict)
    """The experiment, from the manifest."""

    @property
    def rows(self) -> list[tuple[RepeatGroup, GroupVerdict]]:
        return list(zip(self.groups, self.judged, strict=True))

    @property
    def unfinished(self) -> list[str]:
        """A sentence on missing runs, where some are missing."""
        missing = self.total - self.done
        sentence = f"{missing:,} of {self.total:,} runs are still to be done; the same headgate lab run goes on."
        return [sentence] if missing else []

    @property
    def notes(self) -> list[str]:
        return [*self.unfinished, *notes_on(self.groups)]

    def where(self, wanted: Mapping[str, str]) -> LabResults:
        """Return only groups whose labels match the patterns."""
        rows = self.rows
        for label, pattern in wanted.items():
            if label not in LABELS:
                raise UnknownNameError("label", label, LABELS)
            known = list(dict.fromkeys(_label(group, label) for group, _ in rows))
            rows = [(group, verdict) for group, verdict in rows if fnmatchcase(_label(group, label), pattern)]
            if not rows:
                raise InputError(f"no {label} is {pattern!r}; there are {', '.join(map(repr, known))}.")
        return replace(self, groups=[group for group, _ in rows], judged=[verdict for _, verdict in rows])

    def sorted_by(self, figure: str | None) -> LabResults:
        """Sort each contest by a figure; without one, by cost, with groups that met the objective first."""
        if figure is not None and figure not in FIGURES:
            raise UnknownNameError("figure", figure, FIGURES)
        contests = list(dict.fromkeys(group.contest for group in self.groups))

        def order(row: tuple[RepeatGroup, GroupVerdict]) -> tuple[float, ...]:
            group, _ = row
            found = group.figures[COST if figure in (None, "cost") else figure]
            value = math.inf if found is None else found.mean
            return contests.index(group.contest), figure is None and not group.is_met, value, group.place

        rows = sorted(self.rows, key=order)
        return replace(self, groups=[group for group, _ in rows], judged=[verdict for _, verdict in rows])

    def to_json(self) -> dict[str, JSON]:
        return {
            "version": FORMAT_VERSION,
            "name": self.name,
            "headgate": self.headgate,
            "done": self.done,
            "total": self.total,
            "rows": [{**group.to_json(), "verdict": str(verdict)} for group, verdict in self.rows],
            "notes": list(self.notes),
        }


def read_results(path: Path) -> LabResults:
    """Read the results of a run that is complete, running or stopped."""
    folder = LabFolder(path)
    manifest = folder.manifest()
    total, experiment = manifest["cases"], manifest["experiment"]
    if folder.summary.is_file():
        groups, done = read_summary(folder.summary), total
    else:
        table = read_parts(folder.runs)
        groups, done = groups_by_arrow(table), table.num_rows
    if not groups:
        raise InputError(f"{path} has no runs yet; at least one of its {total:,} must be done.")
    return LabResults(
        experiment["name"],
        path,
        groups,
        verdicts(groups),
        done,
        total,
        headgate=str(manifest.get("headgate", "")),
        experiment=experiment,
    )


@dataclass(frozen=True)
class GroupComparison:
    """The same group in two lab runs; ``None`` where it is missing."""

    labels: tuple[str, str, str, str]
    before: RepeatGroup | None
    after: RepeatGroup | None

    def change(self, figure: str) -> tuple[float | None, float | None, bool]:
        """Return a figure before and after, and whether the difference is more than noise."""
        before, after = _figure(self.before, figure), _figure(self.after, figure)
        is_change = before is not None and after is not None and differs(before, after)
        return None if before is None else before.mean, None if after is None else after.mean, is_change

    def to_json(self) -> dict[str, JSON]:
        row: dict[str, JSON] = dict(zip(LABELS, self.labels, strict=True))
        for name in FIGURES:
            before, after, is_change = self.change(name)
            row |= {f"{name}_before": before, f"{name}_after": after, f"{name}_differs": is_change}
        return row


def compared_to_json(pairs: Sequence[GroupComparison]) -> dict[str, JSON]:
    return {"version": FORMAT_VERSION, "rows": [pair.to_json() for pair in pairs]}


def compare(before: LabResults, after: LabResults) -> list[GroupComparison]:
    """Compare two runs group by group, in the order of the second, then groups that only the first has."""
    old = {group.labels: group for group in before.groups}
    new = {group.labels: group for group in after.groups}
    return [GroupComparison(labels, old.get(labels), new.get(labels)) for labels in dict.fromkeys([*new, *old])]


def _figure(group: RepeatGroup | None, name: str) -> Estimate | None:
    return None if group is None else group.figures[name]


def _label(group: RepeatGroup, label: str) -> str:
    return group.labels[LABELS.index(label)]


REPORTED_EVERY_S = 0.5
_NAMES = ".underway-*"
"""Spark and Headgate ignore names that begin with a dot when they read parts."""


class TaskProgress:
    """Reports a task's progress in a file; errors are ignored, because they must not cost a run."""

    def __init__(self, runs: Path) -> None:
        self._path = runs / _NAMES.replace("*", f"{os.getpid()}-{uuid4().hex[:8]}")
        self._reported_s = float("-inf")

    def report(self, whole: int, share: float) -> None:
        """Report the runs that are done but not written, and the share of the next."""
        if (now_s := time.monotonic()) - self._reported_s >= REPORTED_EVERY_S:
            self._reported_s = now_s
            with suppress(OSError):
                self._path.write_text(f"{whole + share:.4f}", encoding="ascii")

    def close(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def runs_underway(runs: Path) -> float:
    """Return the work that all tasks have done but not written, in runs."""
    found = 0.0
    for path in runs.glob(_NAMES):
        with suppress(OSError, ValueError):  # The file is gone or half written.
            found += float(path.read_text(encoding="ascii"))
    return found


def forget_underway(runs: Path) -> None:
    """Delete the progress files of killed tasks."""
    for path in runs.glob(_NAMES):
        with suppress(OSError):
            path.unlink(missing_ok=True)


WRITTEN_EVERY_S = 2.0
"""How much finished work a killed task loses at most."""


class LabFolder(ResultFolder):
    """The folder of ``headgate lab run FILE``; a complete run has its groups in ``summary.parquet``."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.summary = path / "summary.parquet"

    def begin(self, experiment: ExperimentMatrix, versions: Mapping[str, str]) -> None:
        """Create the folder, or check that it belongs to the same experiment and code."""
        details = {"cases": len(experiment), "seeds": list(experiment.seeds)}
        self.resume_or_create(own_code(), experiment.to_json(), details, versions)


def packed(place: int, case: Case) -> str:
    """Return a case with its place among all, as text for a task."""
    return json.dumps([place, case.to_json()])


def work_in(home: Path, runs: Path) -> Callable[[Iterable[str]], int]:
    """Return the function that tasks run; ``home`` is the folder of the files that cases name."""
    return partial(run_cases, folder=str(home.resolve()), runs=str(runs.resolve()), code=own_code())


def run_cases(texts: Iterable[str], folder: str, runs: str, code: str | None = None) -> int:
    """Run the cases of a task, write their rows every few seconds, and return their number.

    A worker with another ``code`` than the command raises an ``EngineError``.
    """
    if code not in (None, own_code()):
        raise EngineError(
            f"a worker's Headgate or numpy is another than the command's ({own_code()} instead of {code}); "
            "have the same versions of both on all workers."
        )
    rows: list[Row] = []
    done, since_s = 0, time.monotonic()
    with closing(TaskProgress(Path(runs))) as underway:
        for text in texts:
            place, case = json.loads(text)
            rows.append(run_case(Case.from_json(case), Path(folder), place, partial(underway.report, len(rows))))
            if time.monotonic() - since_s >= WRITTEN_EVERY_S:
                done += write_part(Path(runs), rows)
                rows, since_s = [], time.monotonic()
                underway.close()
        return done + (write_part(Path(runs), rows) if rows else 0)


def schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {"place": pa.int64(), "seed": pa.int64(), "kept": pa.bool_()}
    names = ("place", "key", "workload", "job", "objective", "policy", "seed", "kept", "error")
    fixed = [pa.field(name, kinds.get(name, pa.string())) for name in names]
    return pa.schema([*fixed, *(pa.field(name, pa.float64()) for name in FIGURES)])


def write_part(runs: Path, rows: Sequence[Row]) -> int:
    """Write rows to a new file, and return their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = runs / f"part-{rows[0]['key']}-{len(rows)}.parquet"
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema()), unfinished)
    unfinished.replace(path)
    return len(rows)


def count_rows(runs: Path) -> int:
    """Return the number of rows, from the files' names."""
    return sum(int(path.stem.rpartition("-")[2]) for path in runs.glob("part-*.parquet"))


def read_parts(runs: Path, *, repair: bool = False) -> pa.Table:
    """Return all rows in the order of their cases, each case once.

    A file broken by a crash is an error, or is deleted with ``repair``, so that its cases run again.
    """
    import pyarrow as pa

    found = (read_part(path, repair=repair) for path in sorted(runs.glob("part-*.parquet")))
    tables = [table for table in found if table is not None]
    whole = pa.concat_tables(tables) if tables else schema().empty_table()
    first: dict[int, int] = {}
    for index, place in enumerate(whole.column("place").to_pylist()):
        first.setdefault(place, index)
    return whole.take(pa.array(first.values(), pa.int64())).sort_by("place")


def read_part(path: Path, *, repair: bool) -> pa.Table | None:
    """Return the rows of a file; ``None`` if it was broken and has been deleted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, schema=schema())
    except (OSError, pa.ArrowInvalid) as error:
        if not repair:
            raise InputError(f"{path} cannot be read; run the experiment again, which replaces it.") from error
        path.unlink()
        return None


SPARK_START_S = 8.0
"""Approximate start-up time of a session."""
STEP_S = 0.0006
"""Approximate time of a simulated step on one core, over the policies of the league; some take ten times as long."""


@dataclass(frozen=True)
class ExperimentPlan:
    """An experiment with where and how it runs."""

    experiment: ExperimentMatrix
    home: Path
    """The folder of the experiment file and of the files that it names."""
    out: LabFolder
    master: str = "local[*]"
    tasks: int | None = None
    """Number of Spark tasks; chosen automatically where not given. No result depends on it."""


def require_spark() -> None:
    """Raise an error if Spark or Java is missing, before any work is done."""
    spark_home()
    java(needed_by="a lab run on Spark")


def expected_s(experiment: ExperimentMatrix, cores: int) -> float:
    """Return the approximate time of an experiment, before it starts."""
    steps = sum(case.seconds / case.interval_s for case in experiment.cases())
    return SPARK_START_S + STEP_S * steps / min(cores, len(experiment))


def run_experiment(
    plan: ExperimentPlan, progress: Progress, report: Callable[[str], None] = lambda _: None
) -> list[RepeatGroup]:
    """Run the cases that are not in the folder yet; write and return the groups of all.

    An existing folder is resumed; ``report`` then receives a sentence.
    """
    require_spark()
    from headgate.engines.spark.spread import batch_session, spread, versions

    out, total = plan.out, len(plan.experiment)
    out.begin(plan.experiment, versions())
    done = set(read_parts(out.runs, repair=True).column("key").to_pylist())
    waiting = [packed(place, case) for place, case in enumerate(plan.experiment.cases()) if case.key not in done]
    before = total - len(waiting)
    if before:
        report(f"{before:,} of {total:,} runs are there already; {len(waiting):,} are to be done.")
    if not waiting and out.summary.is_file():
        return read_summary(out.summary)
    mark_begin(progress, before / total)
    forget_underway(out.runs)

    furthest = float(before)

    def watch() -> None:
        nonlocal furthest
        # A run that is being written may count twice or not at all.
        seen = min(float(total), max(furthest, count_rows(out.runs) + runs_underway(out.runs)))
        if seen > furthest == before:
            mark_begin(progress, seen / total)  # The workers have only now started.
        elif seen > furthest:
            progress(seen / total)
        furthest = seen

    with batch_session(plan.master, f"headgate lab {plan.experiment.name}", out.log) as session:
        mark_begin(progress, before / total)
        if waiting:
            spread(
                session,
                waiting,
                work_in(plan.home, out.runs),
                watch=watch,
                tasks=plan.tasks,
            )
        there = read_parts(out.runs).num_rows
        if there < total:
            raise EngineError(
                f"{there:,} of {total:,} runs came back to {out.runs}; on a cluster, all workers must reach "
                "that folder."
            )
        groups = groups_by_sql(session, out.runs)
    write_summary(out.summary, groups)
    progress(1.0)
    return groups
