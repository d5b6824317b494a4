"""Records of one's own: a template is filled in, and the lines of a file are repeated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headgate.core.errors import InputError
from headgate.workloads.draws import Keys
from headgate.workloads.own_payloads import FilePayloads, TemplatePayloads, read_template

TEMPLATE = (
    '{"id": $number, "user": "$key", "due": $at_ms, "at": "$at", "share": $random, '
    '"amount": ${int:-5..5}, "colour": "${choice:red|green}", "price": "$5 and $$"}'
)
DUE_MS = np.arange(1_700_000_000_000, 1_700_000_000_000 + 400, 4)


def filled(first: int = 0, count: int = 100) -> list[dict[str, object]]:
    payloads = TemplatePayloads(TEMPLATE, 3, Keys(count=5, seed=3))
    return [json.loads(record.value) for record in payloads.records(first, DUE_MS[:count])]


def test_a_template_is_filled_for_each_record() -> None:
    records = filled()
    assert [record["id"] for record in records] == list(range(100))
    assert records[0]["due"] == 1_700_000_000_000
    assert records[0]["at"] == "2023-11-14T22:13:20.000+00:00"
    assert {record["colour"] for record in records} == {"red", "green"}
    assert {record["amount"] for record in records} == set(range(-5, 6))
    assert {record["user"] for record in records} == {f"k{key}" for key in range(5)}
    assert all(0 <= float(str(record["share"])) < 1 for record in records)
    assert records[0]["price"] == "$5 and $$", "what is no placeholder is sent as it is"


def test_a_record_depends_on_its_number_and_not_on_those_made_with_it() -> None:
    later = TemplatePayloads(TEMPLATE, 3, Keys(count=5, seed=3)).records(40, DUE_MS[40:60])
    assert [json.loads(record.value) for record in later] == filled()[40:60]


@pytest.mark.parametrize("spec", ["int:5..1", "int:a..b", "choice:", "colour", "int"])
def test_a_placeholder_that_is_not_known_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match="is not understood; there are \\$number"):
        TemplatePayloads(f"${{{spec}}}", 0, Keys())


def test_a_template_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"id": $number}\n')
    assert read_template(f"@{tmp_path / 'order.json'}") == '{"id": $number}'
    with pytest.raises(InputError, match="cannot be read: no such file or directory"):
        read_template(f"@{tmp_path / 'none.json'}")


def test_the_lines_of_a_file_are_repeated_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text('{"user": "ann", "n": 1}\n\n{"user": "ben", "n": 2}\n')
    records = FilePayloads(file, "user").records(1, DUE_MS[:3])
    assert [(record.key, json.loads(record.value)["n"]) for record in records] == [
        (b"ben", 2),
        (b"ann", 1),
        (b"ben", 2),
    ]
    assert FilePayloads(file).records(0, DUE_MS[:1])[0].key is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no record; one JSON value a line is needed."),
        ('{"user": 1}\n{oops}\n', "line 2: this is not JSON"),
        ('{"user": 1}\n{"n": 2}\n', "line 2: there is no field 'user' for the key."),
    ],
)
def test_a_file_that_cannot_be_sent_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        FilePayloads(file, "user")
