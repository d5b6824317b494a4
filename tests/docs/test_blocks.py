"""Every block of code in the documentation is run, checked against the code, or listed with the reason why not."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML
from typer.testing import CliRunner

import headgate
from headgate.cli.app import app
from headgate.cli.common import with_json_target
from headgate.core.objective import parse_objective
from headgate.policies import policy_names
from headgate.runtime.job_file import read_job_file
from headgate.runtime.objective_file import read_objective
from headgate.runtime.settings_file import read_settings
from headgate.workloads import parse_workload
from tests.docs.blocks import BLOCK, LEFT_OUT, PAGES, ROOT, Block, blocks

ALL = blocks()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TARGETS = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

IN_A_SENTENCE = re.compile(r"(?<!`)`(headgate [^`]+)`(?!`)")

LISTED = {
    "docs/tutorials/savings.md output 2": "the first lines of a file",
    "docs/guides/quotas.md output 1": "tests/core/test_quotas.py holds these sentences",
    "docs/guides/load.md output 1": "its times are of one machine; tests/live/test_doc_commands.py compares its counts",
    "docs/guides/load.md output 2": "the same",
    "docs/guides/own-policy.md output 1": "a list of files; the test of the package reads them",
    "docs/how-it-works.md output 1": "a picture of the loop",
    "docs/guides/rules.md output 2": "the test below makes the mistakes that it tells of",
    "docs/objectives.md output 2": "one decision of three simulated days",
}
"""Outputs that no quick command makes again."""

SAID = {
    "docs/guides/rules.md output 1": (
        "simulate --rules rules.yaml --workload constant:10 --service-rate 5 --seconds 10m --journal run.db",
        "explain run.db",
    ),
    "docs/objectives.md output 1": (
        "simulate --policy reactive --workload spike:base=10,peak=70,at=300s,width=300s --service-rate 10 --seconds 1h "
        '--startup 30s --objective "latency p95 < 10s, cost < 12 per day" --price 0.25 --journal run.db',
        "explain run.db",
    ),
}
"""Outputs whose lines are among those that the last of these commands prints."""

GIVEN: dict[str, dict[str, object]] = {
    "docs/guides/forecasting.md python 1": {"rates_per_minute": [100 + 10 * (minute % 7) for minute in range(200)]},
    "docs/guides/measures.md python 1": {},
    "docs/guides/measures.md python 2": {},
    "docs/guides/rules.md python 2": {},
}
"""Examples that are run, with what they take for granted."""

ALONE = {
    "docs/guides/metrics.md python 4": (
        'logging.getLogger("headgate").info("all is well")\n',
        r"^[-\d]+ [:,\d]+ headgate INFO all is well$",
    ),
    "docs/policies/q-learning.md python 2": (
        "import sys\n"
        "from headgate.policies.q_learning import QLearningSettings\n"
        "settings = QLearningSettings(reward='by-cost', initialization_mode='cautious', policy='seldom')\n"
        "print(settings.reward, STRATEGIES['tenth'](ProposedStep(1, 40, 1, 0, None)), file=sys.stderr)\n",
        r"^by-cost \(4, 'a tenth of the size'\)$",
    ),
}
"""Examples that change the process they are run in: what is done after them, and what is then said."""

EXAMPLES, PROGRAMS = "tests/live/test_doc_examples.py", "tests/live/test_doc_programs.py"
COMMANDS = "tests/live/test_doc_commands.py"
OWN = "tests/docs/test_own_guides.py"
"""Where examples are run as they are printed, on real Spark."""

RUN_ELSEWHERE = {
    "README.md python 1": "tests/live/test_examples.py",
    "docs/apps.md python 1": PROGRAMS,
    "docs/guides/clusters.md python 1": "tests/live/test_yarn.py",
    "docs/guides/clusters.md python 2": "tests/live/test_kubernetes.py",
    "docs/guides/engines.md python 1": COMMANDS,
    "docs/guides/engines.md python 2": COMMANDS,
    "docs/guides/flink-cluster.md python 1": PROGRAMS,
    "docs/guides/kafka.md python 1": EXAMPLES,
    "docs/guides/load.md python 1": PROGRAMS,
    "docs/guides/managed.md python 1": PROGRAMS,
    "docs/guides/measure-mst.md python 1": COMMANDS,
    "docs/guides/measure-mst.md python 2": EXAMPLES,
    "docs/guides/metrics.md python 1": EXAMPLES,
    "docs/guides/metrics.md python 2": EXAMPLES,
    "docs/guides/metrics.md python 3": EXAMPLES,
    "docs/guides/own-engine.md python 1": OWN,
    "docs/guides/own-engine.md python 2": "tests/engines/test_base.py",
    "docs/guides/own-engine.md python 3": OWN,
    "docs/guides/own-forecaster.md python 1": OWN,
    "docs/guides/own-forecaster.md python 2": OWN,
    "docs/guides/own-page.md python 1": OWN,
    "docs/guides/own-policy.md python 1": OWN,
    "docs/guides/own-policy.md python 2": OWN,
    "docs/guides/pipelines.md python 1": PROGRAMS,
    "docs/guides/rules.md python 1": EXAMPLES,
    "docs/guides/rules.md python 3": PROGRAMS,
    "docs/guides/service.md python 1": "tests/docs/test_service_guide.py",
    "docs/guides/shadows.md python 1": EXAMPLES,
    "docs/guides/shadows.md python 2": EXAMPLES,
    "docs/guides/simulate.md python 1": PROGRAMS,
    "docs/guides/spark.md python 1": EXAMPLES,
    "docs/guides/spark.md python 2": EXAMPLES,
    "docs/guides/spark.md python 3": EXAMPLES,
    "docs/guides/tune.md python 1": EXAMPLES,
    "docs/guides/two-services.md python 1": PROGRAMS,
    "docs/guides/two-services.md python 2": PROGRAMS,
    "docs/journal.md python 1": EXAMPLES,
    "docs/journal.md python 2": EXAMPLES,
    "docs/objectives.md python 1": EXAMPLES,
    "docs/objectives.md python 2": EXAMPLES,
    "docs/policies/q-learning.md python 1": EXAMPLES,
    "docs/tutorials/spark-job.md python 1": "tests/live/test_submit.py",
}
"""Examples that need a cluster, a broker, a database, a service or a package, and where they are run."""


def named(*languages: str) -> pytest.MarkDecorator:
    chosen = [block for block in ALL if block.language in languages]
    return pytest.mark.parametrize("block", chosen, ids=lambda block: block.name)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What blocks refer to, in the folder where they are tried."""
    rules = next(block for block in ALL if block.name == "docs/guides/rules.md yaml 1")
    (tmp_path / "rules.yaml").write_text(rules.text)
    (tmp_path / "load.csv").write_text("timestamp,count\n0,600\n60,1200\n120,600\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(arguments: list[str]) -> str:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, f"{arguments}: {result.output}"
    return result.stdout


# ----------------------------------------------------------------------------------------------------------- commands


@named("sh", "console")
def test_commands_are_there_and_take_what_they_are_given(block: Block) -> None:
    for words in block.commands():
        name = words[0].removeprefix(".venv/bin/")
        assert name in CHECKS, f"{block.name}: nobody knows how to check {' '.join(words)!r}"
        CHECKS[name](words[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_are_there_and_take_what_they_are_given(page: Path) -> None:
    sentences = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for words in map(shlex.split, IN_A_SENTENCE.findall(sentences)):
        if not words[1].startswith("--"):
            check_headgate(words[1:])


def check_headgate(arguments: list[str]) -> None:
    """Parse them as the command would, and read loads, objectives and names of policies."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("headgate", [], resilient_parsing=True)
    left = with_json_target(arguments)
    while hasattr(command, "commands"):
        if not left:
            return  # All commands of a kind are meant.
        if left[0] not in command.commands:
            assert getattr(command, "invoke_without_command", False), f"headgate {' '.join(arguments)}: {left[0]}"
            return
        command = command.commands[left.pop(0)]
        context = command.make_context(command.name, [], parent=context, resilient_parsing=True)
    parsed, rest, _ = command.make_parser(context).parse_args([word for word in left if word != LEFT_OUT])
    assert not rest, f"headgate {' '.join(arguments)}: {rest} is too much"
    for workload in [parsed.get("workload")] if isinstance(parsed.get("workload"), str) else []:
        if not workload.startswith(("csv:", "trace:")):
            parse_workload(workload)
    if isinstance(parsed.get("objective"), str):
        parse_objective(parsed["objective"])
    if isinstance(parsed.get("policy"), str):
        assert parsed["policy"] in {*policy_names(), "half-full"}


def check_make(arguments: list[str]) -> None:
    assert set(arguments) <= TARGETS


def check_pip(arguments: list[str]) -> None:
    for word in arguments[1:]:
        extras = re.fullmatch(r"(?:headgate|\.)\[([a-z,]+)\]", word)
        if extras:
            assert set(extras[1].split(",")) <= PROJECT["optional-dependencies"].keys()
        else:
            assert (ROOT / word / "pyproject.toml").is_file(), word


def check_python(arguments: list[str]) -> None:
    if arguments[0] == "-m" and arguments[1].startswith("benchmarks"):
        assert (ROOT / f"{arguments[1].replace('.', '/')}.py").is_file()
    elif arguments[0] != "-m":
        assert (ROOT / arguments[0]).is_file()


def check_submit(arguments: list[str]) -> None:
    """No cluster is there to submit to: options come in pairs, and a job comes last, or the launcher with its file."""
    count = 2 if arguments[-1] == "job.yaml" else 1
    options, job = arguments[:-count], arguments[-count:]
    assert job in (["launch.py", "job.yaml"], ["job.py"]) or job[0].endswith("job.py")
    assert all(option.startswith("--") for option in options[::2])
    given = zip(options[::2], options[1::2], strict=True)
    assert all("=" in value for option, value in given if option == "--conf")


def unchecked(arguments: list[str]) -> None:
    """Tools of others, which need the network."""


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "docker": unchecked,
    "helm": unchecked,
    "kubectl": unchecked,
    "headgate": check_headgate,
    "make": check_make,
    "pip": check_pip,
    "printf": unchecked,
    "python": check_python,
    "spark-submit": check_submit,
}


# ------------------------------------------------------------------------------------------------------------- python


@named("python")
def test_python_imports_what_is_there_and_calls_it_as_it_can_be_called(block: Block) -> None:
    tree = ast.parse(block.text)
    known = dict(imported(tree))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        target = called(call.func, known)
        if target is not None and not (isinstance(target, type) and issubclass(target, Exception)):
            check_call(call, target, block)  # Exceptions without a constructor of their own have no signature.


def imported(tree: ast.AST) -> Iterator[tuple[str, object]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headgate"):
            module = importlib.import_module(node.module or "")
            for name in node.names:
                yield name.asname or name.name, getattr(module, name.name)


def called(function: ast.expr, known: dict[str, object]) -> Callable[..., object] | None:
    found: object = None
    if isinstance(function, ast.Name):
        found = known.get(function.id)
    elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = headgate if function.value.id == "headgate" else known.get(function.value.id)
        found = None if owner is None else getattr(owner, function.attr)
    return found if callable(found) else None


def check_call(call: ast.Call, target: Callable[..., object], block: Block) -> None:
    keywords = {word.arg: word.value for word in call.keywords if word.arg is not None}
    complete = len(keywords) == len(call.keywords) and not any(
        isinstance(argument, ast.Starred) for argument in call.args
    )
    signature = inspect.signature(target)
    try:
        (signature.bind if complete else signature.bind_partial)(*call.args, **keywords)
    except TypeError as error:
        pytest.fail(f"{block.name}, {ast.unparse(call)}: {error}")
    for name, check in (("objective", parse_objective), ("policy", policy_names().index)):
        value = keywords.get(name)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            check(value.value)


@pytest.mark.parametrize("name", GIVEN)
def test_examples_that_need_no_cluster_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    block = next(block for block in ALL if block.name == name)
    assert block.language == "python"
    exec(compile(block.text, block.page, "exec"), dict(GIVEN[name]))  # noqa: S102 - our own documentation


@pytest.mark.parametrize("name", ALONE)
def test_examples_that_need_a_process_of_their_own_run(name: str) -> None:
    block = next(block for block in ALL if block.name == name)
    then, says = ALONE[name]
    command = [sys.executable, "-c", block.text + then]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert re.fullmatch(says, done.stderr.strip())


@named("python")
def test_python_is_run_here_or_where_it_is_said_to_be(block: Block) -> None:
    places = [known for known in (GIVEN, ALONE, RUN_ELSEWHERE) if block.name in known]
    assert len(places) == 1, f"{block.name}: run it here, or say where it is run"
    place = RUN_ELSEWHERE.get(block.name, "tests")
    assert (ROOT / place).exists(), f"{block.name} is run by {place}, which is not there"
    if place in (EXAMPLES, PROGRAMS, COMMANDS):
        assert f'"{block.name}"' in (ROOT / place).read_text(encoding="utf-8")


# -------------------------------------------------------------------------------------------------- files and outputs


@named("yaml")
def test_files_are_read_as_headgate_reads_them(block: Block, files: Path) -> None:
    file = files / "shown.yaml"
    file.write_text(block.text)
    match block.page:
        case "docs/guides/clusters.md":
            kinds = [part["kind"] for part in YAML(typ="safe").load_all(block.text)]
            assert kinds == ["Role", "RoleBinding"]
        case "docs/guides/lab.md":
            from headgate.lab.experiments.document import read_experiment

            # A job that was measured needs its file, which only a measurement makes.
            file.write_text("".join(line for line in block.text.splitlines(True) if "model_file" not in line))
            assert read_experiment(file).name == "checkout"
        case "docs/guides/pipelines.md":
            import headgate.apps.payloads  # noqa: F401 - which registers the payloads of all applications
            from headgate.pipelines.document import read_pipeline

            (files / "steps.py").write_text("def parse(spark, plan): ...\n")
            assert len(read_pipeline(file, ["grep"]).jobs) == 2
        case "docs/guides/rules.md":
            if block.number == 1:
                run(["rules", "check", str(file)])
            else:
                assert YAML(typ="safe").load(block.text)["constraints"]
        case "docs/guides/flink.md" | "docs/guides/quotas.md" | "docs/guides/service.md":
            from headgate.service.config import read_config

            for name in ("service.pem", "service.key"):
                (files / name).touch()
            assert read_config(file).jobs
        case "docs/guides/tune.md":
            assert read_settings(file).policy == "threshold"
        case "docs/objectives.md":
            assert read_objective(file).max_instances == 8
        case _:  # a part of a file: no more can be said of it
            assert YAML(typ="safe").load(block.text)


def test_the_job_file_of_the_tutorial_is_read(files: Path) -> None:
    (files / "job.py").touch()
    (files / "job.yaml").write_text(
        next(block.text for block in ALL if block.name == "docs/tutorials/spark-job.md yaml 1")
    )
    assert read_job_file(files / "job.yaml").objective.max_instances == 4


@named("json", "toml")
def test_data_can_be_read(block: Block) -> None:
    assert (json if block.language == "json" else tomllib).loads(block.text)


@named("")
def test_outputs_are_made_repeated_or_listed(block: Block, files: Path) -> None:
    if block.name in SAID:
        output = ""
        for command in SAID[block.name]:
            output = run(shlex.split(command))
        words = " ".join(output.split())
        for line in block.text.splitlines():
            assert " ".join(line.split()) in words, f"{block.name} shows a line that is not said: {line}"
    else:
        assert block.is_made or block.name in LISTED, f"{block.name}: no command makes it, and no reason is listed"


def test_mistakes_in_rules_are_reported_as_the_guide_shows(files: Path) -> None:
    shown = next(block for block in ALL if block.name == "docs/guides/rules.md output 2")
    wrong = (
        (files / "rules.yaml").read_text().replace("by: 2", "by: two").replace("metric: backlog", "metric: backlgo", 1)
    )
    (files / "rules.yaml").write_text(wrong)
    result = CliRunner().invoke(app, ["rules", "check", "rules.yaml"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 2
    for line in shown.text.splitlines():
        assert line.removesuffix(LEFT_OUT) in result.output, result.output


def test_what_is_listed_is_there() -> None:
    names = {block.name for block in ALL}
    assert {*LISTED, *SAID, *GIVEN, *ALONE, *RUN_ELSEWHERE} <= names
