"""What benchmarks share: timing, a yardstick for the machine, and the report."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "artifacts" / "benchmarks"
Row = Mapping[str, str | float | int]


def best_s(work: Callable[[], object], repeats: int = 5) -> float:
    """The shortest of a few timings, in seconds of CPU time: other work on the machine counts as little as it can."""
    timings = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        timings.append(time.process_time() - start)
    return min(timings)


def reference_s() -> float:
    """How long this machine takes for a plain loop of a million steps.

    Timings divided by it can be compared between machines, and between a busy and a quiet hour of the same one.
    """

    def loop() -> float:
        total = 0.0
        for index in range(1_000_000):
            total += index * 0.5
        return total

    return best_s(loop)


def report(name: str, rows: Sequence[Row], *, to: Path | None = None, **extra: object) -> None:
    """Print the rows as a table and write them, with anything further, as JSON to ``artifacts/benchmarks``.

    A copy goes ``to`` another file where one is named.
    """
    columns = list(rows[0])
    cells = [columns, *([_cell(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[position]) for line in cells) for position in range(len(columns))]
    print()
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    written = json.dumps({"name": name, **machine, "rows": list(rows), **extra}, indent=2) + "\n"
    for target in (path, *([] if to is None else [to])):
        target.write_text(written, encoding="utf-8")
    print(f"written to {path.relative_to(RESULTS.parents[1])}")


def _cell(value: str | float | int) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
