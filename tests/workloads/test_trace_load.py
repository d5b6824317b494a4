"""A part of a public trace as a workload, with its own rates or scaled."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.workloads import parse_workload

ROWS = "timestamp,value\n2014-04-10 00:00:00,300\n2014-04-10 00:05:00,600\n2014-04-10 00:10:00,0\n"


@pytest.fixture(autouse=True)
def _a_folder_with_one_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300, 600 and no records in three steps of five minutes."""
    file = tmp_path / "aws-elb-requests" / "elb_request_count_8c0756.csv"
    file.parent.mkdir()
    file.write_text(ROWS)
    monkeypatch.setenv("HEADGATE_TRACES", str(tmp_path))


@pytest.mark.parametrize(
    ("spec", "spans"),
    [
        ("trace:aws-elb", [(0, 900, 900.0), (0, 300, 300.0), (300, 600, 600.0), (900, 10_000, 0.0)]),
        ("trace:aws-elb,peak=20", [(0, 300, 3000.0), (300, 600, 6000.0)]),
        ("trace:aws-elb,from=4m", [(0, 60, 60.0), (60, 360, 600.0), (360, 10_000, 0.0)]),
        ("trace:aws-elb,lasting=6m", [(0, 300, 300.0), (300, 360, 120.0), (360, 10_000, 0.0)]),
        ("trace:aws-elb,peak=7,from=60s,lasting=60s", [(0, 60, 420.0), (60, 10_000, 0.0)]),
    ],
)
def test_a_part_has_the_records_of_the_trace(spec: str, spans: list[tuple[float, float, float]]) -> None:
    workload = parse_workload(spec)
    for from_s, to_s, records in spans:
        assert workload.arrivals(from_s, to_s) == pytest.approx(records)
    again = parse_workload(workload.describe())
    assert again.arrivals(0, 10_000) == workload.arrivals(0, 10_000)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("trace:aws-elb,from=1h", "trace 'aws-elb' ends at 900s; 3600s to 900s is not in it."),
        ("trace:aws-elb,from=10m,lasting=6m", "trace 'aws-elb' ends at 900s; 600s to 960s is not in it."),
        ("trace:aws-elb,lasting=0s", "lasting=0s is not allowed; a duration must be finite and above 0."),
        ("trace:aws-elb,peak=-1", "peak=-1 is not allowed; a rate must be finite and not negative."),
        ("trace:aws-elb,peak=5,from=10m", "trace 'aws-elb' has no records from 600s to 900s to scale."),
        ("trace:wc98", "trace 'wc98' cannot be read from"),
    ],
)
def test_a_part_that_there_is_not_is_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_workload(spec)
