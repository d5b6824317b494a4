"""A user's files: what is wrong with them is said with the line, what is repaired is said with how often."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError, UnknownNameError
from headgate.workloads import parse_workload
from headgate.workloads.composed import end_of, notes_of
from headgate.workloads.contract import Workload
from headgate.workloads.recorded_rows import RecordedRow, steps_of


def total(load: Workload) -> float:
    end_s = end_of(load)
    assert end_s is not None
    return load.arrivals(0.0, end_s)


def written(folder: Path, text: str, name: str = "load.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "timestamp,count\n60,1\n0,1\n",
            "",
            "line 3 has an earlier timestamp than the row before it (0); rows must be sorted by time, one for each. "
            "repair=yes sorts them and puts those of one time together.",
        ),
        ("timestamp,count\n0,1\n0,1\n", "", "line 3 has the same timestamp as the row before it (0); rows must be"),
        (
            "timestamp,count\n0,1\n60,\n",
            "",
            "line 3 has the amount ''; a number that is not negative is needed. With repair=yes a row without one is a "
            "gap.",
        ),
        ("timestamp,count\n0,1\n60,-2\n", ",repair=yes", "line 3 has the amount '-2'; a number that is not negative"),
        (
            "timestamp,count\n2024-05-01T00:00Z,1\n2024-05-01T01:00,1\n",
            "",
            "line 3 has the timestamp '2024-05-01 01:00:00' with no zone, and rows before it have one; zone=UTC, for "
            "example, says which one is meant where there is none.",
        ),
        (
            "timestamp,count\n2024-03-31T01:00,1\n2024-03-31T02:30,1\n",
            ",zone=Europe/Berlin",
            "line 3 has the timestamp '2024-03-31 02:30:00', which the clocks of Europe/Berlin skipped.",
        ),
        (
            "ts,n\n0,1\n60,1\n",
            "",
            "has the columns ts, n; 'timestamp' and one of 'count', 'value' or 'rate' are needed.",
        ),
        ("ts,n\n0,1\n60,1\n", ",time=ts,count=m", "has the columns ts, n; 'ts' and 'm' are needed."),
        (
            "timestamp,count\n0,1\n60,1\n",
            ",zone=Mars",
            "zone 'Mars' is not known; write for example UTC or Europe/Berlin.",
        ),
        ("timestamp,count\n0,1\n60,1\n", ",repair=maybe", "repair=maybe is not allowed; yes or no is."),
        ("timestamp,count\n0,1\n60,1\n", ",gaps=none", "gaps=none is not allowed; empty or fill is."),
        ("timestamp,count\n0,1\n60,1\n", ",scale=much", "scale 'much' is not a number; write for example 2 or 0.5."),
        ("timestamp,count\n0,1\n60,1\n", ",step=0s", "step=0s is not allowed; a duration must be finite and above 0."),
        ("timestamp,count\n0,1\n60,1\n", ",scale=2,scale=3", "gives scale twice; once is allowed."),
        ("a,b,c\n0,1,2\n", ",count=b,rate=c", "count=b and rate=c do not go together; one is the amount."),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path: Path, text: str, options: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_workload(f"csv:{written(tmp_path, text)}{options}")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "options", "notes", "arrives"),
    [
        ("timestamp,count\n60,1\n0,2\n120,4\n", "repair=yes", ["1 row earlier than the one before, put in order"], 7),
        ("timestamp,count\n0,1\n0,2\n60,4\n", "repair=yes", ["1 row of a time that was there already, added up"], 7),
        ("timestamp,rate\n0,1\n0,3\n60,4\n", "repair=yes", ["1 row of a time that was there already, averaged"], 360),
        (
            "timestamp,count\n0,1\n60,\n120,2\n180,4\n240,8\n",
            "repair=yes",
            [
                "1 row without an amount left out",
                "1 gap, the longest 60s: nothing arrives there (gaps=fill: the count is spread over it)",
            ],
            15,
        ),
        (
            "timestamp,count\n0,1\n60,2\n360,4\n420,8\n",
            "gaps=fill",
            ["1 gap, the longest 4m: the count is spread over it"],
            15,
        ),
        (
            "timestamp,count\n2024-10-27T01:30,1\n2024-10-27T02:30,2\n2024-10-27T02:30,4\n2024-10-27T03:30,8\n",
            "zone=Europe/Berlin",
            ["1 timestamps taken for the second of an hour that the clocks had twice"],
            15,
        ),
        ("timestamp,count\n0,1\n60,2\n", "scale=2.5", ["multiplied by 2.5"], 7.5),
        ("timestamp,count\n0,1\n60,2\n", "step=2m", ["resampled to steps of 120 s, from 2 of 60 s on average"], 3),
    ],
)
def test_what_was_done_to_a_file_is_said(
    tmp_path: Path, text: str, options: str, notes: list[str], arrives: float
) -> None:
    spec = f"csv:{written(tmp_path, text)},{options}"
    load = parse_workload(spec)
    sentences = notes_of(load)
    assert len(sentences) == len(notes)
    assert all(sentence.endswith(f"{note}.") for sentence, note in zip(sentences, notes, strict=True)), sentences
    assert total(load) == pytest.approx(arrives)
    assert total(parse_workload(load.describe())) == pytest.approx(arrives)


def test_a_file_may_have_a_comma_in_its_name_and_be_put_together_with_others(tmp_path: Path) -> None:
    path = written(tmp_path, "ts,n\n0,60\n60,120\n", "a, b.csv")
    load = parse_workload(f"csv:{path},time=ts,count=n * 3 + constant:1")
    assert load.rate_per_s(30.0) == pytest.approx(4.0)
    assert notes_of(load) == [f"csv:{path},time=ts,count=n: multiplied by 3."]


def test_levels_last_as_long_as_their_line_says(tmp_path: Path) -> None:
    path = written(tmp_path, "# the example of the document\n10, 500\n20, 700\n\n10, 600  # and down\n", "load.txt")
    load = parse_workload(f"levels:{path},rate=2")
    assert [load.rate_per_s(at_s) for at_s in (0, 9.9, 10, 29.9, 30, 39.9, 40)] == [
        1000, 1000, 1400, 1400, 1200, 1200, 0,
    ]  # fmt: skip
    assert notes_of(load) == [f"levels:{path},rate=2: a level of 1 is 2 records/s."]
    assert total(parse_workload(load.describe())) == total(load) == 2 * (5000 + 14000 + 6000)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", "", "has no line of seconds, level; at least 1 is needed."),
        (
            "10, 500\n0, 3\n",
            "",
            "line 2 has '0, 3'; seconds above 0 and a level that is not negative are needed: 10, 500.",
        ),
        ("10\n", "", "line 1 has '10'; seconds above 0"),
        ("10, -1\n", "", "line 1 has '10, -1'; seconds above 0"),
        ("10, 5\n", ",rate=-1", "rate=-1 is not allowed; a rate must be finite and not negative."),
    ],
)
def test_what_is_wrong_with_levels_is_one_sentence(tmp_path: Path, text: str, options: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_workload(f"levels:{written(tmp_path, text, 'load.txt')}{options}")
    assert message in str(caught.value)
    with pytest.raises(UnknownNameError, match="zone"):
        parse_workload(f"levels:{tmp_path / 'load.txt'},zone=UTC")


def test_parquet_says_the_same_as_csv_whatever_its_timestamps(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from datetime import UTC, datetime, timedelta
    from zoneinfo import ZoneInfo

    start = datetime(2024, 5, 1, tzinfo=UTC)
    moments = [start + timedelta(minutes=step) for step in range(4)]
    local = [moment.astimezone(ZoneInfo("Asia/Tokyo")) for moment in moments]
    naive = [moment.replace(tzinfo=None) for moment in moments]
    kinds = {
        "zone": pa.array(local, pa.timestamp("us", tz="Asia/Tokyo")),
        "naive": pa.array(naive, pa.timestamp("ns")),
        "text": pa.array([moment.isoformat() for moment in moments]),
        "seconds": pa.array([int(moment.timestamp()) for moment in moments]),
    }
    for name, times in kinds.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"timestamp": times, "count": [60, 120, 60, 0]}), path)
        assert [parse_workload(f"parquet:{path}").rate_per_s(at_s) for at_s in (0, 60, 120, 180)] == [1, 2, 1, 0], name
    folder = tmp_path / "parts"
    folder.mkdir()
    for part, rows in enumerate(([2, 3], [0, 1])):
        table = pa.table({"timestamp": [60 * row for row in rows], "count": [60 * row for row in rows]})
        pq.write_table(table, folder / f"part-0000{part}.parquet")
    (folder / "_SUCCESS").touch()
    assert total(parse_workload(f"parquet:{folder}")) == pytest.approx(360)
    pq.write_table(pa.table({"timestamp": [0, 60], "count": [1, None]}), tmp_path / "hole.parquet")
    with pytest.raises(InputError, match=r"hole.parquet' row 2 has the amount ''; .* repair=yes"):
        parse_workload(f"parquet:{tmp_path / 'hole.parquet'}")
    with pytest.raises(InputError, match="cannot be read"):
        parse_workload(f"parquet:{written(tmp_path, 'no parquet', 'text.parquet')}")


@given(
    counts=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 10_000)), min_size=3, max_size=40),
    step_s=st.floats(0.5, 400),
    seed=st.integers(0, 10),
    fill_gaps=st.booleans(),
)
def test_no_repair_and_no_resampling_loses_or_invents_a_record(
    counts: list[tuple[int, int]], step_s: float, seed: int, fill_gaps: bool
) -> None:
    if len({at_s for at_s, _ in counts}) < 2:
        return
    random.Random(seed).shuffle(counts)
    rows = [RecordedRow(f"row {place}", str(at_s), float(at_s), float(n)) for place, (at_s, n) in enumerate(counts)]
    steps = steps_of("it", rows, is_count=True, repair=True, fill_gaps=fill_gaps, any_order=False, described="it")
    every = sum(n for _, n in counts)
    assert total(steps) == pytest.approx(every, abs=1e-6)
    assert total(steps.resampled(step_s)) == pytest.approx(every, abs=1e-6)
