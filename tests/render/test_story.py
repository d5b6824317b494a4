"""The story of a run: changes with effects and reasons, changes that guards stopped, and repeated holds as one item."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.types import (
    Answer,
    Decision,
    Event,
    GuardNote,
    Instances,
    Observation,
    Outcome,
    Receipt,
    Role,
    Verdict,
)
from headgate.render.story import (
    PREFIX,
    Advice,
    Hold,
    Item,
    Repeated,
    Resize,
    RowKind,
    Silence,
    acting_notes,
    effect_in_words,
    expectations,
    item_to_dict,
    latest,
    row_of,
    silence_in_words,
    story_of,
)
from tests.journal.entries import decision, event, observation, receipt


def short(item: Item) -> str:
    """One line per item, for comparing whole stories."""
    match item:
        case Resize(at_s=at_s, verdict=verdict):
            return f"{at_s:g}: {verdict.current} to {verdict.target}"
        case Hold(at_s=at_s, last_s=last_s, count=count, verdict=verdict, is_stopped=is_stopped):
            return f"{at_s:g}-{last_s:g}: {'stopped' if is_stopped else verdict.code} x{count}"
        case Advice(at_s=at_s, last_s=last_s, count=count, verdict=verdict):
            return f"{at_s:g}-{last_s:g}: {verdict.current}, {verdict.target} recommended x{count}"
        case Silence(at_s=at_s, last_s=last_s, operator=operator):
            return f"{at_s:g}-{last_s:g}: {operator} silent"
        case Receipt(at_s=at_s, outcome=outcome, answers=answers):
            return f"{at_s:g}: engine {outcome} {', '.join(answers)}"
        case Event(at_s=at_s, kind=kind):
            return f"{at_s:g}: {kind}"
        case Repeated(at_s=at_s, last_s=last_s, count=count, event=event_):
            return f"{at_s:g}-{last_s:g}: {event_.kind} x{count}"


def test_holds_that_repeat_each_other_are_one_item() -> None:
    story = story_of(
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
    assert [short(item) for item in story] == [
        "0-0: no-data x1",
        "1-3: steady x3",
        "4: 1 to 3",
        "5-6: steady x2",
        "7-8: stopped x2",
        "9: 3 to 2",
    ]


def test_events_and_spontaneous_actions_of_the_engine_stand_where_they_happened() -> None:
    story = story_of(
        [decision(0), decision(10), decision(20, 1, 2)],
        receipts=[receipt(10.5), receipt(20.1)],
        events=[event(-1, "started"), event(15, "observe-failed")],
    )
    assert [short(item) for item in story] == [
        "-1: started",
        "0-10: steady x2",
        "10.5: engine accepted job",
        "15: observe-failed",
        "20: 1 to 2",
    ]


def test_equal_events_are_one_item_until_something_else_happens() -> None:
    failed = [event(second, "observe-failed") for second in (11, 12, 13, 21, 31)]
    story = story_of(
        [decision(0), decision(20, 1, 2)], events=[*failed, Event(14, "observe-failed", "for another reason")]
    )
    assert [short(item) for item in story] == [
        "0-0: steady x1",
        "11-13: observe-failed x3",
        "14: observe-failed",
        "20: 1 to 2",
        "21-31: observe-failed x2",
    ]


def test_an_answer_belongs_to_its_decision_even_where_the_clocks_differ_a_little() -> None:
    (resize,) = story_of([decision(20, 1, 2)], receipts=[receipt(19.99)])
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
    ("decisions", "receipts", "effect"),
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
        (
            [decision(20, 4, 8)],
            [receipt(20.1, Outcome.DELIVERED, detail="left for the agent")],
            "delivered after 100ms (left for the agent); not confirmed yet",
        ),
        ([decision(20, 4, 6)], [receipt(20.1, Outcome.DELIVERED)], "delivered after 100ms; 6 ready after 10s"),
    ],
)
def test_the_effect_of_a_change_is_what_later_observations_show(
    decisions: list[Decision], receipts: list[Receipt], effect: str
) -> None:
    resize = story_of(decisions, OBSERVED, receipts)[0]
    assert isinstance(resize, Resize)
    assert effect_in_words(resize) == effect


def test_each_operator_has_its_own_items() -> None:
    both = decision(0)
    both = replace(both, verdicts={"a": both.verdicts["job"], "b": decision(0, 1, 2).verdicts["job"]})
    assert sorted(short(item) for item in story_of([both, both])) == ["0-0: steady x2", "0: 1 to 2", "0: 1 to 2"]


def of_operators(at_s: float, **sizes: tuple[int, int]) -> Decision:
    """A decision for several operators, by the sizes that each has and gets."""
    verdicts = {name: replace(decision(at_s, *size).verdicts["job"], operator=name) for name, size in sizes.items()}
    return replace(decision(at_s), verdicts=verdicts)


def test_each_operator_has_the_effect_of_its_own_change() -> None:
    answers = {"a": Answer(Outcome.ACCEPTED, 2), "b": Answer(Outcome.REFUSED, 1, "no cores left")}
    story = story_of([of_operators(0, a=(1, 2), b=(1, 3))], receipts=[Receipt(0.1, answers)])
    effects = {item.verdict.operator: effect_in_words(item) for item in story if isinstance(item, Resize)}
    assert effects == {
        "a": "accepted after 100ms; not seen ready yet",
        "b": "refused after 100ms (no cores left)",
    }


def test_an_action_of_the_engine_on_an_unchanged_operator_is_an_item_of_its_own() -> None:
    unchanged = Answer(Outcome.UNCHANGED, 1)
    answers = {"a": Answer(Outcome.ACCEPTED, 2), "b": Answer(Outcome.ACCEPTED, 1, "replaced one"), "c": unchanged}
    story = story_of([of_operators(0, a=(1, 2), b=(1, 1), c=(1, 1))], receipts=[Receipt(0.1, answers)])
    assert [short(item) for item in story if isinstance(item, Receipt)] == ["0.1: engine accepted b"]


def test_decisions_of_shadows_are_left_out() -> None:
    shadow = replace(decision(5, 1, 9), role=Role.SHADOW, policy="hpa")
    assert [short(item) for item in story_of([decision(0), shadow, decision(10)])] == ["0-10: steady x2"]


def sized(at_s: float, **sizes: Instances) -> Observation:
    return Observation(at_s, {}, sizes)


@pytest.mark.parametrize(
    ("missing", "name"),
    [({}, "an operator that is missing"), ({"b": Instances(2, 2, 1, stale=True)}, "one that is marked stale")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_operator_without_readings_is_silent_and_keeps_its_last_known_size(
    missing: dict[str, Instances], name: str
) -> None:
    a, b = Instances(3, 3, 3), Instances(2, 2, 1)
    seen = [
        sized(0, a=a, b=b),
        sized(10, a=a, **missing),
        sized(20, a=a, **missing),
        sized(30, a=a, b=b),
        sized(40, a=a, **missing),
    ]
    story = story_of([], seen)
    assert [short(item) for item in story] == ["10-20: b silent", "40-40: b silent"]
    words = [silence_in_words(item) for item in story if isinstance(item, Silence)]
    assert words[0] == "no readings for 20s; its last known size, 1 of 2 ready, was assumed"
    assert words[1].startswith("no readings since then")


def test_an_operator_that_never_had_a_reading_is_not_silent_yet() -> None:
    assert story_of([], [sized(0, a=Instances(1, 1, 1)), sized(10, a=Instances(1, 1, 1), b=Instances(1, 1, 1))]) == []


@pytest.mark.parametrize(("count", "left"), [(0, 0), (1, 2), (2, 3), (3, 6), (99, 6)])
def test_the_end_of_a_story_is_counted_in_changes(count: int, left: int) -> None:
    story = story_of(
        [
            decision(0),
            decision(1, 1, 2),
            decision(2, 2, 2),
            decision(3, 2, 2, proposed=3),
            decision(4, 2, 3),
            decision(5),
        ]
    )
    assert latest(story, count) == story[len(story) - left :]


def test_guards_without_effect_and_reason_are_left_out() -> None:
    verdict = decision(0, 2, 3, proposed=9).verdicts["job"]
    assert [note.guard for note in verdict.notes] == ["bounds", "step-limit"]
    assert [note.guard for note in acting_notes(verdict)] == ["step-limit"]


def test_recommendations_that_repeat_each_other_are_one_item() -> None:
    recommended = [
        replace(decision(at_s, 1, target), role=Role.RECOMMENDED)
        for at_s, target in ((0, 1), (5, 3), (10, 3), (15, 4), (20, 1), (25, 4))
    ]
    assert [short(item) for item in story_of(recommended)] == [
        "0-0: steady x1",
        "5-10: 1, 3 recommended x2",
        "15-15: 1, 4 recommended x1",
        "20-20: steady x1",
        "25-25: 1, 4 recommended x1",
    ]


def held(at_s: float, reason: str, note: GuardNote | None = None) -> Decision:
    verdict = replace(decision(at_s, 4, 4).verdicts["job"], reason=reason, notes=() if note is None else (note,))
    return replace(decision(at_s), verdicts={"job": verdict})


def test_holds_with_different_causes_are_not_merged() -> None:
    reasons = (
        "1.54 records/s expected: 4 instances are right",
        "1,620 records/s expected: 4 instances are right",
        "2,608 waiting and 120/s arriving: 6 instances are needed, and more than 4 are not allowed",
        "the size was reduced 2m 20s ago: holding",
        "the size was reduced 45s ago: holding",
    )
    found = story_of([held(float(at_s), reason) for at_s, reason in enumerate(reasons)])
    assert [(item.at_s, item.count) for item in found if isinstance(item, Hold)] == [(0, 2), (2, 1), (3, 2)]


@pytest.mark.parametrize(
    "note", [GuardNote("bounds", 9, 4, "at most 4 instances"), GuardNote("bounds", 4, 4, "the maximum is not enough")]
)
def test_a_maximum_that_is_not_enough_is_a_state_of_its_own(note: GuardNote) -> None:
    calm, capped = "4 instances are right", "4 instances are right"
    found = story_of([held(0, calm), held(5, capped, note), held(10, capped, note), held(15, calm)])
    rows = [row_of(item) for item in found]
    assert [(row.kind, row.change, row.count) for row in rows] == [
        (RowKind.HOLD, "hold 4", 1),
        (RowKind.CAPPED, "capped at 4", 2),
        (RowKind.HOLD, "hold 4", 1),
    ]
    assert note.why in rows[1].notes[0]
    assert [item_to_dict(item)["kind"] for item in found] == ["hold", "capped", "hold"]


def test_what_the_cluster_does_not_give_is_said_in_the_row() -> None:
    stopped = held(0, "6 instances are right", GuardNote("attainable", 6, 4, "asking again in 5s"))
    stopped = replace(stopped, verdicts={"job": replace(stopped.verdicts["job"], proposed=6)})
    row = row_of(*story_of([stopped]))
    assert (row.kind, row.change) == (RowKind.STOPPED, "limited by the cluster at 4")


def test_what_was_observed_of_a_predicted_size_is_what_was_ready() -> None:
    """A full cluster leaves the plan where it is: that no more came must not read as if it had."""
    numbers = {
        f"{PREFIX}after_s": 60.0,
        **{f"{PREFIX}instances{end}": value for end, value in (("", 4.0), ("_low", 4.0), ("_high", 4.0))},
    }
    verdict = Verdict("job", 2, 4, 4, "test", "a test", numbers)
    (found,) = expectations(verdict, 0.0, [Observation(60.0, {}, {"job": Instances(4, 4, 2)})])
    assert (found.middle, found.actual, found.is_met) == (4.0, 2.0, False)
