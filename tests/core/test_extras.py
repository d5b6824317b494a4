"""What an extra brings is named in one sentence, everywhere, and the rest works without it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.core.extras import BRINGS_TOO, EXTRA_OF, MissingExtraError, needing, require

ROOT = Path(__file__).parents[2]
WITHOUT = """
import json, sys
sys.modules.update(dict.fromkeys(json.loads(sys.argv[1])))
import headgate as package
from tests.cli.commands import headgate

results = {}
for command in json.loads(sys.argv[2]):
    result = headgate(*command.split())
    results[command] = [result.exit_code, result.stderr]
for call in ("autoscale", "run"):
    try:
        getattr(package, call)(None, checkpoint="") if call == "run" else package.autoscale(None)
    except package.HeadgateError as error:
        results[call] = [2, str(error)]
print(json.dumps(results))
"""
NEEDED = {
    "app list": "spark",
    "app run grep": "kafka,reports",
    "app run grep --source embedded --workload constant:1": "reports,spark",
    "cluster up": "spark",
    "demo": "reports,spark",
    "history orders": "service",
    "kafka connector": "spark",
    "kafka topic orders": "kafka",
    "kafka up": "kafka",
    "lab results FOLDER": "spark",
    "lab run LAB --report FOLDER/lab.html": "reports,spark",
    "lab run azimi-1 --report FOLDER/azimi.html": "reports",
    "lab run azimi-live": "spark",
    "lab run league --quick": "learning,spark",
    "lab tune --workload constant:1 --service-rate 1 --seconds 1h --report FOLDER/tune.html": "lab",
    "load constant:1 --to kafka:orders": "kafka",
    "mst steady-job --plot FOLDER/mst.html": "reports,spark",
    "mst steady-job": "spark",
    "pause orders --why so": "service",
    "pipeline check PIPELINE": "spark",
    "pipeline run PIPELINE": "kafka,reports,service",
    "report JOURNAL --html FOLDER/run.html": "reports",
    "serve --demo": "service",
    "simulate --workload constant:1 --service-rate 1 --seconds 5s --policy online-parameter-optimization": "learning",
    "simulate --workload constant:1 --service-rate 1 --seconds 5s --report FOLDER/run.html": "reports",
    "simulate --workload parquet:load.parquet --service-rate 1": "spark",
    "status": "service",
    "token list": "service",
}
"""What each command asks for, all of it at once, where nothing but Headgate itself is installed."""
ENOUGH = (
    "completion bash",
    "doctor",
    "engines",
    "explain JOURNAL",
    "forecasters",
    "lab list",
    "lab new FOLDER/new.yaml",
    "lab schema",
    "pipeline schema",
    "policies show autopilot",
    "policies",
    "rules schema",
    "simulate --workload constant:1 --service-rate 1 --seconds 5s --journal JOURNAL",
    "version",
)


def test_without_extras_every_command_works_or_says_how_to_get_all_it_needs(tmp_path: Path) -> None:
    places = {
        "LAB": ROOT / "src/headgate/lab/experiments/example.yaml",
        "PIPELINE": ROOT / "examples/pipeline-chain.yaml",
        "JOURNAL": tmp_path / "run.db",
        "FOLDER": tmp_path,
    }

    def placed(command: str) -> str:
        for word, place in places.items():
            command = command.replace(word, str(place))
        return command

    commands = [placed(command) for command in (*sorted(ENOUGH, reverse=True), *NEEDED)]
    arguments = [sys.executable, "-c", WITHOUT, json.dumps(list(EXTRA_OF)), json.dumps(commands)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=ROOT)
    results = json.loads(done.stdout.splitlines()[-1])
    wanted = {placed(command): extras for command, extras in NEEDED.items()} | {"autoscale": "spark", "run": "spark"}
    for command, extras in wanted.items():
        code, sentence = results[command]
        assert (code, len(sentence.splitlines())) == (2, 1), (command, sentence)
        assert sentence.rstrip("\n").endswith(f" not installed: pip install 'headgate[{extras}]'."), (command, sentence)
    assert {command: results[placed(command)] for command in ENOUGH} == {command: [0, ""] for command in ENOUGH}


def test_what_an_extra_brings_along_is_what_it_is_said_to() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, lines in extras.items():
        nested = [set(line[len("headgate[") : -1].split(",")) for line in lines if line.startswith("headgate[")]
        assert set().union(*nested) == set(BRINGS_TOO.get(extra, ())), extra


def test_every_package_is_brought_by_its_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras["spark"] += ["py4j"]  # pyspark brings it.
    for module, extra in EXTRA_OF.items():
        assert any(line.startswith(module.replace("_", "-")) for line in extras[extra]), module


def test_a_missing_package_is_both_kinds_of_error() -> None:
    with pytest.raises(MissingExtraError) as caught:
        raise MissingExtraError("a topic", "confluent_kafka")
    assert str(caught.value) == (
        "a topic needs confluent-kafka, which is not installed: pip install 'headgate[kafka]'."
    )
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, ImportError)


def test_a_module_that_no_extra_brings_is_a_defect() -> None:
    with pytest.raises(ModuleNotFoundError, match="hedgate"), needing("nothing"):
        import hedgate  # type: ignore[import-not-found] # noqa: F401 - that is what is tested


def test_installed_packages_are_not_reported_as_missing() -> None:
    require("a test", "pyspark", "plotly")
