"""What an agent keeps to tell again."""

from __future__ import annotations

from headgate.agent.agent import MOST_WAITING, Outbox


def test_what_has_arrived_is_not_told_again_and_what_came_meanwhile_is() -> None:
    outbox = Outbox[str]()
    outbox.add(["a", "b"])
    told = outbox.waiting
    outbox.add(["c"])
    outbox.arrived(outbox.first + len(told))
    assert (outbox.waiting, outbox.first) == (("c",), 2)


def test_of_too_many_the_oldest_are_let_go_and_the_numbers_go_on() -> None:
    outbox = Outbox[int]()
    outbox.add(range(MOST_WAITING + 3))
    assert (outbox.first, outbox.waiting[0]) == (3, 3)


def test_what_was_let_go_meanwhile_is_not_counted_as_arrived() -> None:
    outbox = Outbox[int]()
    outbox.add(range(MOST_WAITING))
    first, told = outbox.first, outbox.waiting
    outbox.add(range(10))
    outbox.arrived(first + len(told))
    assert (outbox.first, outbox.waiting) == (MOST_WAITING, tuple(range(10)))
