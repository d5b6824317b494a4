"""The rows of cases as Parquet files, each written by the task that made them, whole or not at all.

A file's name says how many rows it has, so that whoever watches counts them without opening any.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.core.errors import EngineError, InputError
from headgate.lab.code_state import fingerprint
from headgate.lab.experiments.carry import DECISIVE, FIGURES, Row, carry_out
from headgate.lab.experiments.case import FORMAT_VERSION, Case
from headgate.lab.experiments.underway import Underway

if TYPE_CHECKING:
    import pyarrow as pa

WRITTEN_EVERY_S = 2.0
"""What a kill loses of a task, beside the case that is running."""


def packed(place: int, case: Case) -> str:
    """A case as it travels, with its place among all."""
    return json.dumps([place, case.to_json()])


def work_in(home: Path, runs: Path) -> Callable[[Iterable[str]], int]:
    """What tasks do, wherever they run; ``home`` is where the files that cases name are."""
    return partial(carry_out_all, folder=str(home.resolve()), runs=str(runs.resolve()), code=own_code())


@cache
def own_code() -> str:
    """The state of the code by which this process makes rows: what is imported stays when files change."""
    return fingerprint(DECISIVE, FORMAT_VERSION)


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
            rows.append(carry_out(Case.from_json(case), Path(folder), place, partial(underway.tell, len(rows))))
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
