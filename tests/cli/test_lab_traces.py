"""headgate lab traces: what is at hand, and where the rest can be had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.workloads.trace_sources import how_to_get, source_of
from headgate.workloads.traces import trace_names
from tests.cli.commands import headgate


def test_every_trace_has_a_source() -> None:
    text = [how_to_get(source_of(name)) for name in trace_names()]
    assert all("HEADGATE_TRACES" in sentence and "from " in sentence for sentence in text)


def test_missing_traces_are_listed_with_their_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nyc-taxi-30min").mkdir()
    rows = "".join(f"2014-07-01 {hour:02}:00:00,1800\n2014-07-01 {hour:02}:30:00,1800\n" for hour in range(3))
    (tmp_path / "nyc-taxi-30min" / "nyc_taxi.csv").write_text(f"timestamp,value\n{rows}")
    monkeypatch.setenv("HEADGATE_TRACES", str(tmp_path))
    text = headgate("lab", "traces").stdout
    assert max(map(len, text.partition("\n\n")[0].splitlines())) <= 80
    line = next(line for line in text.splitlines() if line.startswith("nyc-taxi"))
    assert line.split()[1:4] == ["3h", "30m", "10,800"]
    assert "from GitHub nimamahmoudi/worldcup98-dataset" in " ".join(text.split())
    found = json.loads(headgate("lab", "traces", "--json").stdout)
    assert found["version"] == 1
    assert [trace["name"] for trace in found["traces"] if trace["at_hand"]] == ["nyc-taxi"]
    assert len(found["traces"]) == len(trace_names())
