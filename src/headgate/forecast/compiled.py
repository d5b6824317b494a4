"""Hot loops are compiled where numba is installed and run as plain Python, with the same results, where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: compile a function of numbers and arrays; what was compiled once is kept on disk."""
    try:
        from numba import njit
    except ImportError:
        return function
    # No reordering of floating-point operations: the same input gives the same bits on every run.
    return cast("Callable[P, R]", njit(cache=True, error_model="numpy")(function))
