"""Cases: plain data there and back, and rows that come of them, whatever happens."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.errors import EngineError, InputError
from headgate.lab.experiments.results import (
    count_rows,
    packed,
    read_parts,
    run_cases,
    schema,
    work_in,
    write_part,
)
from headgate.lab.experiments.run_case import FIGURES, Case, own_code, run_case
from headgate.runtime.summary import Summary
from tests.lab.experiments.matrices import OBJECTIVE, SMALL, first_case, row

HERE = Path()
TEXT = st.text(max_size=12)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
SETTINGS = st.dictionaries(TEXT, TEXT, max_size=3)
CASES = st.builds(
    Case,
    workload=TEXT,
    load=TEXT,
    scale=NUMBER,
    seconds=NUMBER,
    job=TEXT,
    rate_per_s=NUMBER,
    batches=st.none() | st.dictionaries(TEXT, NUMBER | st.lists(st.lists(NUMBER, max_size=2), max_size=2), max_size=3),
    readings=TEXT,
    startup_s=NUMBER,
    startup_spread=NUMBER,
    drain_s=NUMBER,
    objective=TEXT,
    objective_data=st.dictionaries(TEXT, TEXT | NUMBER, max_size=3),
    label=TEXT,
    policy=TEXT,
    settings=SETTINGS,
    guards=SETTINGS,
    start=st.none() | st.integers(1, 99),
    interval_s=NUMBER,
    seed=st.integers(0, 2**40),
    starts_at_s=st.just(0.0) | NUMBER,
)


@given(CASES)
@settings(max_examples=25)
def test_a_case_is_the_same_after_its_way_as_text(case: Case) -> None:
    again = Case.from_json(case.to_json())
    assert again == case
    assert again.key == case.key
    plain = {name: value for name, value in asdict(case).items() if name != "starts_at_s" or value}
    assert json.loads(case.to_json()) == {"version": 1, **plain}


@given(CASES)
@settings(max_examples=20)
def test_the_order_of_settings_does_not_make_another_case(case: Case) -> None:
    turned = replace(case, settings=dict(reversed(list(case.settings.items()))))
    assert turned.key == case.key
    assert replace(case, seed=case.seed + 1).key != case.key


def test_a_case_of_another_version_is_refused() -> None:
    with pytest.raises(InputError, match="version 2 cannot be read; 1 is known"):
        Case.from_json(first_case().to_json().replace('"version":1', '"version":2'))


def test_a_row_has_every_figure_of_a_run() -> None:
    found = run_case(first_case(), HERE, place=7)
    assert found["error"] is None
    assert (found["place"], found["policy"], found["seed"], found["kept"]) == (7, "hpa", 0, True)
    assert found["cost"] == pytest.approx(0.5 * found["instance_hours"])
    known = {field.name for field in fields(Summary)} - {"instance_seconds"}
    assert known <= FIGURES.keys()
    assert list(found) == schema().names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"load": "csv:gone.csv"}, "workload file 'gone.csv' cannot be read"),
        ({"policy": "hpaa"}, "unknown policy 'hpaa'"),
        ({"start": 99}, "start 99 is not allowed"),
        ({"batches": {"noice": 1.0}}, "TypeError: "),
    ],
)
def test_a_run_that_fails_is_a_row_with_its_error(changes: dict[str, object], message: str) -> None:
    found = run_case(replace(first_case(), **changes), HERE)  # type: ignore[arg-type] # whatever a case may have
    assert str(found["error"]).startswith(message)
    assert [found[name] for name in ("kept", *FIGURES)] == [None] * (1 + len(FIGURES))


@pytest.mark.parametrize(
    ("changes", "met"),
    [
        ({}, True),
        ({"policy": "static", "start": 1}, False),
        ({"objective_data": OBJECTIVE | {"cost": 0.01}}, False),
        ({"objective_data": OBJECTIVE | {"slo": "throughput >= 95%"}, "policy": "static", "start": 2}, True),
    ],
)
def test_an_objective_is_met_or_not(changes: dict[str, object], met: bool) -> None:
    found = run_case(replace(first_case(), **changes), HERE)  # type: ignore[arg-type] # whatever a case may have
    assert found["error"] is None
    assert found["kept"] is met


def test_each_repeat_has_noise_of_its_own() -> None:
    noisy = [run_case(case, HERE) for case in SMALL.cases() if (case.workload, case.policy) == ("noisy", "static")]
    assert len({found["latency_p99_s"] for found in noisy}) > 1
    assert run_case(first_case(), HERE) == run_case(first_case(), HERE)


def test_files_are_found_next_to_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "load.csv").write_text("timestamp,count\n0,600\n60,600\n")
    found = run_case(replace(first_case(), load="csv:load.csv"), tmp_path)
    assert found["error"] is None


def test_rows_are_read_back_once_each_in_the_order_of_their_cases(tmp_path: Path) -> None:
    texts = [packed(place, case) for place, case in enumerate(SMALL.cases())][:4]
    assert run_cases(reversed(texts), str(tmp_path), str(tmp_path)) == 4
    assert run_cases(texts[1:2], str(tmp_path), str(tmp_path)) == 1
    assert count_rows(tmp_path) == 5
    assert read_parts(tmp_path).column("place").to_pylist() == [0, 1, 2, 3]


def test_a_broken_file_is_reported_or_deleted(tmp_path: Path) -> None:
    write_part(tmp_path, [row(0, "hpa", 1.0)])
    (tmp_path / "part-x-3.parquet").write_bytes(b"half")
    (tmp_path / ".part-y-3.parquet.17").write_bytes(b"unfinished")
    with pytest.raises(InputError, match=r"part-x-3\.parquet cannot be read; run the experiment again"):
        read_parts(tmp_path)
    assert read_parts(tmp_path, repair=True).num_rows == 1
    assert read_parts(tmp_path).num_rows == 1


def test_a_worker_with_other_code_makes_no_rows(tmp_path: Path) -> None:
    texts = [packed(0, first_case())]
    with pytest.raises(EngineError, match=f"another than the command's .{own_code()} instead of 0123.; have the same"):
        run_cases(texts, str(tmp_path), str(tmp_path), code="0123")
    assert not list(tmp_path.iterdir())
    assert work_in(tmp_path, tmp_path)(texts) == 1
    assert count_rows(tmp_path) == 1
