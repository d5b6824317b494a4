"""Named experiments that are files, in ``named``: run by the same machinery as those that users write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import InputError
from headgate.lab.experiments.model import Experiment
from headgate.lab.experiments.reading import read_experiment
from headgate.workloads.day_load import named_day
from headgate.workloads.traces import read_trace, trace_names

_FOLDER = Path(__file__).parent / "named"


@dataclass(frozen=True)
class NamedExperiment:
    name: str
    summary: str
    file: Path
    quick: Path | None = None
    """The same in small, where there is such a file."""

    def read(self, *, is_quick: bool = False) -> tuple[Experiment, list[str]]:
        """The experiment without the workloads whose traces are not at hand, and the names of those."""
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
        if is_quick and self.quick is None:
            raise InputError(f"--quick is not known of {self.name}; {', '.join(_with_quick())} can be run in small.")
        return self.quick if is_quick and self.quick is not None else self.file


NAMED: Sequence[NamedExperiment] = (
    NamedExperiment(
        "league",
        "Every policy on every trace and shape with jobs of many kinds, ranked by cost at a kept objective.",
        _FOLDER / "league.yaml",
        _FOLDER / "league-quick.yaml",
    ),
)


def find_named(name: str) -> NamedExperiment | None:
    return next((one for one in NAMED if one.name == name), None)


def left_out(absent: Sequence[str]) -> str:
    """What to say of workloads that are not run."""
    return (
        f"{len(absent)} workloads are left out, as their traces are not at hand: {', '.join(absent)}. "
        "headgate lab traces says where they can be had."
    )


def _with_quick() -> list[str]:
    return [one.name for one in NAMED if one.quick is not None]
