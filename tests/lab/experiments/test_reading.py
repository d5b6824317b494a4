"""Experiment files: what they say, and what is wrong with them, line by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from headgate.core.errors import InputError
from headgate.documents import DocumentError
from headgate.lab.experiments.document import json_schema, read_experiment
from headgate.lab.experiments.run_case import ExperimentMatrix

EXAMPLE = Path(__file__).parents[3] / "src/headgate/lab/experiments/example.yaml"
GOOD = """\
version: 1
name: tried
workloads:
  - constant:20
  - {workload: "csv:load.csv * 2", name: mine, seconds: 1m, scale: 3}
jobs:
  - rate: 10
    startup: 30s
  - name: batches
    model: micro-batch
    rate: 5
    batches:
      trigger_interval_s: 2s
      partitions: 4
      speed_up: [[1, 1], [4, 3.2]]
policies:
  - hpa
  - policy: threshold
    name: eager
    settings: {upper: 0.5}
    guards: {out_after_out_s: 30s}
  - {policy: static, start: 3}
objectives:
  - objective: latency p95 < 10s
    min: 1
    max: 8
    price: 0.5
repeats: [3, 5]
interval: 10s
seconds: 10m
"""


def read(folder: Path, text: str) -> ExperimentMatrix:
    (folder / "load.csv").write_text("timestamp,count\n0,10\n60,20\n")
    file = folder / "my.yaml"
    file.write_text(text)
    return read_experiment(file)


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def test_an_experiment_is_read_as_it_is_written(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    plain, mine = found.workloads
    assert (found.name, found.seeds, found.interval_s, len(found)) == ("tried", (3, 5), 10.0, 24)
    dated = read(tmp_path, f"{GOOD}starts_at: 2026-11-20 06:00\n")
    assert {case.starts_at_s for case in dated.cases()} == {1795154400.0}
    assert all("starts_at" not in case.to_json() for case in found.cases())
    assert (plain.name, plain.seconds, plain.scale) == ("constant:20", 600.0, 1.0)
    assert (mine.name, mine.seconds, mine.scale) == ("mine", 60.0, 3.0)
    assert list(found.files) == ["load.csv"]
    queue, batches = found.jobs
    assert (queue.name, queue.startup_s, queue.batches) == ("queue 10/s", 30.0, None)
    assert batches.batches == {"trigger_interval_s": 2.0, "partitions": 4, "speed_up": [[1, 1.0], [4, 3.2]]}
    assert [policy.name for policy in found.policies] == ["hpa", "eager", "static"]
    assert found.objectives[0].objective["instances"] == [1, 8]
    assert found.objectives[0].objective["price"] == 0.5
    cases = list(found.cases())
    assert len({case.key for case in cases}) == len(cases) == 24
    assert [case.seed for case in cases[:2]] == [3, 5]


def test_a_workload_may_name_the_jobs_it_is_run_with(tmp_path: Path) -> None:
    found = read(tmp_path, changed("scale: 3", "jobs: [batches]"))
    assert (found.workloads[0].jobs, found.workloads[1].jobs) == (None, ("batches",))
    cases = list(found.cases())
    assert len(cases) == len(found) == 18, "three pairs, three policies, two seeds"
    pairs = dict.fromkeys((case.workload, case.job) for case in cases)
    assert list(pairs) == [("constant:20", "queue 10/s"), ("constant:20", "batches"), ("mine", "batches")]


def test_a_service_model_bends_up_to_the_bound_of_each_objective(tmp_path: Path) -> None:
    text = changed("  - rate: 10\n", '  - service: "saturating:rate=10,contention=0.5,pause=30s,startup=1m"\n')
    found = read(tmp_path, text.replace("    startup: 30s\n", "", 1))
    job = found.jobs[0]
    assert (job.rate_per_s, job.startup_s) == (10.0, 60.0)
    batches = next(found.cases()).batches
    assert batches is not None
    assert batches["rescale_pause_s"] == 30.0
    assert [count for count, _ in batches["speed_up"]] == list(range(1, 9))
    assert batches["speed_up"][1][1] == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the file is empty; headgate lab new writes one"),
        ("version: 1\njobs: [", 2, "this is not YAML"),
        (changed("version: 1", "version: 2"), 1, "version: found '2', expected 1, the only version there is."),
        (changed("name: tried", "name: []"), 2, "name: found an empty list, expected a text"),
        (changed("interval: 10s", "intervall: 10s"), 29, "unknown key 'intervall' in an experiment file, did you mean"),
        (changed("interval: 10s", "interval: 0s"), 29, "interval: found 0 s, expected a time above 0."),
        (changed("constant:20", "constnt:20"), 4, "unknown workload 'constnt', did you mean 'constant'?"),
        (changed("csv:load.csv", "csv:lod.csv"), 5, "cannot be read: no such file"),
        (changed("scale: 3", "scale: 0"), 5, "scale: found '0', expected a number above 0."),
        (changed("seconds: 10m\n", ""), 4, "seconds is missing: 'constant:20' has no end"),
        (changed("  - rate: 10\n    startup", "  - startup"), 7, "a job needs one of rate, service and model_file"),
        (changed("rate: 10\n", "service: amdahl:rate=10\n"), 7, "unknown service model 'amdahl'"),
        (
            changed("rate: 10\n", "service: retrograde:rate=10,contention=0.1,coherency=0.001\n"),
            7,
            "gets through most at 30.0 instances, which is not below the 8 that are allowed",
        ),
        (changed("rate: 10\n", "model_file: gone.json\n"), 7, "gone.json' cannot be read"),
        (changed("model: micro-batch", "model: batch"), 10, "unknown model 'batch', did you mean 'micro-batch'?"),
        (changed("model: micro-batch", "model: queue"), 12, "batches: found in a job whose model is queue"),
        (changed("partitions: 4", "partition: 4"), 14, "unknown key 'partition' in batches, did you mean 'partitions'"),
        (changed("partitions: 4", "noise: lots"), 14, "noise: found 'lots', expected a number that is not negative."),
        (changed("[[1, 1], [4, 3.2]]", "[1, 4]"), 15, "speed_up: found a list, expected pairs of numbers"),
        (changed("[[1, 1], [4, 3.2]]", "[[2, 1]]"), 13, "batches: speed_up ((2, 1.0),) is not allowed"),
        (changed("- hpa", "- hpaa"), 17, "unknown policy 'hpaa', did you mean 'hpa'?"),
        (changed("- hpa", "- static"), 22, "policies: 'static' is there twice; give this one a name"),
        (
            changed("  - constant:20\n", "").replace("seconds: 1m", "seconds: 1h, duration: 1m"),
            4,
            "did you mean 'seconds'?",
        ),
        (changed("upper: 0.5", "uper: 0.5"), 20, "unknown setting of threshold 'uper', did you mean 'upper'?"),
        (changed("out_after_out_s: 30s", "cooldown: 1"), 21, "unknown setting of guards 'cooldown'"),
        (changed("start: 3", "start: 9"), 22, "start: found 9, but 'latency p95 < 10s' allows 1 to 8 instances."),
        (changed("p95 < 10s", "p95 below 10s"), 24, "objective"),
        (changed("max: 8", "max: 0"), 26, "max: found '0', expected a whole number of at least 1."),
        (changed("[3, 5]", "0"), 28, "repeats: found '0', expected a whole number of at least 1."),
        (changed("[3, 5]", "[3, 3]"), 28, "repeats: found a seed twice or none"),
        (changed("scale: 3", "jobs: batches"), 5, "jobs: found 'batches', expected a list"),
        (changed("scale: 3", "jobs: []"), 5, "jobs: found a name twice or none"),
        (changed("scale: 3", "jobs: [batches, batches]"), 5, "jobs: found a name twice or none"),
        (changed("scale: 3", "jobs: [[batches]]"), 5, "jobs: found a list, expected the name of a job"),
        (changed("scale: 3", "jobs: [batch]"), 5, "jobs: unknown job 'batch', did you mean 'batches'?"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence_with_its_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert str(problem).startswith(f"{tmp_path / 'my.yaml'}:{line}:"), str(problem)


def test_all_mistakes_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    text = changed("version: 1", "version: one").replace("- hpa", "- hpaa").replace("max: 8", "max: x")
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, text)
    assert [problem.position.line for problem in caught.value.problems] == [1, 17, 26]


def test_two_of_the_same_in_one_line_are_reported(tmp_path: Path) -> None:
    twice = changed("  - {policy: static, start: 3}\n", "  - {policy: static}\n").replace("  - hpa", "  - static")
    one_line = twice.replace("objectives:\n", "interval: 5s\nobjectives: [throughput >= 90%, throughput >= 90%]\nx:\n")
    with pytest.raises(DocumentError, match=r"objectives: 'throughput >= 90%' is there twice; .* the first is in line"):
        read(tmp_path, one_line)


def test_a_changed_file_makes_another_experiment(tmp_path: Path) -> None:
    before = read(tmp_path, GOOD)
    (tmp_path / "load.csv").write_text("timestamp,count\n0,10\n60,21\n")
    after = read_experiment(tmp_path / "my.yaml")
    assert before.workloads == after.workloads
    assert before.files != after.files


def test_a_load_with_an_end_says_itself_how_long_a_run_is(tmp_path: Path) -> None:
    text = changed("  - constant:20\n", "").replace("seconds: 1m, ", "").replace("seconds: 10m\n", "")
    assert read(tmp_path, text).workloads[0].seconds == 120.0


def test_what_was_done_to_a_recorded_load_is_said_and_makes_no_other_experiment(tmp_path: Path) -> None:
    found = read(tmp_path, changed("csv:load.csv * 2", "csv:load.csv,scale=2").replace("seconds: 1m, ", ""))
    plain, mine = found.workloads
    assert plain.notes == ()
    assert [note.rpartition(": ")[2] for note in mine.notes] == ["multiplied by 2.", "nothing arrives from then on."]
    assert [sorted(load) for load in found.to_json()["workloads"]] == [
        ["jobs", "kind", "name", "scale", "seconds", "workload"]
    ] * 2


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: no such file"):
        read_experiment(tmp_path / "gone.yaml")


SERVED = GOOD.replace("rate: 10\n", "service: saturating:rate=10,contention=0.1\n")


@pytest.mark.parametrize("text", [GOOD, SERVED, EXAMPLE.read_text(encoding="utf-8")], ids=["good", "served", "example"])
def test_the_schema_takes_what_the_reader_takes(text: str) -> None:
    given = json.loads(json.dumps(YAML(typ="safe", pure=True).load(text)))
    validator = Draft202012Validator(json_schema())
    Draft202012Validator.check_schema(json_schema())
    assert list(validator.iter_errors(given)) == []
    assert list(validator.iter_errors(given | {"polices": []}))


def test_the_example_is_valid() -> None:
    assert len(read_experiment(EXAMPLE)) == 48
