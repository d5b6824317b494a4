"""Entries that an agent retains until they have arrived."""

from __future__ import annotations

from headgate.agent.agent import MOST_WAITING, Outbox


def test_what_has_arrived_is_not_sent_again_and_what_was_added_meanwhile_is() -> None:
    outbox = Outbox[str]()
    outbox.add(["a", "b"])
    sent = outbox.waiting
    outbox.add(["c"])
    outbox.arrived(outbox.first + len(sent))
    assert (outbox.waiting, outbox.first) == (("c",), 2)


def test_of_too_many_the_oldest_are_let_go_and_the_numbers_go_on() -> None:
    outbox = Outbox[int]()
    outbox.add(range(MOST_WAITING + 3))
    assert (outbox.first, outbox.waiting[0]) == (3, 3)


def test_what_was_let_go_meanwhile_is_not_counted_as_arrived() -> None:
    outbox = Outbox[int]()
    outbox.add(range(MOST_WAITING))
    first, sent = outbox.first, outbox.waiting
    outbox.add(range(10))
    outbox.arrived(first + len(sent))
    assert (outbox.first, outbox.waiting) == (MOST_WAITING, tuple(range(10)))
