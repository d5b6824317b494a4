"""What is read of a Spark that has a method for it, and of one that has only a field."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from headgate.engines.spark.backend import RequestedTotals, is_stopped, method_names, private_field, setting_of
from tests.engines.spark.scala import same


class JavaClass:
    """A class with private fields, and the one that it extends."""

    def __init__(self, fields: Mapping[str, Any], base: JavaClass | None = None) -> None:
        self._fields = fields
        self._base = base

    def getDeclaredField(self, name: str) -> Any:  # noqa: N802 - its name in Java
        if name not in self._fields:
            raise Py4JError(f"java.lang.NoSuchFieldException: {name}")
        return SimpleNamespace(setAccessible=same(None), get=same(self._fields[name]))

    def getSuperclass(self) -> JavaClass | None:  # noqa: N802
        return self._base


def totals(requested: Mapping[int, int]) -> Any:
    """A map of Scala, by resource profile."""
    pairs = [
        SimpleNamespace(_1=same(SimpleNamespace(id=same(profile))), _2=same(number))
        for profile, number in requested.items()
    ]

    def iterator() -> Any:
        left = list(pairs)
        return SimpleNamespace(hasNext=lambda: bool(left), next=lambda: left.pop(0))

    return SimpleNamespace(iterator=iterator)


FIELD = "requestedTotalExecutorsPerResourceProfile"
BASE = JavaClass({FIELD: totals({0: 3, 1: 1})})
NEW = SimpleNamespace(getRequestedTotalExecutors=lambda: totals({0: 4}))


@pytest.mark.parametrize(
    ("case", "backend", "expected"),
    [
        ("a method: 4.0.5, 4.1.4, 4.2.1, 4.3.0", NEW, {0: 4}),
        ("a field of its base class: 3.5, 4.2.0", SimpleNamespace(getClass=same(JavaClass({}, BASE))), {0: 3, 1: 1}),
        ("neither: some version to come", SimpleNamespace(getClass=same(JavaClass({}))), {}),
    ],
)
def test_how_many_executors_were_requested_is_read_from_what_there_is(
    case: str, backend: Any, expected: dict[int, int]
) -> None:
    requested = RequestedTotals(backend, method_names(backend))
    assert (requested.read(), requested.is_known) == (expected, bool(expected))


@pytest.mark.parametrize(
    ("case", "fields", "expected"),
    [
        ("it was stopped", {"executor": SimpleNamespace(isShutdown=same(True))}, True),
        ("it runs", {"executor": SimpleNamespace(isShutdown=same(False))}, False),
        ("nobody can say", {}, False),
    ],
)
def test_sparks_own_allocation_that_was_stopped_is_no_obstacle(
    case: str, fields: Mapping[str, Any], expected: bool
) -> None:
    assert is_stopped(SimpleNamespace(getClass=same(JavaClass(fields)))) is expected


def test_a_setting_without_a_default_has_the_value_of_the_versions_that_do_not_know_it() -> None:
    def unset(name: str) -> str:
        raise Py4JError(f"java.util.NoSuchElementException: {name}")

    for get, expected in ((unset, "100"), (same("7"), "7")):
        session = SimpleNamespace(conf=same(SimpleNamespace(get=get)))
        assert setting_of(SimpleNamespace(sparkSession=same(session)), "maxRecordsPerBatch", "100") == expected


def test_a_field_that_is_nowhere_is_none() -> None:
    assert private_field(SimpleNamespace(getClass=same(JavaClass({}, BASE))), "absent") is None
