"""Entries are packed without loss, and what was packed once can be unpacked for ever."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import JournalError
from headgate.journal import codec
from headgate.journal.codec import packed, unpacked
from tests.journal.entries import live


@given(st.text(st.characters(max_codepoint=127)))
def test_a_text_comes_back_as_it_was(text: str) -> None:
    assert unpacked(packed(text)) == text


def test_what_was_packed_in_another_year_can_still_be_unpacked() -> None:
    """Fails when the dictionary was changed: that takes a new format of the journal."""
    body = bytes.fromhex("78bb3399a65983a73023506e87569e882a125e75418a3d0558a1a7a3900acc2a950ac0e208adb6040025451ad0")
    text = '{"at_s":12.5,"kind":"started","detail":"policy reactive, every 5 s","numbers":{}}'
    assert unpacked(body) == text


def test_usual_entries_become_a_quarter_of_their_length() -> None:
    *_, (seen, decided) = live(10)
    for data in (codec.observation_to_dict(seen), codec.decision_to_dict(decided)):
        text = codec.to_json(data)
        assert len(packed(text)) < len(text) / 4


def test_an_entry_crafted_to_fill_the_memory_is_refused_early() -> None:
    crafted = packed("[" + "0," * 50_000_000 + "0]")
    assert len(crafted) < 200_000
    tracemalloc.start()
    for is_state in (False, True):
        with pytest.raises(JournalError, match="longer than"):
            unpacked(crafted, is_state=is_state)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000_000
    assert unpacked(packed("0," * 1_000_000), is_state=True)


@pytest.mark.parametrize("body", [b"", b"hello", packed("whole")[:-1], packed("whole")[:-1] + b"x"])
def test_what_is_damaged_is_refused(body: bytes) -> None:
    with pytest.raises(JournalError, match="an entry cannot be unpacked"):
        unpacked(body)
