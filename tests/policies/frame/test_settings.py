"""Settings are declared once; tables and errors come from the declarations."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from headgate.core.errors import InputError, UnknownNameError
from headgate.policies.frame.settings import Seconds, Settings, Share, describe_settings, make_settings


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Example(Settings):
    wait_s: Seconds = 30.0
    """How long to wait,
    in all."""
    share: Share = 0.5
    """What share."""
    count: Annotated[int, Field(ge=1, lt=10)] | None = None
    """How many."""
    colour: Colour = Colour.RED
    """Which colour."""


def test_plain_values_and_text_are_taken() -> None:
    made = make_settings(Example, "example", {"wait_s": "2m", "share": "25%", "count": "3", "colour": "blue"})
    assert made == Example(wait_s=120, share=0.25, count=3, colour=Colour.BLUE)


def test_settings_cannot_be_changed_once_made() -> None:
    made = make_settings(Example, "example", {})
    with pytest.raises(ValidationError):
        made.share = 1.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"wait_s": "soon"}, "example setting wait_s 'soon' is not allowed: duration 'soon' is not understood"),
        ({"wait_s": -1}, "example setting wait_s -1 is not allowed: duration -1 is not allowed"),
        ({"share": 2}, "example setting share 2 is not allowed: share 2 is not allowed"),
        ({"count": 0}, "example setting count 0 is not allowed: allowed is a whole number or none, ≥ 1 and < 10."),
        ({"colour": "green"}, "example setting colour 'green' is not allowed: allowed is one of red, blue."),
    ],
)
def test_what_is_wrong_is_reported_in_one_sentence_with_the_value(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as raised:
        make_settings(Example, "example", values)
    assert str(raised.value).startswith(message)


def test_a_misspelt_setting_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="unknown setting of example 'color', did you mean 'colour'"):
        make_settings(Example, "example", {"color": "red"})


def test_a_table_of_settings_is_made_from_their_declarations() -> None:
    rows = {row["name"]: row for row in describe_settings(Example)}
    assert list(rows) == ["wait_s", "share", "count", "colour"]
    assert rows["wait_s"] == {
        "name": "wait_s",
        "type": "float",
        "default": 30.0,
        "allowed": "≥ 0",
        "help": "How long to wait, in all.",
    }
    assert rows["share"]["allowed"] == "≥ 0 and ≤ 1"
    assert (rows["count"]["type"], rows["count"]["allowed"]) == ("int or none", "≥ 1 and < 10")
    assert (rows["colour"]["default"], rows["colour"]["allowed"]) == ("red", "red, blue")
