"""The Flink jobs: what is filled into their SQL, and what is sent along with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headgate.apps.payloads  # noqa: F401 - registers them
from headgate.apps.flink.programs import PROGRAMS, SLOW_MIDDLE, SubmittedJob
from headgate.apps.flink.sources import FileRecords, TopicRecords, write_records
from headgate.apps.flink.submission import compile_classes
from headgate.apps.registry import find_application
from headgate.core.errors import InputError
from headgate.workloads.load import Load

TOPIC = TopicRecords("127.0.0.1:9092", "it's")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_sql_of_a_job_is_filled_in(program: str) -> None:
    sql = SubmittedJob(program, TOPIC, "job", Path("/results"), cost_ms=0.5).sql()
    assert "$" not in sql
    assert "'topic' = 'it''s'" in sql
    assert "'path' = 'file:///results'" in sql
    assert "'connector' = 'blackhole'" in SubmittedJob(program, TOPIC, "job").sql()


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name != SLOW_MIDDLE])
def test_a_program_is_the_application_of_the_same_name(program: str) -> None:
    assert find_application(program).summary == PROGRAMS[program]


def test_only_a_job_that_is_to_end_has_an_end() -> None:
    assert "scan.bounded.mode" not in TOPIC.options()
    assert TopicRecords("127.0.0.1:9092", "it's", is_bounded=True).options()["scan.bounded.mode"] == "latest-offset"
    assert "source.monitor-interval" in FileRecords(Path("records.json")).options()
    assert "source.monitor-interval" not in FileRecords(Path("records.json"), is_bounded=True).options()


def test_each_step_of_the_job_with_a_slow_middle_has_a_size_of_its_own() -> None:
    chained = {
        program: SubmittedJob(program, TOPIC, "job").settings()["pipeline.operator-chaining.enabled"]
        for program in PROGRAMS
    }
    assert chained == {program: program != SLOW_MIDDLE for program in PROGRAMS}


def test_a_job_continues_from_a_savepoint_only_if_one_is_named() -> None:
    key = "execution.state-recovery.path"
    assert SubmittedJob(SLOW_MIDDLE, TOPIC, "job", savepoint="file:/there/savepoint-1").settings()[key] == (
        "file:/there/savepoint-1"
    )
    assert key not in SubmittedJob(SLOW_MIDDLE, TOPIC, "job").settings()


def test_key_groups_that_flink_does_not_have_are_refused() -> None:
    with pytest.raises(InputError, match="40000 key groups are not possible; 1 to 32768 are"):
        SubmittedJob("nexmark-1", TOPIC, "job", max_parallelism=40_000)


def test_a_file_holds_the_records_of_a_load_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    assert write_records(Load("constant:3000", "nexmark-1", 5.0), path, start_ms=1_000_000) == 15_000
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["number"] for record in records] == list(range(15_000))
    times_ms = [record["at_ms"] for record in records]
    assert times_ms == sorted(times_ms)
    assert 1_000_000 <= times_ms[0] < times_ms[-1] <= 1_005_000


def test_what_a_job_needs_is_compiled_by_flinks_own_compiler(tmp_path: Path) -> None:
    classes = compile_classes(tmp_path)
    found = {path.relative_to(classes).as_posix() for path in classes.rglob("*.class")}
    assert found == {"headgate/Spent.class", "headgate/Submit.class"}
