"""When records came into a file sink, as its files tell it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.apps.sink_files import LOG, delivered


def write(output: Path, name: str, numbers: Sequence[int], at_s: float) -> str:
    """A file of the sink, as a task leaves it; gives its entry in the log."""
    output.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(numbers, pa.int64())}), output / name)
    os.utime(output / name, (at_s, at_s))
    return json.dumps({"path": (output / name).as_uri(), "action": "add"})


def commit(output: Path, name: str, entries: Sequence[str], at_s: float) -> None:
    (output / LOG).mkdir(exist_ok=True)
    log = output / LOG / name
    log.write_text("\n".join(["v1", *entries]))
    os.utime(log, (at_s, at_s))


def test_records_are_written_by_their_task_and_seen_when_their_batch_is_committed(tmp_path: Path) -> None:
    output = tmp_path / "a sink"
    first = [write(output, "part 0", [0, 1], 10.0), write(output, "part 1", [2], 11.0)]
    commit(output, "0", first, 12.0)
    # Every now and then an entry repeats those before it.
    commit(output, "1.compact", [*first, write(output, "part 2", [4], 13.0)], 14.0)
    # A task that was interrupted leaves a file that does not count, and Spark a checksum next to each entry.
    write(output, "part 3", [3], 13.5)
    (output / LOG / ".0.crc").write_bytes(b"crc")
    found = delivered(output, 5)
    np.testing.assert_array_equal(found.written_s, [10, 10, 11, np.inf, 13])
    np.testing.assert_array_equal(found.committed_s, [12, 12, 12, np.inf, 14])


def test_records_beyond_those_requested_for_are_left_out(tmp_path: Path) -> None:
    commit(tmp_path, "0", [write(tmp_path, "part", [0, 1, 2], 5.0)], 6.0)
    assert delivered(tmp_path, 2).committed_s.tolist() == [6.0, 6.0]
