"""Tables at any width: no word is cut, numbers stand on the right, and what does not fit stands below."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from headgate.cli.common import print_table
from headgate.core.types import JSON

ROWS: list[dict[str, JSON]] = [
    {
        "policy": name,
        "place": 1.0 + index,
        "kept_pct": 97.25 - index,
        "cost": 1.125 * (index + 1),
        "largest_backlog_records": 123456.0 * index,
        "latency_p95_s": None if index == 1 else 8.5,
        "empty": None,
        "settings": "upper 0.8, lower 0.3, scale in window 300 s, tolerance 0.1",
    }
    for index, name in enumerate(("autopilot", "online-parameter-optimization", "hpa"))
]


def printed(width: int, rows: list[dict[str, JSON]] = ROWS) -> str:
    out = io.StringIO()
    print_table(rows, Console(file=out, width=width, no_color=True))
    return out.getvalue()


@pytest.mark.parametrize("width", [50, 80, 120, 200])
def test_every_word_is_whole_at_any_width(width: int) -> None:
    text = printed(width)
    assert max(len(line) for line in text.splitlines()) <= width
    words = set(text.split())
    for word in ("autopilot", "online-parameter-optimization", "records", "latency", "123,456", "tolerance"):
        assert word in words or f"{word}," in words, f"{word} is cut at {width}:\n{text}"
    assert "…" not in text


def test_what_does_not_fit_stands_below_with_the_same_rows() -> None:
    assert printed(200).count("autopilot") == 1
    narrow = printed(60)
    assert narrow.count("autopilot") > 1
    assert "\n\n" in narrow


def test_a_number_is_not_torn_from_its_unit() -> None:
    rows: list[dict[str, JSON]] = [
        {
            "what": name * 12,
            "found": f"{number} records/s",
            "nine in ten": "13.5 to 16.3",
            "off": text,
            "from": "3 start-ups",
        }
        for name, number, text in (("a", 15.1, "+0.0 %"), ("b", 2.25, "+7.5 points"), ("c", 10, "+11.8 %"))
    ]
    text = printed(62, rows)
    for number in ("15.1 records/s", "13.5 to 16.3", "+0.0 %", "+7.5 points", "3 start-ups"):
        assert number in text, text


def test_numbers_stand_on_the_right_and_text_on_the_left() -> None:
    text = printed(200)
    for column in (("1.12", "2.25", "3.38"), ("0", "123,456", "246,912")):
        ends = {match.end() for line in text.splitlines() for match in re.finditer(rf" ({'|'.join(column)}) ", line)}
        assert len(ends) == 1, text
    begun = [line.split()[0] for line in text.splitlines() if not line.startswith(" ")]
    assert begun == ["policy", *(row["policy"] for row in ROWS)]


def test_columns_have_words_with_units_and_empty_columns_are_left_out() -> None:
    head = " ".join(printed(200).splitlines()[:2])
    for text in ("kept %", "latency p95, s", "largest backlog records"):
        assert text in head
    assert "empty" not in head


def test_rows_are_identified_by_as_many_columns_as_needed() -> None:
    rows: list[dict[str, JSON]] = [
        {"workload": load, "policy": policy, **{f"figure number {index}": 1000.0 * index for index in range(8)}}
        for load in ("sine", "ramp")
        for policy in ("hpa", "ds2")
    ]
    blocks = printed(60, rows).split("\n\n")
    assert len(blocks) > 1
    assert all("hpa" in block and "sine" in block for block in blocks)


def test_no_rows_are_no_table() -> None:
    assert printed(80, []) == ""


def test_counts_have_their_thousands_apart_wherever_they_stand() -> None:
    text = printed(80, [{"policy": "hpa", "records": 86_400, "backlog": 1234.5, "rescales": 12, "late_pct": 0.25}])
    assert text.split()[-5:] == ["hpa", "86,400", "1,234", "12", "0.25"]
