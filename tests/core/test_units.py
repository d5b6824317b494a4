"""Durations and shares as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.core.units import format_duration, parse_duration_s, parse_share


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86400),
        ("250ms", 0.25),
        ("1.5m", 90),
        (".5s", 0.5),
        (" 10 S ", 10),
        ("15", 15),
        ("0", 0),
        (15, 15),
        (0.5, 0.5),
    ],
)
def test_a_duration_is_read(text: str | float, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "wrong", ["", "soon", "5 mins", "1h30m", "-5s", "1e3s", "s", "9" * 23, -1, float("nan"), float("inf"), None, True]
)
def test_a_duration_that_cannot_be_used_is_named_in_the_error(wrong: str | float) -> None:
    with pytest.raises(InputError) as raised:
        parse_duration_s(wrong)
    assert repr(wrong) in str(raised.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.35, "350ms"),
        (4.2, "4.2s"),
        (10, "10s"),
        (90, "90s"),
        (119.9, "119.9s"),
        (120, "2m"),
        (150, "2m 30s"),
        (3600, "1h"),
        (5400, "1h 30m"),
        (86400 * 2 + 3600 * 3 + 60, "2d 3h"),
        (-90, "-90s"),
    ],
)
def test_a_duration_is_written_in_its_shortest_readable_form(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 119))
def test_a_written_duration_can_be_read_back(seconds: int) -> None:
    assert parse_duration_s(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "share"), [("5%", 0.05), ("5 %", 0.05), ("0.05", 0.05), (0.05, 0.05), ("100%", 1), (0, 0)]
)
def test_a_share_is_read(text: str | float, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("wrong", ["101%", "-1%", "1.5", "many", "%", "", float("nan")])
def test_a_share_that_cannot_be_used_is_named_in_the_error(wrong: str | float) -> None:
    with pytest.raises(InputError) as raised:
        parse_share(wrong)
    assert repr(wrong) in str(raised.value)
