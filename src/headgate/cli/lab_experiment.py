"""headgate lab run FILE: an experiment that a user wrote."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headgate.cli.common import prepare_folder, progress_bar, say, write_json
from headgate.cli.interrupts import INTERRUPTED
from headgate.cli.lab_results import print_interrupted, print_results
from headgate.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headgate.lab.experiments.model import Experiment

SUFFIXES = (".yaml", ".yml")


def is_experiment(name: str) -> bool:
    """Whether a name is that of an experiment file, and not that of a scenario."""
    return name.lower().endswith(SUFFIXES) or Path(name).is_file()


def run_file(file: Path, out: Path | None, master: str, report: Path | None, json_file: str | None) -> None:
    """Run an experiment file and show what came of it."""
    from headgate.lab.experiments.folder import LabFolder
    from headgate.lab.experiments.reading import read_experiment
    from headgate.lab.experiments.report import write_results_report
    from headgate.lab.experiments.results import read_results
    from headgate.lab.experiments.running import Plan, require_spark, run_experiment
    from headgate.lab.report import require_plotly

    experiment = read_experiment(file)
    require_spark()
    if report is not None:
        require_plotly()
    folder = out or default_folder(experiment)
    prepare_folder("--out", folder)
    plan = Plan(experiment, file.parent, LabFolder(folder), master)
    told = f"{len(experiment)} runs"
    with _going_on(folder, file), progress_bar(experiment.name, counted=len(experiment)) as progress:
        run_experiment(plan, progress, lambda sentence: say(sentence, stderr=True))
    found = read_results(folder).sorted_by(None)
    if report is not None:
        write_results_report(report, found)
    if json_file is not None:
        write_json(found.to_json(), json_file)
    if json_file != "-":
        print_results(found)
        say(f"\n{told} in {folder}; look again with: headgate lab results {folder}")


def default_folder(experiment: Experiment) -> Path:
    """A new folder each time, named after the experiment and the time of day."""
    at = datetime.now().astimezone()
    return Path("lab") / f"{experiment.name.replace('/', '-')}-{at:%Y%m%d-%H%M%S}"


@contextmanager
def _going_on(folder: Path, file: Path) -> Iterator[None]:
    """What was done is kept: say how to go on after an interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        print_interrupted(folder, file)
        raise typer.Exit(INTERRUPTED) from None


def write_new(file: Path) -> None:
    """A commented experiment to start from."""
    from importlib.resources import files

    from headgate.lab.files import write_file

    if file.exists():
        raise InputError(f"{file} is there already; name another file.")
    write_file(file, files("headgate.lab.experiments").joinpath("example.yaml").read_text(encoding="utf-8"))
    say(f"{file} is written; run it with: headgate lab run {file}")
