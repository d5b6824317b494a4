"""Where shadows would have decided otherwise."""

from __future__ import annotations

from operator import attrgetter

from headgate.core.types import Decision, Role, Verdict
from headgate.journal.findings import difference_in_words, shadow_stories, story_in_words


def decided(at_s: float, target: int, policy: str = "acting", operator: str = "job") -> Decision:
    role = Role.ACTING if policy == "acting" else Role.SHADOW
    return Decision(at_s, policy, {operator: Verdict(operator, 2, target, target, "need", f"at {at_s:g}")}, role)


def both(*targets: tuple[int, int]) -> list[Decision]:
    """What was decided every 5 s, and what the shadow would have."""
    return [
        decision
        for tick, (acting, shadow) in enumerate(targets)
        for decision in (decided(5.0 * tick, acting), decided(5.0 * tick, shadow, "hpa"))
    ]


def test_a_shadow_that_agrees_has_nothing_to_tell() -> None:
    story = shadow_stories(both((2, 2), (3, 3)))["hpa"]
    assert story.differences == []
    assert story_in_words("hpa", story) == "hpa would have decided the same in all of 2 decisions"


def test_differences_in_a_row_that_go_the_same_way_are_one() -> None:
    story = shadow_stories(both((2, 4), (2, 5), (2, 2), (2, 4), (4, 3), (4, 3)))["hpa"]
    fields = attrgetter("at_s", "last_s", "count", "fewest", "most", "wants_more")
    found = [fields(difference) for difference in story.differences]
    assert found == [(0, 5, 2, 4, 5, True), (15, 15, 1, 4, 4, True), (20, 25, 2, 3, 3, False)]
    assert (story.decisions, story.differed, story.more) == (6, 5, 3)
    assert difference_in_words(story.differences[0]) == "wanted 4 to 5 where 2 was decided, for 5s: at 5"
    assert difference_in_words(story.differences[1]) == "wanted 4 where 2 was decided: at 15"


def test_operators_and_shadows_are_followed_each_on_its_own() -> None:
    decisions = [
        Decision(
            at_s,
            policy,
            {name: Verdict(name, 1, target, target, "need", "so") for name, target in targets.items()},
            role,
        )
        for at_s in (0.0, 5.0)
        for policy, role, targets in (
            ("acting", Role.ACTING, {"parse": 2, "join": 2}),
            ("hpa", Role.SHADOW, {"parse": 3, "join": 2}),
            ("ds2", Role.SHADOW, {"parse": 2, "join": 1}),
        )
    ]
    found = shadow_stories(decisions)
    operators = {name: [item.verdict.operator for item in story.differences] for name, story in found.items()}
    assert operators == {
        "hpa": ["parse"],
        "ds2": ["join"],
    }


def test_what_a_shadow_decided_where_nothing_else_is_left_is_not_compared() -> None:
    """Of old entries only some are retained."""
    assert shadow_stories([decided(0.0, 4, "hpa"), *both((2, 2))[:1]])["hpa"].decisions == 1
    assert shadow_stories([decided(60.0, 4, "hpa")]) == {}
