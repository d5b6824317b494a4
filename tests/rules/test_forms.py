"""The three forms of rules: the same model from each, back to text without loss, and never a traceback."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from headgate.core.errors import InputError
from headgate.core.metrics import METRICS
from headgate.documents import DocumentError
from headgate.rules import RulePolicy, Rules, constraint, policy, rule
from headgate.rules.document import (
    ConstraintForm,
    RuleFileForm,
    RuleForm,
    TriggerForm,
    from_json,
    from_yaml,
    json_schema,
    to_json,
    to_plain,
)
from headgate.rules.model import make_trigger, metric_named
from tests.rules.generated import POLICIES
from tests.rules.test_bad_files import GOOD, MISTAKES

EXAMPLE = Path(__file__).parents[2] / "examples" / "rules.yaml"
ISSUED = """
rules:
  - name: queue too long
    scale_out: enrich            # or scale_in; "*" for all operators
    by: 2                        # absolute; "x2" is relative
    never_above: 8               # or "x4" of the original size; never_below for scale-in
    when:
      - metric: backlog
        above: 300               # or below; units: 30 %, 5 s, 300 records/s
        for_at_least: 30s
        on: all readings         # or average, median, "90 % of readings"
    with_no_scale_out_since: 5m
"""


@given(POLICIES)
@settings(max_examples=150)
def test_what_is_printed_reads_back_as_the_same_policy(made: RulePolicy) -> None:
    assert from_yaml(str(made)) == made
    assert from_json(to_json(made)) == made
    assert from_yaml(to_json(made)) == made, "JSON is YAML too"


@given(POLICIES)
@settings(max_examples=50)
def test_whatever_is_printed_keeps_the_schema(made: RulePolicy) -> None:
    Draft202012Validator(json_schema()).validate(json.loads(to_json(made)))


def test_the_three_forms_give_the_same_object() -> None:
    fluent = policy(
        rule("queue too long").scale_out("enrich").by(2).never_above(8)
        .when("backlog").above(300).for_at_least(seconds=30)
        .with_no_scale_out_since(minutes=5)
    )  # fmt: skip
    assert from_yaml(ISSUED) == fluent
    assert from_json(json.dumps(to_plain(fluent))) == fluent
    assert Rules.from_yaml(ISSUED).policy == Rules.from_json(to_json(fluent)).policy == Rules(fluent).policy
    assert str(Rules(fluent)) == str(fluent)


def test_every_word_of_the_fluent_form_has_its_key() -> None:
    everything = policy(
        rule("all of it").scale_in("*").by("x1.5").never_below("x0.5")
        .when("latency").below("5 s").for_at_least(minutes=1, seconds=30).tolerating(percent=10)
        .and_when("memory_share").above("30 %").for_at_least(hours=1).at_median().over_instances("p95")
        .and_when("fraud").above(-1).for_at_least(seconds=0).on_average()
        .with_no_scale_in_since(minutes=1).with_no_scale_out_since(seconds=90),
        constraints=[
            constraint("nights").of("enrich").at_least(1).at_most(4).during("* 22-5 * * *", time_zone="Asia/Tokyo"),
            constraint("freeze").forbid_any_scaling().during("* * 24 dec *", "* * 31 dec *"),
            constraint("keep").forbid_scale_in(),
        ],
        metrics=["fraud"],
    )  # fmt: skip
    expected = """\
version: 1
metrics:
  - fraud
rules:
  - name: all of it
    scale_in: '*'
    by: x1.5
    never_below: x0.5
    when:
      - metric: latency_s
        below: 5 s
        for_at_least: 90s
        on: 90 % of readings
      - metric: memory_share
        above: 30 %
        for_at_least: 1h
        on: median
        over_instances: p95
      - metric: fraud
        above: -1
        for_at_least: 0s
        on: average
    with_no_scale_out_since: 90s
    with_no_scale_in_since: 1m
constraints:
  - name: nights
    operator: enrich
    at_least: 1
    at_most: 4
    during: '* 22-5 * * *'
    time_zone: Asia/Tokyo
  - name: freeze
    forbid: any scaling
    during:
      - '* * 24 dec *'
      - '* * 31 dec *'
  - name: keep
    forbid: scale in
"""
    assert str(everything) == expected
    assert from_yaml(expected) == everything


@pytest.mark.parametrize(
    ("unfinished", "message"),
    [
        (rule("r"), "scale_out(operator) or scale_in(operator) must follow"),
        (rule("r").scale_out("job"), "by(instances) must follow"),
        (rule("r").scale_out("job").by(2), "never_above(instances) must follow"),
        (rule("r").scale_out("job").by(2).never_above(8), "when(metric) must follow"),
        (rule("r").scale_in("job").by(1), "never_below(instances) or when(metric) must follow"),
        (rule("r").scale_in("job").by(1).when("backlog"), "above(value) or below(value) must follow"),
        (rule("r").scale_in("job").by(1).when("backlog").below(5), "for_at_least(seconds=…) must follow"),
        ("rule", "is not a rule"),
    ],
)
def test_an_unfinished_rule_is_an_error_when_the_policy_is_built(unfinished: object, message: str) -> None:
    with pytest.raises(InputError, match="rule") as caught:
        policy(unfinished)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_stage_offers_only_what_may_follow() -> None:
    def words(stage: object) -> set[str]:
        return {name for name in dir(stage) if not name.startswith("_")} - {"draft", "follows", "build"}

    start = rule("r")
    assert words(start) == {"scale_out", "scale_in"}
    assert words(start.scale_out("job")) == {"by"}
    assert words(start.scale_out("job").by(1)) == {"never_above"}
    assert words(start.scale_out("job").by(1).never_above(2)) == {"when"}
    assert words(start.scale_in("job").by(1)) == {"never_below", "when"}
    when = start.scale_in("job").by(1).when("backlog")
    assert words(when) == {"above", "below"}
    assert words(when.below(1)) == {"for_at_least"}
    more = {"and_when", "with_no_scale_out_since", "with_no_scale_in_since", "once_until_not_met"}
    finished = when.below(1).for_at_least(seconds=5)
    assert words(finished) == more | {"on_average", "at_median", "tolerating", "over_instances"}
    assert words(finished.with_no_scale_in_since(seconds=5)) == more


def test_a_type_checker_refuses_what_may_not_follow() -> None:
    """Each of these ignores is needed, or the type check of the tests fails."""
    with pytest.raises(AttributeError):
        rule("r").by(2)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        rule("r").scale_out("job").by(2).when("backlog")  # type: ignore[attr-defined]
    with pytest.raises(InputError):
        policy(rule("r").scale_in("job").by(2))  # type: ignore[arg-type]


@pytest.mark.parametrize("short", ["latency", "input_rate", "processed_rate", "processing_time", "scheduling_delay"])
def test_a_metric_may_be_named_without_its_unit(short: str) -> None:
    assert metric_named(short) in METRICS
    assert metric_named(metric_named(short)) == metric_named(short)


def test_a_metric_of_ones_own_goes_before_a_short_name() -> None:
    assert metric_named("latency", ["latency"]) == "latency"
    with pytest.raises(InputError, match="did you mean 'fraud'"):
        metric_named("frau", ["fraud"])


@pytest.mark.parametrize(
    ("metric", "value", "number"),
    [
        ("backlog", "300 tuples", 300.0),
        ("backlog", 300, 300.0),
        ("latency", "2 minutes", 120.0),
        ("latency", "250 ms", 0.25),
        ("utilization", "30 %", 0.3),
        ("utilization", "30 percent", 0.3),
        ("input_rate", "300 records per second", 300.0),
        ("busy_share", "120 %", 1.2),
    ],
)
def test_units_are_understood(metric: str, value: str | float, number: float) -> None:
    from headgate.rules.model import Comparison

    assert make_trigger(metric, Comparison.ABOVE, value, 0.0).threshold.number == pytest.approx(number)


# ------------------------------------------------------------------------------------------------------------- fuzzing

PIECES = sorted(
    {
        *RuleFileForm.fields_by_key(),
        *RuleForm.fields_by_key(),
        *TriggerForm.fields_by_key(),
        *ConstraintForm.fields_by_key(),
    }
)
WORDS = st.sampled_from(
    [*PIECES, "backlog", "enrich", "*", "x2", "30 %", "5m", "&a", "*a", "!!int 3", "<<", "on", "~", "1e999", "---"]
)
SCALARS = st.one_of(WORDS, st.integers().map(str), st.floats().map(str), st.text(max_size=8))


def _written(tree: object, depth: int = 0) -> str:
    """Something like YAML, quotes and all other care left out."""
    pad = "  " * depth
    if isinstance(tree, dict):
        return "".join(f"\n{pad}{key}:{_written(value, depth + 1)}" for key, value in tree.items())
    if isinstance(tree, list):
        return "".join(f"\n{pad}-{_written(item, depth + 1)}" for item in tree)
    return f" {tree}"


TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=5)),
    max_leaves=20,
)


def _accepts_or_reports(text: str) -> None:
    for read in (from_yaml, from_json):
        try:
            made = read(text, "fuzzed")
        except DocumentError as errors:
            problems = errors.problems
        else:
            assert from_yaml(str(made)) == made
            continue
        assert problems
        assert all(problem.position >= (1, 1) and problem.message for problem in problems)


@given(st.one_of(st.text(), st.text(alphabet=string.printable), TREES.map(_written)))
@example("&0\n: &0")
@example("rules: &a\n  - &a x")
@settings(max_examples=400)
def test_any_text_is_a_policy_or_has_errors_and_never_a_traceback(text: str) -> None:
    _accepts_or_reports(text)


@given(st.data())
@settings(max_examples=300)
def test_a_rule_file_that_is_damaged_anywhere_never_gives_a_traceback(data: st.DataObject) -> None:
    text = GOOD
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        text = (
            text[:start] + data.draw(st.one_of(SCALARS, st.sampled_from(list(":-[]{}\"'&*!|>%@`#\t\n ")))) + text[end:]
        )
    _accepts_or_reports(text)


def test_many_aliases_do_not_make_a_file_grow() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    with pytest.raises(DocumentError, match="unknown key 'a0'"):
        from_yaml("\n".join(lines))


# -------------------------------------------------------------------------------------------------------------- schema


def test_the_schema_is_one_and_knows_the_example() -> None:
    from ruamel.yaml import YAML

    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for text in (EXAMPLE.read_text(encoding="utf-8"), GOOD, ISSUED):
        validator.validate(YAML(typ="safe", pure=True).load(text))
    assert set(schema["properties"]) == set(RuleFileForm.fields_by_key())


def test_the_schema_refuses_most_mistakes_that_the_reader_refuses() -> None:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    validator = Draft202012Validator(json_schema())
    refused = total = 0
    for mistake in MISTAKES:
        try:
            plain = YAML(typ="safe", pure=True).load(GOOD.replace(mistake.old, mistake.new, 1))
        except YAMLError:
            continue  # Schemas do not apply to text that is not YAML.
        total += 1
        refused += not validator.is_valid(plain)
    assert refused >= 0.6 * total, (refused, total)
