"""The error of a contract check that failed."""

from __future__ import annotations


class ContractViolation(AssertionError):
    """A subject violates its contract; the message says what it did and what it should have done."""


def ensure(condition: bool, message: str) -> None:
    """Raise ``ContractViolation`` unless a condition holds; unlike ``assert``, also under ``python -O``."""
    if not condition:
        raise ContractViolation(message)
