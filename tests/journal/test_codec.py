"""What goes into JSON comes out of it unchanged."""

from __future__ import annotations

import json
import math
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from headgate.core.errors import JournalError
from headgate.core.types import Decision, Event, Observation, Receipt, Run, Severity
from headgate.journal import codec
from tests.journal import entries


def through_json(data: Any) -> Any:
    return codec.from_json(codec.to_json(data))


@given(entries.observations)
def test_an_observation_comes_back_as_it_was(observation: Observation) -> None:
    assert codec.observation_from_dict(through_json(codec.observation_to_dict(observation))) == observation


@given(entries.decisions)
def test_a_decision_comes_back_as_it_was(decision: Decision) -> None:
    assert codec.decision_from_dict(through_json(codec.decision_to_dict(decision))) == decision


@given(entries.receipts)
def test_a_receipt_comes_back_as_it_was(receipt: Receipt) -> None:
    assert codec.receipt_from_dict(through_json(codec.receipt_to_dict(receipt))) == receipt


@given(entries.events)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    assert codec.event_from_dict(through_json(codec.event_to_dict(event))) == event


@given(entries.runs)
def test_a_run_comes_back_as_it_was(run: Run) -> None:
    assert codec.run_from_dict(through_json(codec.run_to_dict(run))) == run


@given(entries.states)
def test_learned_state_comes_back_as_it_was_and_as_standard_json(state: dict[str, Any]) -> None:
    text = codec.to_json(state)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert codec.from_json(text) == state


def test_a_metric_that_is_not_known_stays_unknown() -> None:
    observation = entries.observation(1.0)
    back = codec.observation_from_dict(through_json(codec.observation_to_dict(observation)))
    assert back.samples["job"].backlog is None


def test_not_a_number_stays_not_a_number() -> None:
    assert math.isnan(through_json({"q": [float("nan")]})["q"][0])


def test_a_word_that_looks_like_infinity_stays_a_word() -> None:
    assert through_json({"number": math.inf, "word": "inf"}) == {"number": math.inf, "word": "inf"}


def test_numbers_of_numpy_and_read_only_mappings_are_written_as_plain_ones() -> None:
    value = MappingProxyType({"count": np.int64(3), "share": np.float32(0.5), "worst": np.float64("inf")})
    assert through_json(value) == {"count": 3, "share": 0.5, "worst": math.inf}


@pytest.mark.parametrize("value", [{"$float": "inf"}, [{"deep": [{"$float": 1, "other": 2}]}], {"$float": math.inf}])
def test_the_key_that_marks_infinity_cannot_be_taken_by_others(value: Any) -> None:
    with pytest.raises(JournalError, match=r"the key '\$float' cannot be written"):
        codec.to_json(value)


def test_the_text_of_the_marking_key_is_no_key() -> None:
    assert through_json({"word": '"$float"'}) == {"word": '"$float"'}


def test_a_value_without_a_json_form_is_refused_by_name() -> None:
    with pytest.raises(JournalError, match="set has no JSON form"):
        codec.to_json({"seen": {1, 2}})


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(JournalError, match="cannot be written as JSON"):
        codec.to_json(loop)


def test_text_that_is_not_json_is_a_journal_error() -> None:
    with pytest.raises(JournalError, match="not JSON"):
        codec.from_json("{")


@pytest.mark.parametrize(
    ("kind", "severity"),
    [("started", Severity.INFO), ("policy-refused", Severity.WARNING), ("query-given-up", Severity.ERROR)],
)
def test_an_event_of_an_old_journal_has_the_severity_of_its_kind(kind: str, severity: Severity) -> None:
    old = {"at_s": 1.0, "kind": kind, "detail": "", "numbers": {}}
    assert codec.event_from_dict(old).severity is severity
    assert codec.event_from_dict({**old, "severity": "info"}).severity is Severity.INFO
