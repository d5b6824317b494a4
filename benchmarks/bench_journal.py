"""What the journal costs: time per append, and the size of the file of a job that runs for ever.

A job of one operator with a decision every 5 s and a batch a second is journalled for a year, by a clock that runs as
fast as it can. Of all but the last days only one tick an hour is written, which is what thinning leaves of them;
``python -m benchmarks.bench_journal 365`` writes every tick of the whole year, and takes more than an hour.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import Row, report

from headgate.core.types import Decision, Observation
from headgate.journal.writer import SqliteJournal
from tests.journal.entries import RUN, live, receipt

DAYS = 365
DENSE_DAYS = 16
"""Days at the end with every tick: more than the two weeks for which minutes are retained."""
INTERVAL_S = 5.0
START_S = 1.7e9
DAY_S = 86400.0


class TimedJournal:
    """A journal whose appends are timed, in CPU time; its wall clock is that of the entries."""

    def __init__(self, path: Path) -> None:
        self.now_s = START_S
        self.timings_s: list[float] = []
        self.journal = SqliteJournal(path, now=lambda: self.now_s)
        self.journal.begin(RUN)

    def write(self, seen: Observation, decided: Decision) -> None:
        self.now_s = seen.at_s
        self._time(lambda: self.journal.observed(seen))
        self._time(lambda: self.journal.decided(decided))
        if not decided.is_hold:
            self._time(lambda: self.journal.received(receipt(seen.at_s, requested=decided.targets["job"])))

    def _time(self, append: Callable[[], None]) -> None:
        began_s = time.thread_time()
        append()
        self.timings_s.append(time.thread_time() - began_s)

    def megabytes(self) -> float:
        """The file, its log, and the index of that."""
        return sum(found.stat().st_size for found in self.journal.path.parent.iterdir()) / 1e6


def bench_journal(dense_days: int = DENSE_DAYS) -> None:
    sparse_days = DAYS - dense_days
    with tempfile.TemporaryDirectory() as folder:
        timed = TimedJournal(Path(folder, "journal.db"))
        for entries in live(24 * sparse_days, start_s=START_S, interval_s=3600.0):
            timed.write(*entries)
        before_mb = timed.megabytes()
        ticks = round(DAY_S / INTERVAL_S)
        sizes_mb: dict[int, float] = {}
        timed.timings_s.clear()
        dense_s = START_S + sparse_days * DAY_S
        for tick, entries in enumerate(live(dense_days * ticks, start_s=dense_s, interval_s=INTERVAL_S), start=1):
            timed.write(*entries)
            if tick % ticks == 0:
                sizes_mb[tick // ticks] = timed.megabytes()
        timings_us = sorted(1e6 * timing_s for timing_s in timed.timings_s)
        began_s = time.perf_counter()
        retained = len(timed.journal.observations())
        read_s = time.perf_counter() - began_s
        timed.journal.close()
    measured = [
        ("an append (median)", "µs", statistics.median(timings_us)),
        ("an append (mean, with all upkeep)", "µs", statistics.fmean(timings_us)),
        ("an append (99 % are faster)", "µs", timings_us[round(0.99 * len(timings_us))]),
        ("an append (slowest)", "ms", timings_us[-1] / 1000),
        (f"file and log after {sparse_days} days of hours", "MB", before_mb),
        ("and two days in full", "MB", sizes_mb[2]),
        ("and two weeks, most of it in minutes", "MB", sizes_mb[14]),
        ("after a year", "MB", sizes_mb[dense_days]),
        ("largest it ever was", "MB", max(sizes_mb.values())),
        ("observations retained of the year", "count", retained),
        ("reading them all", "s", read_s),
    ]
    rows: list[Row] = [{"what": what, "unit": unit, "value": value} for what, unit, value in measured]
    report("journal", rows)


if __name__ == "__main__":
    bench_journal(*(int(days) for days in sys.argv[1:]))
