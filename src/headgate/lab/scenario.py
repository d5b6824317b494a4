"""Named experiments: each is one file in ``headgate.research.scenarios`` with a function that runs it.

    @scenario("russo-table-1", "One year, three operators, six policies: the costs of russo's table 1.")
    def run(progress: Progress) -> Outcome: ...

A scenario gives rows of a table, the figures its source document prints beside them, and plots. It is seeded: running
it again gives the same rows.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from headgate._version import __version__
from headgate.core.errors import UnknownNameError
from headgate.core.plugins import plugins
from headgate.core.types import JSON
from headgate.render.plots import Plot

Progress: TypeAlias = Callable[[float], None]
"""Is told now and then what share of the work is done, from 0 to 1."""
FORMAT_VERSION = 1
ENTRY_POINTS = "headgate.scenarios"
"""Each names a package whose modules register scenarios."""


def tell_begun(progress: Progress, share: float) -> None:
    """Tell that work begins only now, after what it needed first, and that a share of it was done before.

    Whoever reckons how long it will take has a ``begin`` of its own for that.
    """
    begin: Progress = getattr(progress, "begin", progress)
    begin(share)


@dataclass(frozen=True)
class Outcome:
    """What a scenario came to."""

    rows: Sequence[Mapping[str, JSON]]
    """One object per line of the table."""
    notes: Sequence[str] = ()
    """How the source document was read, what is ours, what the numbers mean."""
    plots: Sequence[Plot] = ()
    details: Sequence[Mapping[str, JSON]] = ()
    """What the rows were made from; only in the JSON."""


@dataclass(frozen=True)
class Scenario:
    name: str
    summary: str
    run: Callable[[Progress], Outcome]
    is_kept: bool = False
    """Whether runs that were done before an interruption are not done again."""
    takes_s: float | None = None
    """About how long it takes on two cores; ``None`` where the first part of it is done within a second."""

    def to_json(self, outcome: Outcome) -> dict[str, JSON]:
        return {
            "version": FORMAT_VERSION,
            "headgate": __version__,
            "scenario": self.name,
            "summary": self.summary,
            "rows": [dict(row) for row in outcome.rows],
            "notes": list(outcome.notes),
            "details": [dict(one) for one in outcome.details],
        }


_REGISTRY: dict[str, Scenario] = {}


def scenario(
    name: str, summary: str, *, is_kept: bool = False, takes_s: float | None = None
) -> Callable[[Callable[[Progress], Outcome]], Callable[[Progress], Outcome]]:
    """Decorator: makes a scenario known by its name."""

    def register(run: Callable[[Progress], Outcome]) -> Callable[[Progress], Outcome]:
        if name in _REGISTRY:
            raise ValueError(f"two scenarios are called {name!r}")
        _REGISTRY[name] = Scenario(name, summary, run, is_kept, takes_s)
        return run

    return register


@cache
def _discover() -> None:
    for entry in plugins(ENTRY_POINTS).values():
        package = entry.load()
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


def scenarios() -> list[Scenario]:
    """Every scenario, by name."""
    _discover()
    return [_REGISTRY[name] for name in sorted(_REGISTRY)]


def find_scenario(name: str) -> Scenario:
    _discover()
    if name not in _REGISTRY:
        raise UnknownNameError("scenario", name, _REGISTRY)
    return _REGISTRY[name]
