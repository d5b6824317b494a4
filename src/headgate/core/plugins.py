"""What other packages bring: classes that are found by the entry points of installed packages.

A package says in its ``pyproject.toml`` what it brings, by the name under which it is to be found:

    [project.entry-points."headgate.policies"]
    half-full = "my_package.half_full:HalfFull"
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from headgate.core.errors import InputError

DEFAULT_POLICY = "autopilot"
"""Who decides."""


@cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """What installed packages bring to a group, by name; nothing of it is imported yet."""
    return {entry.name: entry for entry in entry_points(group=group)}


def package_of(entry: EntryPoint) -> str:
    """The package that brings it, with its version."""
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def load_plugin(kind: str, entry: EntryPoint, base: type[Any]) -> type[Any]:
    """The class that an entry point names, or one sentence about what is wrong with it."""
    plugin = f"{kind} {entry.name!r} of {package_of(entry)}"
    try:
        found = entry.load()
    except Exception as error:  # A package of others: nothing it raises may come as a surprise.
        raise InputError(f"{plugin} cannot be loaded: {type(error).__name__}: {error}.") from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InputError(f"{plugin} cannot be used: {entry.value} is not a class that extends {base.__name__}.")
    name = getattr(found, "name", None)
    if name != entry.name:
        raise InputError(f"{plugin} cannot be used: {entry.value} calls itself {name!r}; the names must be the same.")
    return found
