"""Common mistakes in rule files, and their messages: the position, what was found and what to write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from headgate.rules import DocumentError, Rules
from headgate.rules.document import Known, from_json, from_yaml

GOOD = """\
version: 1
metrics: [fraud_score]
rules:
  - name: queue too long
    scale_out: enrich
    by: 2
    never_above: 8
    when:
      - metric: backlog
        above: 300
        for_at_least: 30s
        on: all readings
    with_no_scale_out_since: 5m
  - name: idle
    scale_in: "*"
    by: x2
    never_below: 2
    when:
      - metric: utilization
        below: 30 %
        for_at_least: 2m
constraints:
  - name: office hours
    operator: parse
    at_least: 2
    at_most: 6
    during: "* 8-17 * * mon-fri"
    time_zone: Europe/Berlin
"""
KNOWN = Known(operators=("parse", "enrich"))


@dataclass(frozen=True)
class Mistake:
    """A change to the good file, and the message about it."""

    what: str
    old: str
    new: str
    at: str
    """Line and column."""
    message: str
    """A part of it."""


MISTAKES = [
    Mistake("misspelt metric", "metric: backlog", "metric: backlgo", "9:17", "did you mean 'backlog'?"),
    Mistake("metric of another system", "metric: backlog", "metric: queue-length", "9:17", "did you mean 'backlog'?"),
    Mistake("unknown metric", "metric: backlog", "metric: wibble", "9:17", "A metric of your own is named under"),
    Mistake("metric as a number", "metric: backlog", "metric: [1]", "9:17", "found a list"),
    Mistake("misspelt operator", "scale_out: enrich", "scale_out: enrch", "5:16", "did you mean 'enrich'?"),
    Mistake("unknown operator", "operator: parse", "operator: sink", "24:15", 'expected enrich, parse or "*"'),
    Mistake("operator as a list", "scale_out: enrich", "scale_out: [enrich]", "5:16", "found a list"),
    Mistake("operator as a number", "scale_out: enrich", "scale_out: 7", "5:16", "put it in quotes"),
    Mistake("star without quotes", 'scale_in: "*"', "scale_in: *", "15:16", '"*" for all operators needs quotes'),
    Mistake("misspelt key of a rule", "never_above: 8", "never_abve: 8", "7:5", "did you mean 'never_above'?"),
    Mistake("key with a dash", "scale_out: enrich", "scale-out: enrich", "5:5", "did you mean 'scale_out'?"),
    Mistake("key of another system", "by: 2\n", "step: 2\n", "6:5", "did you mean 'by'?"),
    Mistake("misspelt key of a condition", "above: 300", "abov: 300", "10:9", "did you mean 'above'?"),
    Mistake("key that is nothing like any", "on: all readings", "zzzzz: 1", "12:9", "expected one of metric, above"),
    Mistake("misspelt key of the file", "constraints:", "constrains:", "22:1", "did you mean 'constraints'?"),
    Mistake("misspelt key of a constraint", "time_zone:", "timezone:", "28:5", "did you mean 'time_zone'?"),
    Mistake("key twice", "    by: 2\n", "    by: 2\n    by: 3\n", "7:5", "found a second time"),
    Mistake("no name", "- name: queue too long\n    scale_out", "- scale_out", "4:5", "name is missing"),
    Mistake("name as a number", "name: idle", "name: 12", "14:11", "put it in quotes"),
    Mistake("empty name", "name: idle", 'name: ""', "14:11", "expected text"),
    Mistake("name of two lines", "name: idle", r'name: "a\nb"', "14:11", "expected one line"),
    Mistake("same rule twice", "name: idle\n    scale_in: \"*\"\n", "name: queue too long\n    scale_in: enrich\n",
            "14:5", "the first is in line 4"),
    Mistake("no action", "    scale_out: enrich\n", "", "4:5", "scale_out or scale_in is missing"),
    Mistake("both actions", "    by: 2\n", "    scale_in: parse\n    by: 2\n", "6:5", "expected one of them"),
    Mistake("no factor", "    by: 2\n", "", "4:5", "by is missing"),
    Mistake("factor in words", "by: 2\n", "by: two\n", "6:9", "a whole number of instances such as 2"),
    Mistake("factor of nothing", "by: 2\n", "by: 0\n", "6:9", "whole and at least 1"),
    Mistake("negative factor", "by: 2\n", "by: -2\n", "6:9", "a whole number of instances"),
    Mistake("half an instance", "by: 2\n", "by: 1.5\n", "6:9", "a whole number of instances"),
    Mistake("factor that changes nothing", "by: x2", "by: x1", "16:9", "must be above 1"),
    Mistake("factor left out", "by: 2\n", "by:\n", "6:7", "found nothing"),
    Mistake("factor as yes", "by: 2\n", "by: true\n", "6:9", "found 'true'"),
    Mistake("no limit when scaling out", "    never_above: 8\n", "", "5:5", "never_above is missing"),
    Mistake("limit of the wrong side", "never_above: 8", "never_below: 8", "7:5", "expected never_above there"),
    Mistake("limit above when scaling in", "never_below: 2", "never_above: 2", "17:5", "expected never_below there"),
    Mistake("limit below one", "never_below: 2", "never_below: 0", "17:18", "at least 1"),
    Mistake("limit in words", "never_above: 8", "never_above: eight", "7:18", "such as 8"),
    Mistake("no conditions", "    when:\n      - metric: utilization\n        below: 30 %\n        for_at_least: 2m\n",
            "", "14:5", "when is missing"),
    Mistake("empty conditions",
            "    when:\n      - metric: utilization\n        below: 30 %\n        for_at_least: 2m\n",
            "    when: []\n", "18:11", "at least one condition"),
    Mistake("condition as text", "      - metric: utilization\n        below: 30 %\n        for_at_least: 2m\n",
            "      - utilization below 30 %\n", "19:9", "expected a condition with keys such as metric"),
    Mistake("no metric", "      - metric: backlog\n        above", "      - above", "9:9", "metric is missing"),
    Mistake("no value", "        above: 300\n", "", "9:9", "above or below is missing"),
    Mistake("both values", "        above: 300\n",
            "        above: 300\n        below: 500\n", "11:9", "make two conditions"),
    Mistake("value in words", "above: 300", "above: a lot", "10:16", "expected a number such as 300"),
    Mistake("misspelt unit", "above: 300", "above: 300 recrods", "10:16", "did you mean 'records'?"),
    Mistake("unit of another metric", "above: 300", "above: 30 %", "10:16", "counted in records"),
    Mistake("time for a share", "below: 30 %", "below: 30 s", "20:16", "counted in a share"),
    Mistake("percent without its sign", "below: 30 %", "below: 30", "20:16", "Did you mean 30 %?"),
    Mistake("never below nothing", "above: 300", "below: 0", "10:16", "can never hold"),
    Mistake("negative value", "above: 300", "above: -1", "10:16", "is never negative"),
    Mistake("infinite value", "above: 300", "above: .inf", "10:16", "expected a number such as 300"),
    Mistake("no time", "        for_at_least: 30s\n", "", "9:9", "for_at_least is missing"),
    Mistake("time in words", "for_at_least: 30s", "for_at_least: a while", "11:23", "write for example 90s"),
    Mistake("unknown unit of time", "for_at_least: 30s", "for_at_least: 30 fortnights", "11:23", "90s, 5m, 2h"),
    Mistake("negative time", "for_at_least: 30s", "for_at_least: -30s", "11:23", "is not understood"),
    Mistake("time of a year", "for_at_least: 30s", "for_at_least: 365d", "10:16", "between 0 and 30 days"),
    Mistake("unknown choice of readings", "on: all readings", "on: most readings", "12:13", "'90 % of readings'"),
    Mistake("more than all readings", "on: all readings", "on: 120 % of readings", "12:13", "at most 100"),
    Mistake("instances of a metric of the whole", "on: all readings", "over_instances: max", "12:25",
            "measured for the operator as a whole"),
    Mistake("unknown aggregation", "on: all readings", "over_instances: maximum", "12:25", "mean or max or min or p95"),
    Mistake("guard time in words", "since: 5m", "since: never", "13:30", "is not understood"),
    Mistake("version of the future", "version: 1", "version: 2", "1:10", "expected 1"),
    Mistake("metrics as text", "metrics: [fraud_score]", "metrics: fraud_score", "2:10", "expected a list"),
    Mistake("constraint without a dash", "  - name: office hours\n", "    name: office hours\n", "23:5",
            "expected a list, each item after a dash"),
    Mistake("constraint that says nothing", "    at_least: 2\n    at_most: 6\n", "", "23:5",
            "at_least, at_most or forbid"),
    Mistake("bounds that cross", "at_most: 6", "at_most: 1", "23:5", "no size is possible"),
    Mistake("bound of nothing", "    at_least: 2", "    at_least: 0", "25:15", "at least 1"),
    Mistake("bound as a multiple", "    at_least: 2", "    at_least: x2", "25:15", "whole number of instances"),
    Mistake("forbidden unknown", "at_most: 6", "forbid: scale_out", "26:13", "scale in or any scaling"),
    Mistake("period in words", '"* 8-17 * * mon-fri"', "office hours", "27:13", "five fields"),
    Mistake("hour that is none", "* 8-17 *", "* 8-25 *", "27:13", "expected 0 to 23"),
    Mistake("day that is none", "mon-fri", "mon-frj", "27:13", "a name such as sun"),
    Mistake("step of nothing", "* 8-17 *", "*/0 8-17 *", "27:13", "at least 1"),
    Mistake("misspelt time zone", "Europe/Berlin", "Europe/Berlim", "28:16", "did you mean 'Europe/Berlin'?"),
    Mistake("time zone without a period", '    during: "* 8-17 * * mon-fri"\n', "", "27:5", "expected both or neither"),
    Mistake("tab for indentation", "    by: 2\n", "\tby: 2\n", "6:1", "found a tab"),
    Mistake("quote that is not closed", "time_zone: Europe", 'time_zone: "Europe', "29:1",
            "is a quote or a bracket not closed?"),
    Mistake("colon in a name", "name: idle", "name: idle: yes", "14:15", "a text that needs quotes"),
    Mistake("indentation that is off", "    by: 2\n", "   by: 2\n", "6:4", "indentation"),
    Mistake("colon forgotten", "    by: 2\n", "    by 2\n", "7:5", "is a ':' missing after a key?"),
]  # fmt: skip


def test_the_good_file_is_good() -> None:
    policy = from_yaml(GOOD, "rules.yaml", KNOWN)
    assert [rule.name for rule in policy.rules] == ["queue too long", "idle"]
    assert len({mistake.what for mistake in MISTAKES}) == len(MISTAKES) >= 40


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_a_mistake_is_reported_with_its_position_and_what_to_write(mistake: Mistake) -> None:
    assert GOOD.count(mistake.old) >= 1, "the mistake is not made"
    text = GOOD.replace(mistake.old, mistake.new, 1)
    with pytest.raises(DocumentError) as caught:
        from_yaml(text, "rules.yaml", KNOWN)
    messages = [str(problem) for problem in caught.value.problems]
    hits = [message for message in messages if message.startswith(f"rules.yaml:{mistake.at}: ")]
    assert hits, messages
    assert any(mistake.message in hit for hit in hits), messages
    assert len(messages) <= 2, "one mistake must not be reported in many ways"


WHOLE_FILES = [
    ("", "1:1", "the file is empty"),
    ("# nothing but a comment\n", "1:1", "the file is empty"),
    ("just text\n", "1:1", "expected a rule file with keys such as"),
    ("- a\n- b\n", "1:1", "found a list"),
    ("version: 1\n", "1:1", "neither 'rules' nor 'constraints'"),
    ("rules:\n", "1:6", "found nothing, expected a list"),
    ("rules: []\n---\nrules: []\n", "2:1", "this is not YAML"),
    ("a: &a [*a]\n", "1:4", "nested too deeply"),
    ("rules: [" + "[" * 500, "1:1", "nested too deeply"),
    ("rules: \x00\n", "1:8", "special characters are not allowed"),
    ("? [a, b]\n: 1\n", "1:3", "found a list as a key"),
]


@pytest.mark.parametrize(("text", "at", "message"), WHOLE_FILES)
def test_a_file_that_is_no_rule_file_is_reported_as_such(text: str, at: str, message: str) -> None:
    with pytest.raises(DocumentError, match=re.escape(message)) as caught:
        from_yaml(text, "rules.yaml")
    assert str(caught.value.problems[0]).startswith(f"rules.yaml:{at}: ")


def test_all_errors_of_a_file_are_reported_at_once_in_their_order() -> None:
    text = (
        GOOD.replace("by: 2\n", "by: two\n").replace("backlog", "backlgo").replace("  at_least: 2", "  at_least: none")
    )
    with pytest.raises(DocumentError) as caught:
        from_yaml(text, "rules.yaml", KNOWN)
    assert [problem.position for problem in caught.value.problems] == [(6, 9), (9, 17), (25, 15)]
    assert str(caught.value).startswith("rules.yaml has 3 errors:\nrules.yaml:6:9: by: ")


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ('{"rules": [}', "1:12", "this is not JSON"),
        ('{\n  "rules": [\n    {"name": "a", "scale_out": "b"}\n  ]\n}', "3:5", "by is missing"),
        ('{"rules": [{"name": "é", "scale_in": "*", "by": 1, "when": []}]}', "1:60", "at least one condition"),
        ('{"rules": {}}', "1:11", "expected a list"),
        ("[" * 100_000, "1:1", "this is nested too deeply"),
        ('{"rules": ' + "[" * 60 + "]" * 60 + "}", "1:61", "nested too deeply"),
    ],
)
def test_json_has_the_same_errors_with_positions(text: str, at: str, message: str) -> None:
    with pytest.raises(DocumentError, match=re.escape(message)) as caught:
        from_json(text, "rules.json")
    assert str(caught.value.problems[0]).startswith(f"rules.json:{at}: ")


def test_a_file_that_cannot_be_read_is_reported_in_one_sentence(tmp_path: Path) -> None:
    from headgate.core.errors import InputError

    with pytest.raises(InputError, match=r"no\.yaml cannot be read: no such file or directory\.$"):
        Rules.from_file(tmp_path / "no.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"rules: \xff\n")
    with pytest.raises(InputError, match="is not text in UTF-8"):
        Rules.from_file(tmp_path / "latin.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        Rules.from_file(tmp_path)
