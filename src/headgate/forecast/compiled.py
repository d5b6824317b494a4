"""Compiles hot loops where numba is installed; elsewhere they run as plain Python with the same results."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


@cache
def has_compiler() -> bool:
    """Whether loops are compiled; where they are not, arrays are faster than loops."""
    return importlib.util.find_spec("numba") is not None


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: compile a function of numbers and arrays; the result is cached on disk."""
    if not has_compiler():
        return function
    from numba import njit

    # No reordering of floating-point operations: the same input gives the same bits on every run.
    return cast("Callable[P, R]", njit(cache=True, error_model="numpy")(function))
