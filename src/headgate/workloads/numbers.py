"""Checks and plain forms of the numbers in a workload."""

from __future__ import annotations

import math

import numpy as np

from headgate.core.errors import InputError

MOST_PER_S = 1e15
"""Beyond it counts of records have no exact form in a float, and sums of them soon have none at all."""


def require_rate(key: str, rate_per_s: float, most: float = MOST_PER_S) -> None:
    """Refuse a rate that is negative, infinite, beyond what can be counted, or not a number."""
    if not (math.isfinite(rate_per_s) and rate_per_s >= 0):
        raise InputError(f"{key}={plain(rate_per_s)} is not allowed; a rate must be finite and not negative.")
    if rate_per_s > most:
        raise InputError(f"{key}={rate_per_s:g} is not allowed; a rate is at most {most:g} records per second.")


def require_time(key: str, at_s: float) -> None:
    """Refuse a time before the start."""
    if not (math.isfinite(at_s) and at_s >= 0):
        raise InputError(f"{key}={plain(at_s)}s is not allowed; a time must be finite and not negative.")


def require_length(key: str, length_s: float) -> None:
    """Refuse a duration of nothing."""
    if not (math.isfinite(length_s) and length_s > 0):
        raise InputError(f"{key}={plain(length_s)}s is not allowed; a duration must be finite and above 0.")


def plain(value: float) -> str:
    """The shortest text that gives the same number again, without an exponent: ``20``, ``0.05``."""
    return np.format_float_positional(value, trim="-")
