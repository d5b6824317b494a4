"""Values that are made quickly are the same as any others of their class."""

from __future__ import annotations

import copy
import dataclasses

import pytest

from headgate.core.types import NO_METRICS, NO_PARTS, Sample, Verdict, quickly

_sample = quickly(Sample)


def test_what_is_made_quickly_is_as_if_made_slowly() -> None:
    made, plain = _sample("job", 60.0, backlog=3.0, warming=True), Sample("job", 60.0, backlog=3.0, warming=True)
    assert type(made) is Sample
    assert made == plain
    assert repr(made) == repr(plain)
    assert made.metrics is NO_METRICS
    assert made.parts is NO_PARTS
    assert dataclasses.replace(made, backlog=4.0) == dataclasses.replace(plain, backlog=4.0)
    assert copy.copy(made) == made
    verdict = quickly(Verdict)("job", 1, 2, 2, "a", "b", {"size": 2})
    assert copy.deepcopy(verdict) == Verdict("job", 1, 2, 2, "a", "b", {"size": 2})


def test_it_is_frozen() -> None:
    made = _sample("job", 60.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.backlog = 1.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.backlog


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TypeError, match="at_s"):
        _sample("job")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        _sample("job", 60.0, colour="red")  # type: ignore[call-arg]
