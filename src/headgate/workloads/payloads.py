"""The content of records: each application registers how its records are made.

A record is a function of the seed, its number and its due time, so that a restarted source makes the same records, and
an application's output can be compared with the expected output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.core.errors import UnknownNameError
from headgate.workloads.draws import Keys

DEFAULT = "numbered"


class Record(NamedTuple):
    """A record as a broker takes it."""

    key: bytes | None
    value: bytes


class Payloads(Protocol):
    """Makes the records of one application."""

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        """Return the records numbered ``first``, ``first + 1``, …, one for each due time.

        Each value carries its number and its due time (``at_ms``, event time in milliseconds since the epoch). They
        depend on the seed, the number and the due time only, not on which others are made with them.
        """
        ...


PayloadsFactory = Callable[[int, Keys], Payloads]
"""Makes payloads from a seed and the keys that records shall have."""

_FACTORIES: dict[str, PayloadsFactory] = {}


def register_payloads(application: str, factory: PayloadsFactory) -> None:
    """Register how the records of an application are made."""
    _FACTORIES[application] = factory


def payload_names() -> list[str]:
    """Return the applications with registered records, sorted."""
    return sorted(_FACTORIES)


def require_payloads(application: str) -> None:
    """Refuse an application without registered records."""
    if application not in _FACTORIES:
        raise UnknownNameError("application", application, _FACTORIES)


def make_payloads(application: str, *, seed: int = 0, keys: Keys | None = None) -> Payloads:
    """Return the payloads of an application by name."""
    require_payloads(application)
    return _FACTORIES[application](seed, keys or Keys(seed=seed))


class NumberedPayloads:
    """For any application: ``{"number": 7, "key": "k3", "at_ms": 1700000000123}``.

    >>> payloads = make_payloads("numbered", keys=Keys(count=1))
    >>> payloads.records(7, np.array([1_700_000_000_123]))
    [Record(key=b'k0', value=b'{"number":7,"key":"k0","at_ms":1700000000123}')]
    """

    def __init__(self, seed: int, keys: Keys) -> None:
        self._keys = keys

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        names = [b"k%d" % key for key in self._keys.of(first, len(at_ms)).tolist()]
        return [
            Record(name, b'{"number":%d,"key":"%b","at_ms":%d}' % (number, name, due_ms))
            for number, (name, due_ms) in enumerate(zip(names, at_ms.tolist(), strict=True), start=first)
        ]


register_payloads(DEFAULT, NumberedPayloads)
