"""Classes and functions that other installed packages register through entry points.

A package names them in its ``pyproject.toml``:

    [project.entry-points."headgate.policies"]
    half-full = "my_package.half_full:HalfFull"

    [project.entry-points."headgate.rewards"]
    gentle = "my_package.rewards:gentle"
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headgate.core.errors import InputError, UnknownNameError

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


F = TypeVar("F", bound=Callable[..., Any])


class Functions(Generic[F]):
    """Functions of a kind by name: built in, registered by a program, or from entry points of other packages."""

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self._group = group
        self._known: dict[str, F] = {}

    def register(self, name: str) -> Callable[[F], F]:
        """Return a decorator that makes a function known by a name, which another one may not have."""

        def decorate(function: F) -> F:
            if self._known.setdefault(str(name), function) is not function:
                raise InputError(f"a {self.kind} is called {name!r} already; give yours another name.")
            return function

        return decorate

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are known, in the order in which they were registered, then those of other packages."""
        return (*self._known, *(name for name in sorted(plugins(self._group)) if name not in self._known))

    def __getitem__(self, name: str) -> F:
        if name in self._known:
            return self._known[name]
        entry = plugins(self._group).get(name)
        if entry is None:
            raise UnknownNameError(self.kind, name, self.names)
        plugin = f"{self.kind} {name!r} of {package_of(entry)}"
        try:
            found: F = entry.load()
        except Exception as error:  # A package of others: nothing it raises may come as a surprise.
            raise InputError(f"{plugin} cannot be loaded: {type(error).__name__}: {error}.") from error
        if not callable(found):
            raise InputError(f"{plugin} cannot be used: {entry.value} is not a function.")
        return self.register(name)(found)
