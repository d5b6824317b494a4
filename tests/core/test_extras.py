"""What an extra brings is asked for in one sentence, everywhere, and the rest works without it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.core.extras import EXTRA_OF, MissingExtraError, needing, require

ROOT = Path(__file__).parents[2]
WITHOUT = """
import json, sys
sys.modules.update(dict.fromkeys(json.loads(sys.argv[1])))
import headgate as package
from tests.cli.commands import headgate

said = {}
for command in json.loads(sys.argv[2]):
    result = headgate(*command.split())
    said[command] = [result.exit_code, result.stderr]
for call in ("autoscale", "run"):
    try:
        getattr(package, call)(None, checkpoint="") if call == "run" else package.autoscale(None)
    except package.HeadgateError as error:
        said[call] = [2, str(error)]
print(json.dumps(said))
"""
NEED_SPARK = ("mst steady-job", "cluster up", "lab run LAB", "app list")
NEED_NOTHING = ("policies", "version", "simulate --workload constant:1 --service-rate 1 --seconds 5s", "lab list")


def test_without_extras_every_command_works_or_says_how_to_get_what_it_needs(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_bytes((ROOT / "src/headgate/lab/experiments/example.yaml").read_bytes())
    commands = [command.replace("LAB", str(file)) for command in (*NEED_SPARK, *NEED_NOTHING)]
    arguments = [sys.executable, "-c", WITHOUT, json.dumps(list(EXTRA_OF)), json.dumps(commands)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, cwd=ROOT)
    said = json.loads(done.stdout.splitlines()[-1])
    for command in (*commands[: len(NEED_SPARK)], "autoscale", "run"):
        code, sentence = said[command]
        assert code == 2, command
        assert sentence.rstrip("\n").endswith("which is not installed: pip install 'headgate[spark]'."), command
        assert len(sentence.splitlines()) == 1
    assert [said[command] for command in NEED_NOTHING] == [[0, ""]] * len(NEED_NOTHING)


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


def test_what_is_there_is_not_asked_for() -> None:
    require("a test", "pyspark", "plotly")
