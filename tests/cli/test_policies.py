"""headgate policies: every policy with its settings, for people and for machines."""

from __future__ import annotations

import json

import pytest

from headgate.policies import policy_names
from tests.cli.commands import headgate, refused


def test_all_policies_are_listed_with_their_summary() -> None:
    printed = headgate("policies").stdout
    for name in policy_names():
        assert name in printed


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
