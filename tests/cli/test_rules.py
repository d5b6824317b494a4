"""headgate rules check, show and schema; headgate simulate --rules and --constraints; rules in headgate explain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.rules.document import from_json, from_yaml, json_schema
from tests.cli.commands import headgate, refused

EXAMPLE = Path(__file__).parents[2] / "examples" / "rules.yaml"
GUARDED = """\
rules:
  - name: queue too long
    scale_out: job
    by: 1
    never_above: 3
    when: {metric: backlog, above: 300, for_at_least: 30s}
    with_no_scale_out_since: 5m
"""
SIMULATE = ("simulate", "--workload", "constant:10", "--service-rate", "5", "--seconds", "10m")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(GUARDED)
    return path


def test_the_example_is_valid() -> None:
    result = headgate("rules", "check", str(EXAMPLE))
    assert result.exit_code == 0
    assert result.stdout == f"{EXAMPLE} is valid: 3 rules and 2 constraints.\n"


def test_check_tells_all_errors_with_their_places_and_exits_with_2(rules: Path) -> None:
    rules.write_text(GUARDED.replace("backlog", "backlgo").replace("by: 1", "by: one"))
    result = headgate("rules", "check", str(rules))
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert lines[0] == f"headgate: {rules} has 2 errors:"
    assert lines[1].startswith(f"{rules}:4:9: by: factor 'one' is not understood")
    assert lines[2].startswith(f"{rules}:6:20: metric: unknown metric 'backlgo', did you mean 'backlog'?")


def test_check_gives_errors_as_data(rules: Path) -> None:
    rules.write_text(GUARDED.replace("backlog", "backlgo"))
    result = headgate("rules", "check", str(rules), "--json")
    assert result.exit_code == 2
    data = json.loads(result.stdout)
    assert data["valid"] is False
    assert [(error["line"], error["column"]) for error in data["errors"]] == [(6, 20)]
    rules.write_text(GUARDED)
    data = json.loads(headgate("rules", "check", str(rules), "--json").stdout)
    assert data == {"file": str(rules), "valid": True, "errors": [], "warnings": []}


def test_check_knows_the_given_operators(rules: Path) -> None:
    assert headgate("rules", "check", str(rules), "--operator", "job", "--operator", "sink").exit_code == 0
    assert "unknown operator 'job'" in refused("rules", "check", str(rules), "--operator", "sink")


def test_check_notes_rules_that_contradict_each_other(rules: Path) -> None:
    rules.write_text(
        GUARDED + "  - {name: idle, scale_in: '*', by: 1, when: {metric: backlog, below: 500, for_at_least: 30s}}\n"
    )
    text = headgate("rules", "check", str(rules)).stdout
    assert "note: 'queue too long' and 'idle' both hold while backlog is above 300 and below 500" in text


def test_show_tells_rules_in_words(rules: Path) -> None:
    text = headgate("rules", "show", str(rules)).stdout
    assert text == (
        "queue too long: add 1 instance to job, never above 3, when backlog above 300 for 30s "
        "with no scale-out since 5m\n"
    )
    whole = headgate("rules", "show", str(EXAMPLE)).stdout
    assert (
        "falling behind: make job 2 times as large, never above x3 of the original size, when latency_s above 20 s"
        in whole
    )
    assert "office hours: at least 2 instances for every operator during * 8-17 * * mon-fri (Europe/Berlin)" in whole


def test_show_gives_yaml_and_json_that_read_back(rules: Path) -> None:
    policy = from_yaml(EXAMPLE.read_text(encoding="utf-8"))
    assert from_yaml(headgate("rules", "show", str(EXAMPLE), "--yaml").stdout) == policy
    assert from_json(headgate("rules", "show", str(EXAMPLE), "--json").stdout) == policy
    target = rules.with_suffix(".json")
    headgate("rules", "show", str(rules), "--json", str(target))
    assert headgate("rules", "check", str(target)).exit_code == 0
    assert "is the rule file" in refused("rules", "show", str(rules), "--json", str(rules))


def test_schema_is_printed_or_written(tmp_path: Path) -> None:
    assert json.loads(headgate("rules", "schema").stdout) == json_schema()
    headgate("rules", "schema", "--json", str(tmp_path / "schema.json"))
    assert json.loads((tmp_path / "schema.json").read_text()) == json_schema()


def test_a_file_that_is_not_there_is_reported_in_one_sentence(tmp_path: Path) -> None:
    assert "cannot be read: no such file" in refused("rules", "check", str(tmp_path / "no.yaml"))


def test_simulate_runs_a_rule_file(rules: Path) -> None:
    data = json.loads(headgate(*SIMULATE, "--rules", str(rules), "--json").stdout)
    changes = [entry for entry in data["decisions"] if entry["from"] != entry["to"]]
    assert [(entry["t"], entry["from"], entry["to"]) for entry in changes] == [(95.0, 1, 2), (395.0, 2, 3)]
    assert data["run"]["policy"] == "rules"
    assert data["run"]["settings"] == {"file": str(rules), "rules": GUARDED}


def test_simulate_takes_rules_by_the_name_of_the_policy_too(rules: Path) -> None:
    by_file = json.loads(headgate(*SIMULATE, "--policy", "rules", "--set", f"file={rules}", "--json").stdout)
    assert by_file["summary"]["rescales"] == 2
    assert refused(*SIMULATE, "--policy", "rules").startswith("--policy rules has no rules to go by;")


def test_either_a_policy_or_rules_decide(rules: Path) -> None:
    text = refused(*SIMULATE, "--policy", "static", "--rules", str(rules))
    assert text.endswith("do not go together; one of them decides.")
    assert "this one is set up already" in refused(*SIMULATE, "--rules", str(rules), "--set", "a=1")


def test_constraints_go_with_any_policy(rules: Path) -> None:
    limits = rules.with_name("limits.yaml")
    limits.write_text("constraints: [{name: small, at_most: 2}]\n")
    data = json.loads(headgate(*SIMULATE, "--workload", "constant:30", "--constraints", str(limits), "--json").stdout)
    assert data["run"]["policy"] == "autopilot"
    assert max(point["planned"] for point in data["series"]) == 2
    assert "only constraints go with another policy" in refused(*SIMULATE, "--constraints", str(rules))


def test_explain_says_which_trigger_held_since_when_and_what_stopped_a_rule(rules: Path) -> None:
    journal = str(rules.with_name("run.db"))
    headgate(*SIMULATE, "--rules", str(rules), "--journal", journal)
    text = " ".join(headgate("explain", journal).stdout.split())
    assert "1 → 2 'queue too long': backlog 475 has been above 300 since +65s, for 30s" in text
    assert "not now: it was scaled out 4m 55s ago, and the rule wants no scale-out for 5m" in text
    assert "rules=(7 lines)" in text


def test_policies_lists_the_rules() -> None:
    assert "as written in a rule file" in headgate("policies").stdout
    assert "a running autoscaler takes up its changes" in headgate("policies", "rules").stdout


def test_an_operator_that_nothing_was_compared_with_is_noted(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        "rules: [{name: late, scale_out: enrch, by: 1, never_above: 8, "
        "when: {metric: latency_s, above: 10, for_at_least: 5s}}]\n"
    )
    printed = headgate("rules", "check", str(file)).stdout
    assert "note: whether there is an operator enrch is not checked; name those of the job by --operator" in printed
    assert "unknown operator 'enrch', did you mean 'enrich'?" in refused(
        "rules", "check", str(file), "--operator", "enrich"
    )
    file.write_text(file.read_text().replace("enrch", "job"))
    assert "note:" not in headgate("rules", "check", str(file)).stdout


def test_rules_are_tried_on_a_journal(rules: Path, tmp_path: Path) -> None:
    journal = tmp_path / "run.sqlite"
    options = "--workload sine:mean=30,amplitude=25,period=5m --service-rate 12 --model micro-batch --seconds 10m"
    made = headgate("simulate", *options.split(), "--policy", "reactive", "--startup", "10s", "--journal", str(journal))
    assert made.exit_code == 0, made.output
    result = headgate("rules", "try", str(rules), "--journal", str(journal), "--json")
    assert result.exit_code == 0, result.output
    (operator,) = json.loads(result.stdout)["operators"]
    assert operator["runs"][0]["load"] == "recorded run 1"
    assert "--journal is missing" in refused("rules", "try", str(rules), "--run", "1")
