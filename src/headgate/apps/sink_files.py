"""When each record was written and committed, by the files of a job's sink and the clock of the file system.

The files are independent of what Spark or Headgate report. Records are numbered (``SteadyJob``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LOG = "_spark_metadata"
"""Where a streaming query lists the valid files of its sink: an entry per batch, written when it is committed."""


@dataclass(frozen=True)
class Delivered:
    """Times by number of the record; infinity for records that are not in the sink."""

    written_s: Floats
    """When the task finished its file."""
    committed_s: Floats
    """When the batch was committed: readers of the sink see it from then on."""


def delivered(output: Path, records: int) -> Delivered:
    """Return when each of the first ``records`` records reached the sink."""
    written_s, committed_s = np.full(records, np.inf), np.full(records, np.inf)
    for file, at_s in _files(output):
        numbers = pq.read_table(file, columns=["id"], partitioning=None)["id"].to_numpy()
        numbers = numbers[numbers < records]
        written_s[numbers] = np.minimum(written_s[numbers], file.stat().st_mtime)
        committed_s[numbers] = np.minimum(committed_s[numbers], at_s)
    return Delivered(written_s, committed_s)


def _files(output: Path) -> Iterator[tuple[Path, float]]:
    """Yield the valid files with their commit times. Now and then an entry repeats all earlier ones."""
    entries = {
        int(entry.name.partition(".")[0]): entry for entry in (output / LOG).iterdir() if entry.name[0].isdigit()
    }
    seen: set[str] = set()
    for _, entry in sorted(entries.items()):
        for line in entry.read_text(encoding="utf-8").splitlines()[1:]:
            address = str(json.loads(line)["path"])
            if address not in seen:
                seen.add(address)
                yield Path(unquote(urlparse(address).path)), entry.stat().st_mtime
