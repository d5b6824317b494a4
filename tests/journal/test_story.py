"""A run is told as what happened and why: changes with their effect, what was stopped, and holds that repeat as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.types import Decision, Event, Outcome, Receipt
from headgate.journal.story import Hold, Item, Resize, acting_notes, effect_in_words, latest, tell
from tests.journal.entries import decision, event, observation, receipt


def short(item: Item) -> str:
    """One line per item, for comparing whole stories."""
    match item:
        case Resize(at_s=at_s, verdict=verdict):
            return f"{at_s:g}: {verdict.current} to {verdict.target}"
        case Hold(at_s=at_s, last_s=last_s, count=count, verdict=verdict, is_stopped=is_stopped):
            return f"{at_s:g}-{last_s:g}: {'stopped' if is_stopped else verdict.code} x{count}"
        case Receipt(at_s=at_s, outcome=outcome):
            return f"{at_s:g}: engine {outcome}"
        case Event(at_s=at_s, kind=kind):
            return f"{at_s:g}: {kind}"


def test_holds_that_repeat_each_other_are_told_as_one() -> None:
    told = tell(
        [
            decision(0, code="no-data"),
            *(decision(second) for second in (1, 2, 3)),
            decision(4, 1, 3, code="slo-violated"),
            *(decision(second, 3, 3) for second in (5, 6)),
            decision(7, 3, 3, code="idle", proposed=1),
            decision(8, 3, 3, code="idle", proposed=2),
            decision(9, 3, 2, code="idle"),
        ]
    )
    assert [short(item) for item in told] == [
        "0-0: no-data x1",
        "1-3: steady x3",
        "4: 1 to 3",
        "5-6: steady x2",
        "7-8: stopped x2",
        "9: 3 to 2",
    ]


def test_events_and_what_the_engine_did_unasked_stand_where_they_happened() -> None:
    told = tell(
        [decision(0), decision(10), decision(20, 1, 2)],
        receipts=[receipt(10.5), receipt(20.1)],
        events=[event(-1, "started"), event(15, "observe-failed")],
    )
    assert [short(item) for item in told] == [
        "-1: started",
        "0-10: steady x2",
        "10.5: engine accepted",
        "15: observe-failed",
        "20: 1 to 2",
    ]


def test_an_answer_belongs_to_its_decision_even_where_the_clocks_differ_a_little() -> None:
    (resize,) = tell([decision(20, 1, 2)], receipts=[receipt(19.99)])
    assert isinstance(resize, Resize)
    assert resize.receipt == receipt(19.99)


OBSERVED = [
    observation(10, 4, 4),
    observation(20.001, 4, 4),  # Of the tick that decided: the plan is still the old one.
    observation(25, 6, 4),
    observation(30, 6, 6),
    observation(40, 6, 6),
]


@pytest.mark.parametrize(
    ("decisions", "receipts", "said"),
    [
        ([decision(20, 4, 6)], [receipt(20.2)], "accepted after 200ms; 6 ready after 10s"),
        (
            [decision(20, 4, 6), decision(28, 6, 7)],
            [receipt(20)],
            "accepted after 0s; overtaken by the next change after 8s",
        ),
        ([decision(20, 4, 8)], [receipt(20)], "accepted after 0s; not seen ready yet"),
        ([decision(20, 4, 6)], [], "6 ready after 10s"),
        (
            [decision(20, 4, 6)],
            [receipt(20.5, Outcome.REFUSED, detail="no cores left")],
            "refused after 500ms (no cores left)",
        ),
    ],
)
def test_the_effect_of_a_change_is_what_later_observations_show(
    decisions: list[Decision], receipts: list[Receipt], said: str
) -> None:
    resize = tell(decisions, OBSERVED, receipts)[0]
    assert isinstance(resize, Resize)
    assert effect_in_words(resize) == said


def test_operators_are_told_apart() -> None:
    both = decision(0)
    both = replace(both, verdicts={"a": both.verdicts["job"], "b": decision(0, 1, 2).verdicts["job"]})
    assert sorted(short(item) for item in tell([both, both])) == ["0-0: steady x2", "0: 1 to 2", "0: 1 to 2"]


@pytest.mark.parametrize(("count", "left"), [(0, 0), (1, 2), (2, 3), (3, 6), (99, 6)])
def test_the_end_of_a_story_is_counted_in_changes(count: int, left: int) -> None:
    told = tell(
        [
            decision(0),
            decision(1, 1, 2),
            decision(2, 2, 2),
            decision(3, 2, 2, proposed=3),
            decision(4, 2, 3),
            decision(5),
        ]
    )
    assert latest(told, count) == told[len(told) - left :]


def test_guards_that_let_a_target_pass_without_a_word_are_not_told() -> None:
    verdict = decision(0, 2, 3, proposed=9).verdicts["job"]
    assert [note.guard for note in verdict.notes] == ["bounds", "step-limit"]
    assert [note.guard for note in acting_notes(verdict)] == ["step-limit"]
