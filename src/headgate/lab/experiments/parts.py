"""Rows of cases as Parquet files, each written atomically by the task that computed them.

A file's name contains its number of rows, so that rows are counted without opening files.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from headgate.core.errors import EngineError, InputError
from headgate.lab.experiments.run_case import FIGURES, Case, Row, own_code, run_case
from headgate.lab.run_folder import ResultFolder

if TYPE_CHECKING:
    import pyarrow as pa

    from headgate.lab.experiments.model import ExperimentMatrix


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
