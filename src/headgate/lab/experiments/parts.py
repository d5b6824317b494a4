"""The rows of cases as Parquet files, each written by the task that made them, whole or not at all.

A file's name says how many rows it has, so that whoever watches counts them without opening any.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.core.errors import EngineError, InputError
from headgate.lab.experiments.run_case import FIGURES, Case, Row, own_code, run_case
from headgate.lab.run_folder import ResultFolder

if TYPE_CHECKING:
    import pyarrow as pa

    from headgate.lab.experiments.model import ExperimentMatrix


from contextlib import suppress
from uuid import uuid4

TOLD_EVERY_S = 0.5
_NAMES = ".underway-*"
"""Names that begin with a dot are not read, by Spark either."""


class Underway:
    """What one task says; nothing that goes wrong here is worth a run."""

    def __init__(self, runs: Path) -> None:
        self._path = runs / _NAMES.replace("*", f"{os.getpid()}-{uuid4().hex[:8]}")
        self._told_s = float("-inf")

    def tell(self, whole: int, share: float) -> None:
        """So many runs are done and not written, and this share of the next."""
        if (now_s := time.monotonic()) - self._told_s >= TOLD_EVERY_S:
            self._told_s = now_s
            with suppress(OSError):
                self._path.write_text(f"{whole + share:.4f}", encoding="ascii")

    def close(self) -> None:
        """All is written."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def runs_underway(runs: Path) -> float:
    """How many runs the work is worth that all tasks have done and not written."""
    found = 0.0
    for path in runs.glob(_NAMES):
        with suppress(OSError, ValueError):  # It is gone, or half written, or of a machine that fails.
            found += float(path.read_text(encoding="ascii"))
    return found


def forget_underway(runs: Path) -> None:
    """What tasks have left behind that were killed."""
    for path in runs.glob(_NAMES):
        with suppress(OSError):
            path.unlink(missing_ok=True)


WRITTEN_EVERY_S = 2.0
"""What a kill loses of a task, beside the case that is running."""


class LabFolder(ResultFolder):
    """The folder of ``headgate lab run FILE``; ``summary.parquet`` has the groups of a run that is complete."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.summary = path / "summary.parquet"

    def begin(self, experiment: ExperimentMatrix, versions: Mapping[str, str]) -> None:
        """Create the folder, or check that it is of the same experiment by the same code."""
        details = {"cases": len(experiment), "seeds": list(experiment.seeds)}
        self.resume_or_create(own_code(), experiment.to_json(), details, versions)


def packed(place: int, case: Case) -> str:
    """A case as it travels, with its place among all."""
    return json.dumps([place, case.to_json()])


def work_in(home: Path, runs: Path) -> Callable[[Iterable[str]], int]:
    """What tasks do, wherever they run; ``home`` is where the files that cases name are."""
    return partial(carry_out_all, folder=str(home.resolve()), runs=str(runs.resolve()), code=own_code())


def carry_out_all(texts: Iterable[str], folder: str, runs: str, code: str | None = None) -> int:
    """What a task does: carries out its cases and writes their rows, every few seconds those it has.

    Rows of other code are not those that were asked for, so with another ``code`` there are none.
    """
    if code not in (None, own_code()):
        raise EngineError(
            f"a worker's Headgate or numpy is another than the command's ({own_code()} instead of {code}); "
            "have the same versions of both on all workers."
        )
    rows: list[Row] = []
    done, since_s = 0, time.monotonic()
    with closing(Underway(Path(runs))) as underway:
        for text in texts:
            place, case = json.loads(text)
            rows.append(run_case(Case.from_json(case), Path(folder), place, partial(underway.tell, len(rows))))
            if time.monotonic() - since_s >= WRITTEN_EVERY_S:
                done += write_part(Path(runs), rows)
                rows, since_s = [], time.monotonic()
                underway.close()
        return done + (write_part(Path(runs), rows) if rows else 0)


def schema() -> pa.Schema:
    """The columns of a row."""
    import pyarrow as pa

    kinds = {"place": pa.int64(), "seed": pa.int64(), "kept": pa.bool_()}
    names = ("place", "key", "workload", "job", "objective", "policy", "seed", "kept", "error")
    fixed = [pa.field(name, kinds.get(name, pa.string())) for name in names]
    return pa.schema([*fixed, *(pa.field(name, pa.float64()) for name in FIGURES)])


def write_part(runs: Path, rows: Sequence[Row]) -> int:
    """Write rows as a file of their own, and give their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = runs / f"part-{rows[0]['key']}-{len(rows)}.parquet"
    # Names that begin with a dot are not read, by Spark either.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema()), unfinished)
    unfinished.replace(path)
    return len(rows)


def count_rows(runs: Path) -> int:
    """How many rows there are, by the names of the files."""
    return sum(int(path.stem.rpartition("-")[2]) for path in runs.glob("part-*.parquet"))


def read_parts(runs: Path, *, repair: bool = False) -> pa.Table:
    """All rows in the order of their cases, each case once.

    A file that a crash of the machine has left broken is an error, or goes away with ``repair``: its cases are then as
    good as never run.
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
    """The rows of one file; ``None`` of one that was broken and is gone now."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, schema=schema())
    except (OSError, pa.ArrowInvalid) as error:
        if not repair:
            raise InputError(f"{path} cannot be read; run the experiment again, which replaces it.") from error
        path.unlink()
        return None
