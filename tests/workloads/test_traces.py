"""Public traces: read where they are, and a clear sentence where they are not."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path

import pytest

from headgate.core.errors import InputError, UnknownNameError
from headgate.workloads.traces import VARIABLE, read_trace


def test_a_missing_folder_is_reported_with_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"nowhere'; set HEADGATE_TRACES to the folder"):
        read_trace("wc98")


def test_an_unknown_trace_is_answered_with_the_closest_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'wc98'"):
        read_trace("wc89")


def test_counts_become_rates_and_missing_minutes_are_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "wc98").mkdir()
    rows = "period,count\n1998-05-01 00:00:00,60\n1998-05-01 00:01:00,120\n1998-05-01 00:03:00,30\n"
    (tmp_path / "wc98" / "invocation_count.csv.gz").write_bytes(gzip.compress(rows.encode()))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    trace = read_trace("wc98")
    assert trace.rates_per_s.tolist() == [1.0, 2.0, 0.0, 0.5]
    assert trace.between(datetime(1998, 5, 1, 0, 1), datetime(1998, 5, 1, 0, 3)).tolist() == [2.0, 0.0]  # noqa: DTZ001
    with pytest.raises(InputError, match="does not cover"):
        trace.between(datetime(1998, 4, 30), datetime(1998, 5, 2))  # noqa: DTZ001
