"""One tree of errors."""

import inspect

import pytest

from headgate.core import errors
from headgate.core.errors import HeadgateError, InputError, UnknownNameError

ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_a_headgate_error_and_in_the_tree_at_the_top_of_its_file(kind: type[Exception]) -> None:
    assert issubclass(kind, HeadgateError)
    assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        (
            "reactiv",
            ["static", "reactive"],
            "unknown policy 'reactiv', did you mean 'reactive'? Known: reactive, static.",
        ),
        ("zzz", ["static", "hpa"], "unknown policy 'zzz'. Known: hpa, static."),
        ("static", [], "unknown policy 'static'. Known: none."),
    ],
)
def test_a_misspelt_name_gets_a_suggestion_where_one_is_close(name: str, known: list[str], message: str) -> None:
    error = UnknownNameError("policy", name, known)
    assert str(error) == message
    assert isinstance(error, InputError)
