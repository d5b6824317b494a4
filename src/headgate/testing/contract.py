"""How a contract check says that its subject does not keep the contract."""

from __future__ import annotations


class ContractViolation(AssertionError):
    """What was checked does not keep its contract; the message says what it did and what it should have done."""


def ensure(condition: bool, message: str) -> None:
    """Unlike ``assert``, this still checks under ``python -O``."""
    if not condition:
        raise ContractViolation(message)
