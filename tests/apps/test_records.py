"""Records of the applications: numbered, dated, the same whenever they are made again, and as their schema says."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apps.payloads import MADE_BY
from headgate.apps.records.nexmark import FIRST_ID, NexmarkEvents
from headgate.apps.registry import application_names, find_application
from headgate.core.errors import InputError, UnknownNameError
from headgate.workloads.draws import Keys
from headgate.workloads.payloads import Payloads, make_payloads

START_MS = 1_700_000_000_000
REAL = {"smart-plugs", "cluster-tasks"}


def payloads_of(name: str, seed: int = 3) -> Payloads:
    try:
        return make_payloads(name, seed=seed, keys=Keys(count=20, skew=1.0, seed=seed))
    except InputError as error:
        pytest.skip(str(error))


def test_every_application_has_records_and_the_other_way_round() -> None:
    assert set(application_names()) == set(MADE_BY)


def test_an_unknown_application_is_answered_with_the_closest_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'nexmark-5'"):
        find_application("nexmark5")


@pytest.mark.parametrize("name", sorted(MADE_BY))
def test_records_carry_their_number_and_when_they_are_due(name: str) -> None:
    records = payloads_of(name).records(100, START_MS + np.arange(500))
    reported = [json.loads(record.value) for record in records]
    assert [each["number"] for each in reported] == list(range(100, 600))
    assert [each["at_ms"] for each in reported] == list(range(START_MS, START_MS + 500))


@pytest.mark.parametrize("name", sorted(MADE_BY))
@given(first=st.integers(0, 2_000_000), cut=st.integers(0, 60))
def test_records_do_not_depend_on_which_are_made_with_them(name: str, first: int, cut: int) -> None:
    payloads = payloads_of(name)
    at_ms = START_MS + np.arange(60)
    whole = list(payloads.records(first, at_ms))
    assert [*payloads.records(first, at_ms[:cut]), *payloads.records(first + cut, at_ms[cut:])] == whole


@pytest.mark.parametrize("name", sorted(MADE_BY.keys() - REAL))
def test_another_seed_gives_other_records(name: str) -> None:
    first, second = (payloads_of(name, seed).records(0, START_MS + np.arange(100)) for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize(("name", "records"), [("smart-plugs", 16_814), ("cluster-tasks", 527_922)])
def test_real_data_begins_again_when_it_is_at_its_end(name: str, records: int) -> None:
    payloads = payloads_of(name)
    first, last, again = (
        json.loads(payloads.records(number, np.array([START_MS]))[0].value) for number in (0, records - 1, records)
    )
    changed = {"number", "trace_us"}
    assert {key: value for key, value in first.items() if key not in changed}.items() <= again.items()
    assert again["number"] == records
    # Time of the trace goes on.
    assert again.get("trace_us", 1) > last.get("trace_us", 0)


def test_of_fifty_nexmark_events_one_is_a_person_three_are_auctions_and_46_are_bids() -> None:
    events = [json.loads(each.value) for each in NexmarkEvents(0, Keys()).records(5000, np.arange(5000))]
    kinds = Counter(next(kind for kind in ("person", "auction", "bid") if kind in event) for event in events)
    assert kinds == {"person": 100, "auction": 300, "bid": 4600}


def test_nexmark_chooses_hot_ones_by_their_ratios_and_only_what_is_there_already() -> None:
    events = [json.loads(each.value) for each in NexmarkEvents(0, Keys()).records(0, np.arange(100_000))]
    bids = [event["bid"] for event in events if "bid" in event]
    auctions = [event["auction"] for event in events if "auction" in event]

    def is_hot(identity: int) -> bool:
        return (identity - FIRST_ID) % 100 == 0

    assert np.mean([is_hot(bid["auction"]) for bid in bids]) == pytest.approx(0.5, abs=0.02)
    assert np.mean([is_hot(bid["bidder"]) for bid in bids]) == pytest.approx(0.75, abs=0.02)
    assert np.mean([is_hot(auction["seller"]) for auction in auctions]) == pytest.approx(0.75, abs=0.02)
    opened: set[int] = set()
    known: set[int] = set()
    for event in events:
        if "person" in event:
            known.add(event["person"]["id"])
        elif "auction" in event:
            opened.add(event["auction"]["id"])
            assert event["auction"]["seller"] in known
        else:
            assert event["bid"]["bidder"] in known
            assert event["bid"]["auction"] in opened
