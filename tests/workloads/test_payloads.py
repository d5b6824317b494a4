"""Payloads: every registered one makes the same record for the same number, with its number and its due time in it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from headgate.core.errors import UnknownNameError
from headgate.workloads.draws import Keys
from headgate.workloads.payloads import make_payloads, payload_names

AT_MS = 1_700_000_000_000 + np.arange(100) * 7


def test_the_default_carries_number_key_and_due_time() -> None:
    payloads = make_payloads("numbered", keys=Keys(count=3, seed=1))
    for number, (key, value) in enumerate(payloads.records(40, AT_MS), start=40):
        assert key is not None
        assert json.loads(value) == {"number": number, "key": key.decode(), "at_ms": AT_MS[number - 40]}


def test_a_record_does_not_depend_on_those_made_with_it() -> None:
    payloads = make_payloads("numbered", seed=5)
    assert payloads.records(1000, AT_MS)[30:60] == payloads.records(1030, AT_MS[30:60])
    assert len(payloads.records(1000, AT_MS[:0])) == 0


def test_a_misspelt_application_gets_the_closest_as_suggestion() -> None:
    assert "numbered" in payload_names()
    with pytest.raises(UnknownNameError, match=r"unknown application 'numberd', did you mean 'numbered'\?"):
        make_payloads("numberd")
