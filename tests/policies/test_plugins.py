"""Policies and forecasters of other packages, found by entry points."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.plugins import plugins
from headgate.forecast import base as forecasters
from headgate.policies.frame import base as policies
from tests.cli.commands import headgate, refused

MODULE = """
from headgate.forecast.linear_trend import LinearTrend
from headgate.policies.static import Static

class Still(Static):
    name = "still"
    summary = "Moves nothing."

class Misnamed(Static):
    name = "something-else"

class Flat(LinearTrend):
    name = "flat"

a_function = print
"""
ENTRIES = """
[headgate.policies]
still = still_package:Still
static = still_package:Still
misnamed = still_package:Misnamed
no-class = still_package:a_function
absent = no_such_module:Still

[headgate.forecasters]
flat = still_package:Flat
"""


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that brings policies, as pip would leave it."""
    info = tmp_path / "still_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: still-package\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "still_package.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for registry in (policies, forecasters):
        registry._discover()
        monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    plugins.cache_clear()
    yield
    plugins.cache_clear()


@pytest.mark.usefixtures("_installed")
def test_a_policy_of_another_package_is_found_by_its_name() -> None:
    assert policies.policy_class("still").summary == "Moves nothing."
    simulated = headgate(
        "simulate", "--policy", "still", "--workload", "constant:1", "--service-rate", "1", "--seconds", "1m"
    )
    assert simulated.exit_code == 0, simulated.stderr


@pytest.mark.usefixtures("_installed")
def test_a_forecaster_of_another_package_is_found_by_its_name() -> None:
    assert forecasters.make_forecaster("flat").name == "flat"


@pytest.mark.usefixtures("_installed")
def test_policies_are_listed_with_their_package_and_what_is_wrong_with_some() -> None:
    result = headgate("policies")
    assert result.exit_code == 0
    assert "Moves nothing. (still-package 1.2)" in result.stdout
    assert [line.split(":")[1] for line in result.stderr.splitlines()] == [
        " policy 'absent' of still-package 1.2 cannot be loaded",
        " policy 'misnamed' of still-package 1.2 cannot be used",
        " policy 'no-class' of still-package 1.2 cannot be used",
    ]
    packages = {item["name"]: item["package"] for item in json.loads(headgate("policies", "--json").stdout)}
    assert (packages["still"], packages["static"]) == ("still-package 1.2", None)


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("absent", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'."),
        ("misnamed", "still_package:Misnamed calls itself 'something-else'; the names must be the same."),
        ("no-class", "still_package:a_function is not a class that extends PolicyBase."),
    ],
)
def test_a_broken_policy_of_another_package_is_reported_in_a_sentence(name: str, reported: str) -> None:
    assert refused("policies", name).endswith(reported)
    with pytest.raises(InputError):
        policies.policy_class(name)


@pytest.mark.usefixtures("_installed")
def test_a_name_of_headgate_stays_what_it_is() -> None:
    assert policies.policy_class("static").__module__ == "headgate.policies.static"


@pytest.mark.usefixtures("_installed")
def test_a_misspelt_name_is_compared_with_those_of_other_packages() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'still'"):
        policies.policy_class("stil")
