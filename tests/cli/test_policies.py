"""headgate policies: every policy with its settings, for people and for machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.cli.policies import PURPOSES
from headgate.policies import policy_names
from tests.cli.commands import SIMULATE, headgate, refused


def test_six_policies_are_shown_and_all_of_them_by_what_they_are_for() -> None:
    listed = [line.split()[0] for line in headgate("policies").stdout.splitlines()[1:7]]
    assert listed == ["autopilot", "rules", "reactive", "hpa", "keda-lag", "static"]
    assert f"{len(policy_names()) - 6} more: headgate policies --all." in headgate("policies").stdout
    printed = headgate("policies", "--all").stdout
    assert all(f"\n{name} " in printed for name in policy_names())
    purposes = [printed.index(purpose) for purpose in PURPOSES]
    assert purposes == sorted(purposes)


def test_every_policy_of_headgate_has_a_purpose() -> None:
    assert sorted(name for names in PURPOSES.values() for name in names) == policy_names()


HALF_FULL = """
from headgate.policies import OperatorPolicy, Settings, Target

class HalfFullSettings(Settings):
    share: float = 0.5

class HalfFull(OperatorPolicy[HalfFullSettings]):
    name = "own-half-full"
    summary = "Half of the instances."
    Settings = HalfFullSettings

    def size(self, now, window, operator, instances, sample):
        return Target(2, "half", "half of them")

class Unfinished(OperatorPolicy[HalfFullSettings]):
    pass
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "half_full.py"
    path.write_text(HALF_FULL)
    return path


def test_a_policy_is_named_by_its_file_and_class(own: Path) -> None:
    result = headgate(*SIMULATE, "--policy", f"{own}:HalfFull", "--set", "share=0.4", "--json")
    run = json.loads(result.stdout)
    assert (run["run"]["policy"], run["run"]["settings"]) == ("own-half-full", {"share": 0.4})
    assert run["decisions"][0]["reason"] == "half of them"
    assert "Half of the instances." in headgate("policies", f"{own}:HalfFull").stdout


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("{own}:HalfFul", "did you mean 'HalfFull'?"),
        ("{own}:Unfinished", "cannot be used: it has no name, summary, Settings, size."),
        ("{own}:Settings", "cannot be used: it is not a class that extends PolicyBase."),
        ("{own}.not.py:HalfFull", "there is no file"),
    ],
)
def test_a_file_without_such_a_policy_is_refused_in_one_sentence(own: Path, named: str, message: str) -> None:
    assert message in refused(*SIMULATE, "--policy", named.format(own=own))


def test_a_setting_that_is_not_allowed_is_refused_with_what_is() -> None:
    message = refused(*SIMULATE, "--policy", "hpa", "--set", "target=much")
    assert message.startswith("hpa setting target 'much' is not allowed: allowed is a number")
    assert "nput should" not in message


def test_the_json_is_a_list_of_names_summaries_and_settings() -> None:
    listed = json.loads(headgate("policies", "--json").stdout)
    assert [policy["name"] for policy in listed] == policy_names()
    assert all(policy["summary"] for policy in listed)
    (threshold,) = [policy for policy in listed if policy["name"] == "threshold"]
    (upper,) = [setting for setting in threshold["settings"] if setting["name"] == "upper"]
    assert set(upper) == {"name", "type", "default", "allowed", "help"}


def test_one_policy_is_shown_with_its_settings_and_its_guards() -> None:
    printed = headgate("policies", "threshold").stdout
    for text in ("Settings, by --set", "upper_for_s", "Guards around it, by --guard", "in_after_out_s"):
        assert text in printed
    data = json.loads(headgate("policies", "threshold", "--json").stdout)
    assert data["name"] == "threshold"
    assert "in_after_out_s" in [guard["name"] for guard in data["guards"]]


def test_a_misspelt_policy_gets_a_suggestion() -> None:
    assert "did you mean 'threshold'?" in refused("policies", "treshold")


@pytest.mark.parametrize("width", [0, 20, 40, 60])
def test_in_a_narrow_terminal_what_does_not_fit_stands_below_in_whole_words(width: int) -> None:
    for command in (("policies",), ("policies", "threshold"), ("lab", "list"), ("engines",)):
        printed = headgate(*command, width=width).stdout
        assert "…" not in printed
        assert max(map(len, printed.splitlines())) <= max(40, width)
    assert "\n  Keeps the requested share of records" in headgate("policies", width=40).stdout
    assert "\nstale_after_s = 60\n" in headgate("policies", "threshold", width=40).stdout
