"""Named experiments, how packages register them, and the report of one: its table, its plots, and how to read them.

A scenario is a seeded function that returns the rows of a table, notes on how to read them, and plots; running it again
gives the same rows:

    @scenario("russo-table-1", "One year, three operators, six policies: the costs of russo's table 1.")
    def run(progress: Progress) -> ScenarioOutcome: ...

A named experiment is an experiment file that ships with a package, registered by :func:`experiment_file`.

A package contributes both through the entry point group ``headgate.scenarios``, as Headgate's own ``research`` does:

    [project.entry-points."headgate.scenarios"]
    my-lab = "my_package.scenarios"

The value is a module, or a package whose direct modules are imported as well; importing them registers their scenarios.
They are imported whenever scenarios are listed, so imports that take long belong inside the functions. The entry's own
name is only used in messages. Names of scenarios must be unique; Headgate's packages load first. A package that cannot
be loaded is reported in one sentence by :func:`broken_packages` and does not hide the others.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from headgate._version import __version__
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.plugins import package_of
from headgate.core.types import JSON
from headgate.render.page import Plot, html_table, write_page

if TYPE_CHECKING:
    from headgate.lab.experiments.run_case import ExperimentMatrix


Progress: TypeAlias = Callable[[float], None]
"""Called now and then with the share of the work that is done, from 0 to 1."""
FORMAT_VERSION = 1
ENTRY_POINTS = "headgate.scenarios"


def part_of(progress: Progress, done: float, weight: float) -> Progress:
    """Return the progress of a part of the work, which begins when a share of the whole is done."""
    return lambda share: progress(done + weight * share)


def mark_begin(progress: Progress, share: float) -> None:
    """Report that the work starts only now, after its preparation, with a share of it done by an earlier run.

    A progress display that estimates the time left has a ``begin`` method for this.
    """
    begin: Progress = getattr(progress, "begin", progress)
    begin(share)


@dataclass(frozen=True)
class ScenarioOutcome:
    """The result of a scenario."""

    rows: Sequence[Mapping[str, JSON]]
    """One object per line of the table."""
    notes: Sequence[str] = ()
    """How the source document was read, what is ours, what the numbers mean."""
    plots: Sequence[Plot] = ()
    details: Sequence[Mapping[str, JSON]] = ()
    """What the rows were computed from; only in the JSON."""

    def to_json(self, name: str, summary: str) -> dict[str, JSON]:
        """Return the results as plain data, with the name and summary of what was run."""
        return {
            "version": FORMAT_VERSION,
            "headgate": __version__,
            "scenario": name,
            "summary": summary,
            "rows": [dict(row) for row in self.rows],
            "notes": list(self.notes),
            "details": [dict(detail) for detail in self.details],
        }


@dataclass(frozen=True)
class Scenario:
    """A registered function."""

    name: str
    summary: str
    run: Callable[[Progress], ScenarioOutcome]
    resumes: bool = False
    """Whether a second run continues where an interrupted one stopped."""
    takes_s: float | None = None
    """About how long it takes on two cores; ``None`` where progress shows within a second."""

    def to_json(self, outcome: ScenarioOutcome) -> dict[str, JSON]:
        return outcome.to_json(self.name, self.summary)


@dataclass(frozen=True)
class NamedExperiment:
    """An experiment file that ships with a package; it runs as a user's own file does, and its policies are ranked."""

    name: str
    summary: str
    file: Path
    quick: Path | None = None
    """The same on a smaller scale, where there is such a file."""

    def read(self, *, is_quick: bool = False) -> tuple[ExperimentMatrix, list[str]]:
        """Read the experiment without workloads whose traces are not installed; also return the names of those."""
        from headgate.lab.experiments.document import read_experiment
        from headgate.workloads.day_load import named_day
        from headgate.workloads.traces import read_trace, trace_names

        absent: list[str] = []

        def is_absent(workload: str) -> bool:
            name = named_day(workload)
            if name is None or name not in trace_names():
                return False
            try:
                read_trace(name)
            except InputError:
                absent.append(name)
                return True
            return False

        return read_experiment(self.file_of(is_quick=is_quick), is_absent), absent

    def file_of(self, *, is_quick: bool) -> Path:
        if not is_quick:
            return self.file
        if self.quick is None:
            raise InputError(f"--quick does not apply to {self.name}; it has only one size.")
        return self.quick


def missing_traces_note(absent: Sequence[str]) -> str:
    """The sentence on workloads that do not run because their traces are not installed."""
    return (
        f"{len(absent)} workloads are left out, as their traces are not at hand: {', '.join(absent)}. "
        "headgate lab traces says where they can be had."
    )


_SCENARIOS: dict[str, Scenario] = {}
_EXPERIMENTS: dict[str, NamedExperiment] = {}


def _check_unique(name: str) -> None:
    if name in _SCENARIOS or name in _EXPERIMENTS:
        raise InputError(f"two scenarios are called {name!r}; names must be unique")


def scenario(
    name: str, summary: str, *, resumes: bool = False, takes_s: float | None = None
) -> Callable[[Callable[[Progress], ScenarioOutcome]], Callable[[Progress], ScenarioOutcome]]:
    """Register the decorated function as a scenario."""

    def register(run: Callable[[Progress], ScenarioOutcome]) -> Callable[[Progress], ScenarioOutcome]:
        _check_unique(name)
        _SCENARIOS[name] = Scenario(name, summary, run, resumes, takes_s)
        return run

    return register


def experiment_file(name: str, summary: str, file: Path, quick: Path | None = None) -> None:
    """Register an experiment file; ``quick`` is a smaller one for ``--quick``."""
    _check_unique(name)
    _EXPERIMENTS[name] = NamedExperiment(name, summary, file, quick)


@cache
def _discover() -> tuple[str, ...]:
    """Import all registered packages; return a sentence for each that cannot be loaded."""
    broken = []
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=_headgate_first):
        try:
            package = entry.load()
            for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
                importlib.import_module(f"{package.__name__}.{module.name}")
        except Exception as error:  # noqa: BLE001 - code of other packages may raise anything
            reason = str(error).rstrip(".")
            broken.append(
                f"scenarios {entry.name!r} of {package_of(entry)} cannot be loaded: {type(error).__name__}: {reason}."
            )
    return tuple(broken)


def _headgate_first(entry: EntryPoint) -> tuple[bool, str]:
    return entry.dist is None or entry.dist.name != "headgate", entry.name


def broken_packages() -> Sequence[str]:
    """A sentence for each registered package that cannot be loaded."""
    return _discover()


def scenarios() -> list[Scenario]:
    """Every scenario, by name."""
    _discover()
    return [_SCENARIOS[name] for name in sorted(_SCENARIOS)]


def named_experiments() -> list[NamedExperiment]:
    """Every experiment file that ships with a package, by name."""
    _discover()
    return [_EXPERIMENTS[name] for name in sorted(_EXPERIMENTS)]


def find_scenario(name: str) -> Scenario:
    """The scenario of this name; an unknown name is an error that also reports packages that cannot be loaded."""
    broken = _discover()
    if name in _SCENARIOS:
        return _SCENARIOS[name]
    unknown = UnknownNameError("scenario", name, {*_SCENARIOS, *_EXPERIMENTS})
    raise InputError(" ".join([str(unknown), *broken])) if broken else unknown


def find_named_experiment(name: str) -> NamedExperiment | None:
    _discover()
    return _EXPERIMENTS.get(name)


MANY_PLOTS = 4


def write_scenario_report(path: Path, title: str, summary: str, outcome: ScenarioOutcome) -> Path:
    """Write the report and return its path; an existing file is replaced."""
    return write_page(
        path,
        title=title,
        head=f'<p class="sub">{escape(summary)}</p>',
        sections=_sections(outcome),
        figures=[{"data": list(plot.data), "layout": plot.layout} for plot in outcome.plots],
    )


def _sections(outcome: ScenarioOutcome) -> list[str]:
    """Return plots, table and notes; of many plots all but the first follow the table."""
    plots = [_plot(index, plot) for index, plot in enumerate(outcome.plots)]
    first = 1 if len(plots) > MANY_PLOTS else len(plots)
    table = f"<h2>Table</h2>{html_table(outcome.rows)}"
    return [*plots[:first], table, _notes(outcome.notes), *plots[first:]]


def _plot(index: int, plot: Plot) -> str:
    key = f'<p class="key">{escape(plot.key)}</p>' if plot.key else ""
    return f'<h2>{escape(plot.title)}</h2><div class="panel"><div id="figure-{index}"></div>{key}</div>'


def _notes(notes: Sequence[str]) -> str:
    return '<ul class="notes">' + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>" if notes else ""
