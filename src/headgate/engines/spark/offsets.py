"""What the offsets of a source say about records. No JVM is needed here.

An offset is JSON of the source's own making: a number, or numbers by topic and partition. Each number is a *partition*
here, known by its path.

>>> partitions_of('{"events": {"0": 503, "1": 498}}')
{('events', '0'): 503.0, ('events', '1'): 498.0}
"""

from __future__ import annotations

import functools
import json
import statistics
from collections import deque
from collections.abc import Mapping
from typing import TypeAlias

from headgate.core.errors import InputError
from headgate.core.units import parse_duration_s

Partition: TypeAlias = tuple[str, ...]
Offsets: TypeAlias = Mapping[Partition, float]
"""How far a source has come, in each of its partitions."""

_NOT_COUNTED = frozenset({"timestamp"})
"""Keys of offsets whose numbers count no records (rate-micro-batch has one)."""
_RECORD_BY_RECORD = frozenset({"kafka", "headgate-load", "headgate-records", "rate", "rate-micro-batch"})
"""Sources whose offset moves on by one for each record, or by more than one where there are gaps; that of ``rate`` does
once its seconds were made records of (``rate_source.py``)."""
_MAX_RATIOS = 15


@functools.lru_cache(maxsize=64)
def partitions_of(offset: str | None) -> Offsets | None:
    """The numbers in an offset as text; ``None`` where there is no offset, or it has no numbers.

    The end of a batch is the start of the next one, and is looked at again and again while it runs.
    """
    if not offset:
        return None
    try:
        return numbers_in(json.loads(offset))
    except ValueError:
        return None


def numbers_in(offset: object) -> Offsets | None:
    """The numbers in an offset that was parsed before; ``None`` where there are none."""
    found: dict[Partition, float] = {}
    _collect(offset, (), found)
    return found or None


def _collect(part: object, path: Partition, found: dict[Partition, float]) -> None:
    if isinstance(part, dict):
        for key, value in part.items():
            if key not in _NOT_COUNTED:
                _collect(value, (*path, key), found)
    elif type(part) is int or type(part) is float:  # Truth values are no numbers here.
        found[path] = float(part)


def distance(start: Offsets, end: Offsets) -> float:
    """How far it is from one offset to another, over all partitions; one that is new counts from its start."""
    return sum(max(0.0, reached - start.get(name, 0.0)) for name, reached in end.items())


class RecordsPerOffset:
    """How many records there are per step of a source's offset, learned from its batches.

    Rows that Spark has *read* are not the same: a ``foreachBatch`` that looks whether there is anything and then
    writes reads some records twice. Transactional and compacted topics have fewer records than offsets. What most of
    the last batches say counts, so that an odd one changes nothing.
    """

    def __init__(self, source: str) -> None:
        self._most = 1.0 if source in _RECORD_BY_RECORD else float("inf")
        self._ratios: deque[float] = deque(maxlen=_MAX_RATIOS)

    @property
    def value(self) -> float:
        return min(self._most, statistics.median(self._ratios)) if self._ratios else 1.0

    def learn(self, rows: float, steps: float) -> None:
        """Take in the rows that a batch has read, and the steps that its offset has moved on."""
        if rows > 0 and steps > 0:
            self._ratios.append(rows / steps)


def records_by(second: float, options: Mapping[str, str]) -> float:
    """Records that the source has given by an offset of so many seconds."""
    given = {key.lower(): value for key, value in options.items()}
    rate_per_s = _whole(given.get("rowspersecond", "1"))
    ramp_s = _whole(given.get("rampuptime", "0"))
    ramped_s = min(second, ramp_s)
    return rate_per_s // (ramp_s + 1) * ramped_s * (ramped_s + 1) / 2 + (second - ramped_s) * rate_per_s


def _whole(text: str) -> int:
    # Spark has refused by now what it does not understand; what it does and we do not, such as 100us, is next to none.
    try:
        return int(parse_duration_s(text))
    except InputError:
        return 0
