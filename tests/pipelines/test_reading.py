"""Pipeline files: what they say, and what is wrong with them, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

import headgate.apps.payloads  # noqa: F401 - registers the payloads of all applications
from headgate.core.errors import InputError
from headgate.core.objective import equal_shares
from headgate.core.topology import Topology
from headgate.documents import DocumentError
from headgate.pipelines.document import JobForm, json_schema, read_pipeline
from headgate.pipelines.model import Pipeline
from tests.cli.commands import headgate as command
from tests.cli.commands import refused

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("pipeline-*.yaml"))
APPLICATIONS = ("grep", "data-clean")
GOOD = """\
version: 1
objective: latency p95 < 30s
policy: autopilot
settings:
  scale_in_window_s: 30s
load:
  workload: constant:20
  seconds: 1m
  to: raw
topics: {raw: 6}
jobs:
  parse:
    build: steps:parse
    from: raw
    to: parsed
    executors: [1, 3]
    price: 0.25
  sum:
    app: grep
    from: parsed
    to: sums
    trigger: 5s
    state_partitions: [2, 8]
"""
STEPS = "def parse(spark, plan): ...\n"


def read(folder: Path, text: str) -> Pipeline:
    (folder / "steps.py").write_text(STEPS)
    file = folder / "flow.yaml"
    file.write_text(text)
    return read_pipeline(file, APPLICATIONS)


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def test_a_pipeline_is_read_as_it_is_written(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    parse, total = found.jobs
    assert found.name == "flow"
    assert found.topology == Topology(("parse", "sum"), (("parse", "sum"),), found.topology.sizing)
    assert found.topology.sizing_of("parse").max_instances == 3
    assert found.objective.prices(found.topology) == {"parse": 0.25}
    assert found.topics == {"raw": 6, "parsed": 4, "sums": 4}
    assert parse.build is not None
    assert (parse.build.function, parse.build.file) == ("parse", tmp_path / "steps.py")
    assert (total.app, total.trigger_s, total.state_partitions) == ("grep", 5.0, (2, 8))
    assert found.end_topics == ("sums",)
    assert found.load is not None
    assert found.load.schedule.total == 1200


@pytest.mark.parametrize(
    ("text", "line", "reported"),
    [
        ("", 1, "the file is empty"),
        ("version: 1\njobs: [", 2, "this is not YAML"),
        (changed("version: 1", "version: 2"), 1, "version: found '2', expected 1"),
        (changed("objective: latency p95 < 30s\n", ""), 1, "objective is missing in a pipeline file"),
        (changed("p95 < 30s", "p95 under 30s"), 2, "objective"),
        (changed("policy: autopilot", "policy: autopilto"), 3, "did you mean 'autopilot'"),
        (changed("scale_in_window_s: 30s", "scale_in_windw_s: 30s"), 5, "scale_in_windw_s"),
        (changed("constant:20", "constnt:20"), 7, "constnt"),
        (changed("seconds: 1m", "seconds: 1 minuet"), 7, "1 minuet"),
        (changed("  seconds: 1m\n", ""), 7, "has no end"),
        (changed("  to: raw\ntopics", "  to: row\ntopics"), 9, "no job reads 'row'"),
        (changed("topics: {raw: 6}", "topics: {rwa: 6}"), 10, "no job reads or writes 'rwa'"),
        (changed("topics: {raw: 6}", "topics: {raw: 0}"), 10, "expected a whole number of at least 1"),
        (changed("steps:parse", "steps:prase"), 13, "did you mean 'parse'"),
        (changed("steps:parse", "stops:parse"), 13, "there is no module 'stops'"),
        (changed("steps:parse", "parse"), 13, "expected module:function"),
        (changed("    from: raw\n", ""), 13, "from is missing in job parse"),
        (changed("    from: raw\n", "    from: {}\n"), 14, "from: found nothing"),
        (changed("    from: raw\n", "    from: [raw, raw]\n"), 14, "found a topic twice"),
        (changed("    to: parsed\n", "    to: raw\n"), 15, "which the job also reads"),
        (changed("    to: parsed\n", "    to: a b\n"), 15, "topic 'a b' is not usable"),
        (changed("[1, 3]", "[3, 1]"), 16, "found 3 as the fewest and 1 as the most"),
        (changed("[1, 3]", "3"), 16, "expected the fewest and the most"),
        (changed("[1, 3]", "[0, 3]"), 16, "expected a whole number of at least 1"),
        (changed("price: 0.25", "price: -1"), 17, "expected a number that is not negative"),
        (changed("price: 0.25", "cost: 1"), 17, "unknown key 'cost' in job parse, did you mean 'price'"),
        (changed("app: grep", "app: grpe"), 19, "did you mean 'grep'"),
        (changed("app: grep", "app: grep\n    build: steps:parse"), 20, "build: found next to app"),
        (changed("    app: grep\n", ""), 19, "app or build is missing in job sum"),
        (changed("    from: parsed\n", "    from: elsewhere\n"), 20, "nothing writes 'elsewhere'"),
        (changed("    to: sums\n", "    to: raw\n"), 11, "must not have cycles"),
        (changed("trigger: 5s", "trigger: soon"), 22, "trigger"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence_with_its_line(
    tmp_path: Path, text: str, line: int, reported: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert reported in problem.message
    assert problem.position.line == line, str(problem)
    assert str(problem).startswith(f"{tmp_path / 'flow.yaml'}:{line}:")


def test_all_mistakes_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    text = changed("app: grep", "app: grpe").replace("[1, 3]", "[3, 1]").replace("version: 1", "version: one")
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, text)
    assert [problem.position.line for problem in caught.value.problems] == [1, 16, 19]


def test_a_cost_limit_needs_the_price_of_every_job(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be enforced without a price of sum"):
        read(tmp_path, changed("p95 < 30s", "p95 < 30s, cost < 5 per day"))


def test_a_policy_without_a_view_of_the_whole_gets_the_bound_divided(tmp_path: Path) -> None:
    whole = read(tmp_path, GOOD)
    assert not whole.objective.operators
    assert str(whole.part_of("sum")) == "latency p95 < 15s"
    each = read(tmp_path, changed("  scale_in_window_s: 30s\n", "  {}\n")).with_policy("hpa")
    assert {name: str(slo) for name, slo in each.objective.operators.items()} == {
        "parse": "latency p95 < 15s",
        "sum": "latency p95 < 15s",
    }


def test_a_job_may_have_an_objective_of_its_own_and_the_others_then_have_equal_parts(tmp_path: Path) -> None:
    found = read(tmp_path, changed("trigger: 5s", "objective: latency p99 < 4s"))
    assert {name: str(slo) for name, slo in found.objective.operators.items()} == {
        "parse": "latency p95 < 15s",
        "sum": "latency p99 < 4s",
    }
    assert (found.own_bound_s("sum"), found.own_bound_s("parse")) == (4.0, 15.0)
    assert read(tmp_path, GOOD).own_bound_s("sum") is None


def test_an_operator_off_the_longest_path_gets_a_larger_share() -> None:
    topology = Topology.of(("a", "b"), ("b", "d"), ("a", "e"))
    assert equal_shares(topology) == {"a": 1 / 3, "b": 1 / 3, "d": 1 / 3, "e": 1 / 2}


# ------------------------------------------------------------------------------------------------- schema and command


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_examples_are_valid_by_reader_and_schema(file: Path) -> None:
    assert "is valid" in command("pipeline", "check", str(file)).stdout
    jsonschema.validate(YAML(typ="safe").load(file), json_schema())


def test_the_file_of_the_guide_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/guides/pipelines.md").read_text(), re.DOTALL)
    assert [job.name for job in read(tmp_path, example).jobs] == ["parse", "matches"]


def test_every_key_of_a_job_is_in_the_guide() -> None:
    guide = (ROOT / "docs/guides/pipelines.md").read_text()
    assert not [key for key in JobForm.fields_by_key() if f"`{key}`" not in guide]


def test_what_the_reader_takes_the_schema_takes_too(tmp_path: Path) -> None:
    read(tmp_path, GOOD)
    jsonschema.validate(YAML(typ="safe").load(GOOD), json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(YAML(typ="safe").load(changed("app: grep", "app: grep\n    build: a:b")), json_schema())


def test_check_tells_the_line_and_exits_with_2(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(changed("steps:parse", "nowhere:parse"))
    assert refused("pipeline", "check", str(file)).startswith(f"{file}:13:12: build: there is no module 'nowhere'")


def test_run_refuses_a_wrong_file_before_anything_is_started(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(GOOD)
    (tmp_path / "steps.py").write_text(STEPS)
    assert "unknown policy" in refused("pipeline", "run", str(file), "--policy", "autopilto")
    assert "a cluster is needed" in refused("pipeline", "run", str(file), "--master", "local[2]")
    assert "127.0.0.1:9" in refused("pipeline", "run", str(file), "--bootstrap", "127.0.0.1:9")
    assert "no record comes" in refused("pipeline", "run", str(file), "--seconds", "1ms")
    assert refused("pipeline", "run", str(tmp_path / "none.yaml")).endswith(
        "cannot be read: no such file or directory."
    )
    assert not (tmp_path / "headgate-pipeline").exists()


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not text in UTF-8"):
        read_pipeline(file, APPLICATIONS)
