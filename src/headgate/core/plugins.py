"""Classes that other installed packages register through entry points.

A package names them in its ``pyproject.toml``:

    [project.entry-points."headgate.policies"]
    half-full = "my_package.half_full:HalfFull"
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from headgate.core.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DEFAULT_POLICY = "autopilot"
"""The policy of a loop where none is named."""


@cache
def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing their packages."""
    from importlib.metadata import entry_points  # Slow to import, and a command may not need it.

    return {entry.name: entry for entry in entry_points(group=group)}


def package_of(entry: EntryPoint) -> str:
    """Return the package of an entry point with its version."""
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def load_plugin(kind: str, entry: EntryPoint, base: type[Any]) -> type[Any]:
    """Return the class that an entry point names, or raise an error that says in one sentence what is wrong."""
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
