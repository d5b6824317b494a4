"""Public traces as evenly spaced series, read from a folder that is no part of the package.

The folder is the one that ``HEADGATE_TRACES`` names, or ``../shared/data`` next to the project. What is in it, where it
is from and under which licence is said in the ``SOURCE.md`` of each trace.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import InputError, UnknownNameError, cause_of
from headgate.workloads.shapes import plain, require_length, require_rate, require_time
from headgate.workloads.steps import Steps

VARIABLE = "HEADGATE_TRACES"
_DEFAULT_FOLDER = Path("..") / "shared" / "data"
_DAY_MINUTES = 1440
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Records per second, one value per step."""

    name: str
    start: datetime | None
    """When the first step begins; ``None`` where the source does not say."""
    step_s: float
    rates_per_s: Values

    def between(self, start: datetime, end: datetime) -> Values:
        """The rates from one time to another, both in UTC unless they carry a zone."""
        if self.start is None:
            raise InputError(f"trace {self.name!r} does not say when it begins; it cannot be cut by date.")
        first, last = (round((_utc(moment) - self.start).total_seconds() / self.step_s) for moment in (start, end))
        if not 0 <= first < last <= len(self.rates_per_s):
            raise InputError(f"trace {self.name!r} does not cover {start} to {end}.")
        return self.rates_per_s[first:last]


def trace_folder() -> Path:
    """Return the folder with the traces; an error says where it is expected."""
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else _DEFAULT_FOLDER
    if not folder.is_dir():
        raise InputError(
            f"the public traces are not at {str(folder)!r}; set {VARIABLE} to the folder with wc98 and the others. "
            "headgate lab traces says where they can be had."
        )
    return folder


def trace_names() -> list[str]:
    """Return the names of all series, sorted."""
    return sorted(_READERS)


def read_trace(name: str) -> Trace:
    """Return a series by name."""
    if name not in _READERS:
        raise UnknownNameError("trace", name, _READERS)
    return _read(name, trace_folder().resolve())


@cache
def _read(name: str, folder: Path) -> Trace:
    try:
        start, step_s, counts = _READERS[name](folder)
    except OSError as error:
        raise InputError(f"trace {name!r} cannot be read from {str(folder)!r}: {cause_of(error)}.") from error
    rates_per_s = counts / step_s
    rates_per_s.flags.writeable = False
    return Trace(name, start, step_s, rates_per_s)


Reader = Callable[[Path], tuple[datetime | None, float, Values]]
"""Returns the start, the step in seconds and the records per step."""


def _rows(path: Path, delimiter: str = ",") -> Iterator[dict[str, str]]:
    compressed = path.suffix == ".gz"
    with gzip.open(path, "rt", newline="") if compressed else path.open(newline="") as file:
        yield from csv.DictReader(file, delimiter=delimiter)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _dated(file: str, time: str, amount: str, step_s: float, gaps: str, folder: Path) -> tuple[datetime, float, Values]:
    """Read a file with one row per step; missing steps are 0 or interpolated between their neighbours."""
    amounts: dict[float, float] = {}
    for row in _rows(folder / file):
        amounts.setdefault(_utc(datetime.fromisoformat(row[time])).timestamp(), float(row[amount]))
    first, last = min(amounts), max(amounts)
    steps = np.round((np.array(list(amounts)) - first) / step_s)
    every = np.arange(round((last - first) / step_s) + 1)
    values = np.zeros(len(every))
    if gaps == "zero":
        values[steps.astype(np.int64)] = list(amounts.values())
    else:
        values = np.interp(every, steps, np.array(list(amounts.values())))
    return datetime.fromtimestamp(first, UTC), step_s, values


def _per_second(file: str, step_s: int, folder: Path) -> tuple[None, float, Values]:
    """Read a line of counts per second, added up to longer steps."""
    with gzip.open(folder / file, "rt") as text:
        counts = np.array(text.read().split(), dtype=np.float64)
    return None, float(step_s), _added_up(counts, step_s)


def _added_up(counts: Values, steps: int) -> Values:
    whole = len(counts) // steps * steps
    return np.asarray(counts[:whole].reshape(-1, steps).sum(axis=1))


def _twitter(folder: Path) -> tuple[None, float, Values]:
    """Read the counts; the last 29 minutes of each day are missing in the archive, and are interpolated."""
    _, step_s, counts = _per_second("twitter-stream-2021-08/workload.txt.gz", 60, folder)
    minutes = np.arange(len(counts))
    # The minute at which the hole begins is cut too.
    seen = minutes % _DAY_MINUTES < _DAY_MINUTES - 30
    return None, step_s, np.interp(minutes, minutes[seen], counts[seen])


def _azure(folder: Path) -> tuple[None, float, Values]:
    total = np.zeros(_DAY_MINUTES)
    for row in _rows(folder / "azure-functions-2019" / "1250_inv.csv.gz"):
        total += [float(row[f"minute_{minute + 1}"]) for minute in range(_DAY_MINUTES)]
    return None, 60.0, total


def _google_cluster(folder: Path) -> tuple[None, float, Values]:
    """Count events per 10 s; those with timestamp 0 are from before the trace."""
    times: list[int] = []
    for part in (0, 1):
        with gzip.open(folder / "google-cluster-2011" / f"part-0000{part}-of-00500.csv.gz", "rt") as file:
            times.extend(int(line.partition(",")[0]) for line in file)
    seconds = np.array(times, dtype=np.float64) / 1e6
    seconds = seconds[seconds > 0]
    first, last = np.floor(seconds.min()), np.floor(seconds.max())
    counts, _ = np.histogram(seconds, bins=np.arange(first, last, 10.0))
    return None, 10.0, counts.astype(np.float64)


def _demeter(file: str, folder: Path) -> tuple[None, float, Values]:
    counts = np.array([float(row["value"]) for row in _rows(folder / "demeter-workloads" / file, "|")])
    return None, 10.0, _added_up(counts, 10)


def _metro(folder: Path) -> tuple[datetime, float, Values]:
    start, step_s, counts = _dated(
        "metro-traffic-hourly/hourly_traffic_volume.csv.gz", "date_time", "traffic_volume", 3600.0, "line", folder
    )
    # Whole months are missing before.
    begin = datetime(2017, 1, 1, tzinfo=UTC)
    return begin, step_s, counts[round((begin - start).total_seconds() / step_s) :]


def _normalised(file: str, folder: Path) -> tuple[None, float, Values]:
    rows = _rows(folder / "dsp-load-5min-normalised" / file)
    return None, 300.0, np.array([float(row["messages"]) for row in rows])


_TWEETS = ("AMZN", "CRM", "CVS", "FB", "GOOG", "IBM", "KO", "PFE", "UPS")
_NORMALISED = ("IoT", "alibaba", "avazu", "google", "horton", "retailrocket", "taxi", "wiki_de", "wiki_en")
_READERS: dict[str, Reader] = {
    "wc98": partial(_dated, "wc98/invocation_count.csv.gz", "period", "count", 60.0, "zero"),
    "twitter": _twitter,
    "google-cluster": _google_cluster,
    "azure-functions": _azure,
    "nasa": partial(_per_second, "nasa-http-1995/workload.txt.gz", 60),
    "nyc-taxi": partial(_dated, "nyc-taxi-30min/nyc_taxi.csv", "timestamp", "value", 1800.0, "line"),
    "aws-elb": partial(_dated, "aws-elb-requests/elb_request_count_8c0756.csv", "timestamp", "value", 300.0, "line"),
    "bikeshare": partial(_dated, "bikeshare-hourly/hourly_bikesharing.csv.gz", "ts", "count", 3600.0, "line"),
    "metro-traffic": _metro,
    "demeter-cars": partial(_demeter, "CARS_3D_1S_4_sub_35K_max.csv.gz"),
    "demeter-ads": partial(_demeter, "ADS_3D_1S_4_sub_30K_max.csv.gz"),
    **{
        f"tweets-{ticker.lower()}": partial(
            _dated, f"nab-tweets/Twitter_volume_{ticker}.csv.gz", "timestamp", "value", 300.0, "line"
        )
        for ticker in _TWEETS
    },
    **{f"dsp-{name.lower().replace('_', '-')}": partial(_normalised, f"{name}_5min.csv.gz") for name in _NORMALISED},
}


def trace_load(name: str, *, peak: float | None = None, from_s: float = 0.0, lasting_s: float | None = None) -> Steps:
    """Return a part of a trace, by default up to its end.

    With ``peak``, rates are scaled so that the highest one of the part is this many records per second.
    """
    require_time("from", from_s)
    trace = read_trace(name)
    end_s = len(trace.rates_per_s) * trace.step_s
    until_s = end_s if lasting_s is None else from_s + lasting_s
    if lasting_s is not None:
        require_length("lasting", lasting_s)
    if not (from_s < end_s and until_s <= end_s):
        raise InputError(f"trace {name!r} ends at {plain(end_s)}s; {plain(from_s)}s to {plain(until_s)}s is not in it.")
    first, end = int(from_s // trace.step_s), math.ceil(until_s / trace.step_s)
    rates_per_s = trace.rates_per_s[first:end]
    notes: tuple[str, ...] = ()
    if peak is not None:
        require_rate("peak", peak)
        highest_per_s = float(rates_per_s.max())
        if highest_per_s == 0:
            raise InputError(f"trace {name!r} has no records from {plain(from_s)}s to {plain(until_s)}s to scale.")
        factor = peak / highest_per_s
        rates_per_s = rates_per_s * factor
        notes = (f"multiplied by {factor:.6g}, for a peak of {plain(peak)} records/s",)
    bounds_s = [0.0, *(step * trace.step_s - from_s for step in range(first + 1, end)), until_s - from_s]
    return Steps(bounds_s, rates_per_s.tolist(), _described(name, peak, from_s, lasting_s), notes=notes)


def _described(name: str, peak: float | None, from_s: float, lasting_s: float | None) -> str:
    parts = [f"trace:{name}"]
    if peak is not None:
        parts.append(f"peak={plain(peak)}")
    if from_s:
        parts.append(f"from={plain(from_s)}s")
    if lasting_s is not None:
        parts.append(f"lasting={plain(lasting_s)}s")
    return ",".join(parts)
