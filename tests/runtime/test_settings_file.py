"""Settings files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.runtime.settings_file import ChosenSettings, read_settings, with_settings_file
from tests.cli.commands import SIMULATE, headgate, refused

GOOD = """version: 1
policy: threshold
settings:
  upper: 0.9
guards:
  in_after_in_s: 2m
tuned:
  workload: constant:25
headgate: 0.1.0
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def test_a_file_says_policy_settings_and_guards(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, GOOD))
    assert found == ChosenSettings("threshold", {"upper": "0.9"}, {"in_after_in_s": "2m"})


def test_guards_given_with_a_file_take_precedence(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    assert with_settings_file(None, str(path), {"in_after_in_s": "5m", "max_in": 1}) == (
        "threshold",
        {"upper": "0.9"},
        {"in_after_in_s": "5m", "max_in": 1},
    )
    assert with_settings_file("hpa", {"target": 0.5}, None) == ("hpa", {"target": 0.5}, None)


def test_a_model_file_is_found_relative_to_the_settings_file(tmp_path: Path) -> None:
    path = written(tmp_path, "version: 1\npolicy: mst-0\nsettings: {model_file: mst.json}\n")
    assert read_settings(path).settings == {"model_file": str(tmp_path / "mst.json")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1:1: the file is empty"),
        ("policy: hpa\n", ":1:1: version is missing in a settings file"),
        ("version: 2\npolicy: hpa\n", ":1:10: version: found '2', expected 1"),
        ("version: 1\nsettings: {}\n", ":1:1: policy is missing in a settings file"),
        ("version: 1\npolicy: hpaa\n", ":2:9: policy: unknown policy 'hpaa'"),
        ("version: 1\npolicy: hpa\nguard: {}\n", ":3:1: unknown key 'guard' in a settings file, did you mean 'guards'"),
        ("version: 1\npolicy: hpa\nsettings: fast\n", ":3:11: settings: found 'fast', expected names and values"),
        ("version: 1\npolicy: hpa\nsettings:\n  targt: 0.5\n", ":4:3: unknown setting of hpa 'targt'"),
        ("version: 1\npolicy: hpa\nsettings:\n  target: high\n", ":4:11: hpa setting target 'high' is not allowed"),
        ("version: 1\npolicy: hpa\nsettings:\n  target: [1]\n", ":4:11: settings: found a list"),
        ("version: 1\npolicy: hpa\nguards:\n  gain_in: 2\n", ":4:12: guards setting gain_in '2' is not allowed"),
        (
            "version: 1\npolicy: threshold\nsettings:\n  upper: 0.2\n  lower: 0.3\n",
            ":4:3: threshold settings do not go together",
        ),
        ("version: [1\n", "settings.yaml:"),
    ],
)
def test_mistakes_in_a_file_are_reported_with_their_position(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        read_settings(written(tmp_path, text))
    assert message in str(raised.value)
    assert str(tmp_path) in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"settings file .*none\.yaml cannot be read: no such file"):
        read_settings(tmp_path / "none.yaml")


def test_a_file_for_another_policy_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    with pytest.raises(InputError, match="is for policy 'threshold', and does not go with policy 'hpa'"):
        with_settings_file("hpa", path, None)
    message = refused(*SIMULATE, "--policy", "hpa", "--settings", str(path))
    assert message == f"--policy hpa does not go with --settings {path}, which is for threshold."


def test_a_simulation_takes_a_settings_file_and_more_settings(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    plain = headgate(*SIMULATE, "--policy", "threshold", "--set", "upper=0.9", "--set", "lower=0.2",
                     "--guard", "in_after_in_s=2m", "--json")  # fmt: skip
    by_file = headgate(*SIMULATE, "--settings", str(path), "--set", "lower=0.2", "--json")
    assert by_file.exit_code == 0, by_file.output
    assert by_file.stdout == plain.stdout
