"""headgate lab run FILE: an experiment that a user wrote."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.common import prepare_folder, progress_bar, say
from headgate.cli.interrupts import message_when_stopped
from headgate.cli.lab_results import show_ranks, show_results
from headgate.core.errors import InputError
from headgate.core.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.lab.experiments.model import ExperimentMatrix
    from headgate.lab.experiments.results import LabResults
    from headgate.lab.scenario import NamedExperiment

SUFFIXES = (".yaml", ".yml")


def is_experiment(name: str) -> bool:
    """Whether a name is that of an experiment file, and not that of a scenario."""
    return name.lower().endswith(SUFFIXES) or Path(name).is_file()


def run_file(file: Path, out: Path | None, master: str, report: Path | None, json_file: str | None) -> None:
    """Run an experiment file and show its results."""
    from headgate.lab.experiments.document import read_experiment

    _require_installed(report)
    experiment = read_experiment(file)
    for load in experiment.workloads:
        for sentence in load.notes:
            say(sentence, stderr=True)
    _run(ExperimentOptions(file.parent, experiment, show_results), out, master, report, json_file)


def run_named(
    named: NamedExperiment, out: Path | None, master: str, report: Path | None, json_file: str | None, *, is_quick: bool
) -> None:
    """Run an experiment that comes with Headgate, and rank its policies."""
    from headgate.lab.scenario import missing_traces_note

    _require_installed(report, "river")  # Every policy takes part.
    experiment, absent = named.read(is_quick=is_quick)
    if absent:
        say(missing_traces_note(absent), stderr=True)
    _run(ExperimentOptions(named.file.parent, experiment, show_ranks), out, master, report, json_file)


def _require_installed(report: Path | None, *others: str) -> None:
    """Refuse, before anything is read, to run without what a lab run needs."""
    from headgate.render.page import report_packages

    require("a lab run", "pyspark", *others, *(() if report is None else report_packages()))


@dataclass(frozen=True)
class ExperimentOptions:
    """An experiment, its folder and how its results are shown."""

    home: Path
    experiment: ExperimentMatrix
    show: Callable[[LabResults, Path | None, str | None], None]


def _run(options: ExperimentOptions, out: Path | None, master: str, report: Path | None, json_file: str | None) -> None:
    from headgate.lab.experiments.parts import LabFolder
    from headgate.lab.experiments.results import read_results
    from headgate.lab.experiments.run_experiment import ExperimentPlan, expected_s, require_spark, run_experiment

    experiment = options.experiment
    require_spark()
    folder = out or default_folder(experiment)
    prepare_folder("--out", folder)
    plan = ExperimentPlan(experiment, options.home, LabFolder(folder), master)
    message = f"finished runs are saved, and the same command with --out {folder} continues"
    about_s = expected_s(experiment, os.cpu_count() or 1)
    with (
        message_when_stopped(message),
        progress_bar(experiment.name, counted=len(experiment), expected_s=about_s) as progress,
    ):
        run_experiment(plan, progress, lambda sentence: say(sentence, stderr=True))
    options.show(read_results(folder).sorted_by(None), report, json_file)
    if json_file != "-":
        ranked = " --rank" if options.show is show_ranks else ""
        say(f"\n{len(experiment):,} runs in {folder}; look again with: headgate lab results {folder}{ranked}")


def default_folder(experiment: ExperimentMatrix) -> Path:
    """A new folder each time, named after the experiment and the time of day."""
    at = datetime.now().astimezone()
    return Path("lab") / f"{experiment.name.replace('/', '-')}-{at:%Y%m%d-%H%M%S}"


def write_new(file: Path) -> None:
    """A commented experiment to start from."""
    from importlib.resources import files

    from headgate.render.files import write_file

    if file.exists():
        raise InputError(f"{file} is there already; name another file.")
    write_file(file, files("headgate.lab.experiments").joinpath("example.yaml").read_text(encoding="utf-8"))
    say(f"{file} is written; run it with: headgate lab run {file}")
