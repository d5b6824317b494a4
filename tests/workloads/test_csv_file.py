"""Recorded traces from CSV files."""

import gzip
import os
import re
from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.workloads import parse_workload
from headgate.workloads.load_files import read_csv

ROOT = Path(__file__).parents[2]
TRACES = Path(os.environ.get("HEADGATE_TRACES", ROOT / "../shared/data"))


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,count\n0,600\n60,1200\n120,0\n",
        "timestamp,rate\n0,10\n60,20\n120,0\n",
        "timestamp,value\n1661724000,600\n1661724060,1200\n1661724120,0\n",
        "timestamp,count\n2024-05-01T12:00:00Z,600\n2024-05-01T12:01:00Z,1200\n2024-05-01T12:02:00Z,0\n",
        "timestamp,count\n2024-05-01 12:00,600\n2024-05-01 12:01,1200\n2024-05-01 12:02,0\n",
        "timestamp,count\n2024-05-01T12:00:00+02:00,600\n2024-05-01T10:01:00Z,1200\n2024-05-01T10:02:00Z,0\n",
        '"id", "Count" ,"Timestamp"\n7,600,0\n8,1200,60\n\n9,0,120\n',
        "\ufefftimestamp,count\r\n0,600\r\n60,1200\r\n120,0\r\n",
    ],
    ids=["count", "rate", "value", "iso", "iso-without-zone", "zones", "other-columns", "spreadsheet"],
)
def test_a_trace_is_read_from_any_of_its_forms(tmp_path: Path, text: str) -> None:
    trace = read_csv(written(tmp_path, text))
    assert [trace.rate_per_s(at_s) for at_s in (0, 59, 60, 119, 120)] == [10, 10, 20, 20, 0]
    assert trace.arrivals(30, 90) == pytest.approx(900)


def test_a_compressed_trace_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "trace.bin"
    path.write_bytes(gzip.compress(b"timestamp,rate\n0,10\n60,20\n"))
    assert parse_workload(f"csv:{path}").arrivals(0, 120) == 1800


def test_the_last_row_lasts_as_long_as_the_one_before_it_and_then_nothing_arrives(tmp_path: Path) -> None:
    trace = read_csv(written(tmp_path, "timestamp,count\n0,600\n60,600\n100,600\n"))
    assert [trace.rate_per_s(at_s) for at_s in (0, 60, 100, 139, 140)] == [10, 15, 15, 15, 0]
    assert trace.end_s == 140


@pytest.mark.parametrize("name", ["count", "value", "rate"])
def test_a_gap_is_a_gap_unless_it_is_to_be_filled(tmp_path: Path, name: str) -> None:
    amount, filled = (10, 10) if name == "rate" else (600, 2)
    path = written(tmp_path, f"timestamp,{name}\n" + "".join(f"{at_s},{amount}\n" for at_s in (0, 60, 360, 420)))
    left = parse_workload(f"csv:{path}")
    assert [left.rate_per_s(at_s) for at_s in (60, 119, 120, 359, 360, 479, 480)] == [10, 10, 0, 0, 10, 10, 0]
    went_on = parse_workload(f"csv:{path},gaps=fill")
    assert [went_on.rate_per_s(at_s) for at_s in (60, 200, 359, 360)] == [filled, filled, filled, 10]
    if name != "rate":
        assert left.arrivals(0, 1e6) == pytest.approx(went_on.arrivals(0, 1e6)) == pytest.approx(2400)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has the columns (none); 'timestamp' and one of 'count', 'value' or 'rate' are needed."),
        (
            "time,count\n0,1\n",
            "has the columns time, count; 'timestamp' and one of 'count', 'value' or 'rate' are needed.",
        ),
        (
            "timestamp;count\n0;1,5\n",
            "has the columns timestamp;count; 'timestamp' and one of 'count', 'value' or 'rate' are needed, with a "
            "comma between columns.",
        ),
        ('"timestamp,count\n0,1\n', r"has the columns 'timestamp,count\n0,1'; 'timestamp' and one of"),
        ("timestamp,timestamp,count\n0,1,5\n", "has the column 'timestamp' 2 times; once is allowed."),
        ("timestamp,load\n0,1\n", "has the columns timestamp, load; 'timestamp' and one of"),
        ("timestamp,count,rate\n0,1,1\n", "has the columns timestamp, count, rate; 'timestamp' and one of"),
        ("timestamp,count\n", "has 0 rows of data; at least 2 are needed to know an interval."),
        ("timestamp,rate\n0,1\n", "has 1 row of data; at least 2 are needed to know an interval."),
        ("timestamp,count\n0,1\n60\n", "line 3 has 1 column; the header has more."),
        (
            "timestamp,count\n0,1\n60,1,5\n",
            "line 3 has 3 columns; the header has 2. Numbers are written with a point, such as 1.5.",
        ),
        ('timestamp,count\n0,1\n60,"1,5"\n', "line 3 has the amount '1,5'; a number that is not negative is needed."),
        ("timestamp,count\n0,1\n60,\n", "line 3 has the amount ''; a number that is not negative is needed."),
        ("timestamp,count\n0,1\n\n60,many\n", "line 4 has the amount 'many'; a number that is not negative is needed."),
        ("timestamp,count\n0,1\n60,1e308\n", "line 3 has the amount '1e308'; at most 1e+15 is allowed."),
        ("timestamp,count\n0,1e15\n0.5,1\n", "line 2 has 1e15 records in 0.5 s; at most 1e+15 in one are allowed."),
        ("timestamp,count\n0,1\n60,-1\n", "line 3 has the amount '-1'; a number that is not negative is needed."),
        ("timestamp,count\n0,1\n60,nan\n", "line 3 has the amount 'nan'; a number that is not negative is needed."),
        (
            "timestamp,count\n,1\n60,1\n",
            "line 2 has the timestamp ''; ISO 8601 (2024-05-01T12:00) or seconds are allowed.",
        ),
        ("timestamp,count\nnoon,1\n60,1\n", "line 2 has the timestamp 'noon'; ISO 8601"),
        (
            "timestamp,count\n0,1\n2024-05-01T00:01,1\n",
            "line 3 has the timestamp '2024-05-01 00:01:00', a date, and rows before it have numbers; one file has all",
        ),
        (
            "timestamp,count\n2024-05-01T00:01,1\n60,1\n",
            "line 3 has the timestamp '60', a number, and rows before it have dates; one file has all as dates or all",
        ),
        (
            "timestamp,count\n1714521600000,1\n1714521660000,1\n",
            "line 2 has the timestamp '1714521600000', which is no time in seconds but may be one in milliseconds;",
        ),
        ("timestamp,count\ninf,1\n", "line 2 has the timestamp 'inf'; it must be finite."),
        (
            "timestamp,count\n0,1\n60,1\n30,1\n",
            "line 4 has an earlier timestamp than the row before it (30); rows must be",
        ),
        ("timestamp,count\n0,1\n60,1\n60,1\n", "line 4 has the same timestamp as the row before it (60); rows must be"),
    ],
)
def test_a_wrong_file_is_answered_with_the_file_and_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=re.escape(f"workload file {str(path)!r} {message}")) as raised:
        read_csv(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"timestamp,count\n\xff\xfe\x00,1\n", "codec can't decode"),
        (gzip.compress(b"timestamp,count\n0,1\n60,1\n")[:-12], "ended before the end-of-stream"),
        (gzip.compress(b"timestamp,count\n0,1\n60,1\n")[:12] + b"garbage garbage garbage", "while decompressing"),
    ],
    ids=["not-utf-8", "cut-off", "corrupt"],
)
def test_a_damaged_file_is_answered_in_one_sentence(tmp_path: Path, content: bytes, cause: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"cannot be read: .*{re.escape(cause)}"):
        read_csv(path)


@pytest.mark.parametrize(
    ("name", "records", "days"),
    [
        ("aws-elb-requests/elb_request_count_8c0756.csv", 249_327, 14.0),
        ("nyc-taxi-30min/nyc_taxi.csv", 156_219_716, 215.0),
        ("nab-tweets/Twitter_volume_AMZN.csv.gz", 843_768, 55.0),
    ],
)
def test_real_traces_keep_all_their_records(name: str, records: float, days: float) -> None:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the trace {name} is not here; set HEADGATE_TRACES to the folder of the traces")
    trace = read_csv(path)
    assert trace.arrivals(0, trace.end_s) == pytest.approx(records)
    assert trace.end_s / 86400 == pytest.approx(days, abs=0.1)
