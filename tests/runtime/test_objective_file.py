"""Objective files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.runtime.objective_file import text_or_file

YAML = """
slo: latency p95 < 10s
per: 6h      # of any six hours
by: time
cost: 12 per day
price: 0.25
instances: [1, 8]
"""
JSON = '{"slo": "latency p95 < 10s", "per": "6h", "by": "time", "cost": 12, "price": 0.25, "instances": [1, 8]}'


@pytest.mark.parametrize(
    ("name", "text"), [("objective.yaml", YAML), ("objective.yml", YAML), ("objective.json", JSON)]
)
def test_an_objective_is_the_same_from_a_file_as_from_its_text(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    expected = parse_objective("latency p95 < 10s per 6h by time, cost < 12 per day, price 0.25").within(1, 8)
    assert text_or_file(str(tmp_path / name)) == expected
    assert text_or_file(str(expected)).slo == expected.slo


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: no such file"),
        ("slo: [latency", ":1:14: this is not YAML"),
        ("slo: latency p95 < 10s\nper: soon", ":2:6: objective 'latency p95 < 10s' is not usable: duration 'soon'"),
        ("", ":1:1: the file is empty; expected slo"),
        ("slo: latency p95 < 10s\npers: 6h", ":2:1: unknown key 'pers' in an objective file, did you mean 'per'?"),
        ("slo: latency p95 < 10s\ninstances: 8\nprice: none", ":3:8: price 'none' is not understood"),
    ],
)
def test_a_file_without_a_usable_objective_is_named_in_the_error(
    tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "objective.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as raised:
        text_or_file(str(path))
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
