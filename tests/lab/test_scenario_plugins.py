"""Scenarios and experiment files of other packages, found by entry points."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.lab import scenario as registry
from tests.cli.commands import headgate, refused

COIN = """
from pathlib import Path
from headgate.lab.scenario import ScenarioOutcome, experiment_file, scenario

@scenario("coin", "Tosses a coin.")
def run(progress):
    progress(1.0)
    return ScenarioOutcome([{"side": "heads"}])

experiment_file("coins", "Tosses many coins.", Path(__file__).parent / "coins.yaml")
"""
DOUBLE = """
from headgate.lab.scenario import scenario
scenario("conttune", "A name that Headgate has.")(print)
"""
ENTRIES = """
[headgate.scenarios]
absent = no_such_module
coins = coin_package.scenarios
double = coin_double
"""


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that contributes scenarios, as pip would leave it."""
    info = tmp_path / "coin_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: coin-package\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    package = tmp_path / "coin_package" / "scenarios"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "coin.py").write_text(COIN)
    (tmp_path / "coin_double.py").write_text(DOUBLE)
    registry.scenarios()
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("_SCENARIOS", "_EXPERIMENTS"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    registry._discover.cache_clear()
    yield
    registry._discover.cache_clear()
    for name in [name for name in sys.modules if name.startswith("coin_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("_installed")
def test_a_scenario_of_another_package_is_run_by_its_name() -> None:
    result = headgate("lab", "run", "coin", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == [{"side": "heads"}]


@pytest.mark.usefixtures("_installed")
def test_an_experiment_file_of_another_package_is_found_and_has_no_quick_form_unless_given() -> None:
    found = registry.find_named_experiment("coins")
    assert found is not None
    assert found.file.name == "coins.yaml"
    with pytest.raises(InputError, match="--quick does not apply to coins"):
        found.file_of(is_quick=True)


@pytest.mark.usefixtures("_installed")
def test_the_list_has_them_next_to_headgates_own_and_reports_broken_packages() -> None:
    result = headgate("lab", "list", "--json")
    assert result.exit_code == 0
    summaries = {listed["name"]: listed["summary"] for listed in json.loads(result.stdout)}
    assert (summaries["coin"], summaries["coins"]) == ("Tosses a coin.", "Tosses many coins.")
    assert "league" in summaries
    assert summaries["conttune"] != "A name that Headgate has."
    assert result.stderr.splitlines() == [
        "headgate: scenarios 'absent' of coin-package 1.2 cannot be loaded: "
        "ModuleNotFoundError: No module named 'no_such_module'.",
        "headgate: scenarios 'double' of coin-package 1.2 cannot be loaded: "
        "InputError: two scenarios are called 'conttune'; names must be unique.",
    ]


@pytest.mark.usefixtures("_installed")
def test_an_unknown_name_gets_a_suggestion_and_the_packages_that_could_have_had_it() -> None:
    message = refused("lab", "run", "coim")
    assert "did you mean 'coin'?" in message
    assert "scenarios 'absent' of coin-package 1.2 cannot be loaded" in message
