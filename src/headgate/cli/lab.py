"""headgate lab"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headgate.cli import options
from headgate.cli.common import (
    STANDARD_OUTPUT,
    argument,
    check_target,
    make_console,
    option,
    prepare_folder,
    print_described,
    progress_bar,
    say,
    write_json,
)
from headgate.cli.interrupts import message_when_stopped
from headgate.cli.lab_break import break_policy
from headgate.cli.lab_results import results, show_outcome, show_ranks, show_results
from headgate.cli.lab_tune import new_folder, tune
from headgate.core.errors import InputError
from headgate.core.extras import require
from headgate.core.units import format_duration

if TYPE_CHECKING:
    from headgate.lab.experiments.model import ExperimentMatrix
    from headgate.lab.scenario import NamedExperiment

FORMAT_VERSION = 1
SUFFIXES = (".yaml", ".yml")


def traces(json_file: options.Json = None) -> None:
    """List the public traces that trace:NAME knows, and where those can be had that are not at hand.

    They are looked for in the folder that HEADGATE_TRACES names, or in ../shared/data.

    [bold]Examples[/bold]
      [cyan]headgate lab traces[/cyan]
      [cyan]HEADGATE_TRACES=~/traces headgate lab traces --json traces.json[/cyan]
    """
    from rich.table import Table

    from headgate.workloads.trace_sources import how_to_get, known_traces

    known = known_traces()
    if json_file is not None:
        rows = [
            {
                "name": trace.name,
                "what": trace.source.what,
                "at_hand": trace.is_at_hand,
                "span_s": trace.span_s,
                "step_s": trace.step_s,
                "records": trace.records,
                "source": trace.source.had_from,
                "file": f"{trace.source.folder}/{trace.source.file}",
            }
            for trace in known
        ]
        write_json({"version": FORMAT_VERSION, "traces": rows}, json_file)
        return
    console = make_console()
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("name", no_wrap=True, style="cyan")
    for heading in ("span", "step", "records"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what")
    for trace in known:
        cells = ("not at hand", "", "")
        if trace.span_s is not None and trace.step_s is not None and trace.records is not None:
            cells = (format_duration(trace.span_s), format_duration(trace.step_s), f"{trace.records:,.0f}")
        table.add_row(trace.name, *cells, trace.source.what, style="" if trace.is_at_hand else "dim")
    console.print(table)
    for source in dict.fromkeys(trace.source for trace in known if not trace.is_at_hand):
        console.print(Text(f"\n{how_to_get(source)}"))


lab = typer.Typer(
    no_args_is_help=True,
    help="Experiments: named ones that anybody can run again, and your own.",
    rich_markup_mode="rich",
)


@lab.command("list")
def list_scenarios(json_file: options.Json = None) -> None:
    """List the experiments."""
    from headgate.lab.scenario import broken_packages, named_experiments, scenarios

    known = [(found.name, found.summary) for found in scenarios()]
    known = sorted(known + [(found.name, found.summary) for found in named_experiments()])
    for sentence in broken_packages():
        say(f"headgate: {sentence}", stderr=True)
    if json_file is not None:
        write_json([{"name": name, "summary": summary} for name, summary in known], json_file)
        return
    print_described(known, make_console())


@lab.command()
def run(
    name: Annotated[str, argument("NAME|FILE", "Which experiment; headgate lab list names them. Or a file.")],
    *,
    out: Annotated[
        Path | None,
        option(
            "DIR",
            "Gets the results of a file or of the league; one that was stopped goes on.",
            show_default="lab/NAME-TIME",
        ),
    ] = None,
    master: Annotated[
        str | None, option("URL", "A Spark cluster to spread a file's runs over.", show_default="local[*]")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run the league in small.")] = False,
    report: options.Report = None,
    json_file: options.Json = None,
) -> None:
    """Run one experiment and show its table: a named one, next to the figures of its source document, or a file
    of your own, which headgate lab new writes.

    [bold]Examples[/bold]
      [cyan]headgate lab run russo-table-1 --json table.json --report table.html[/cyan]
      [cyan]headgate lab run my.yaml --out lab/my[/cyan]
      [cyan]headgate lab run league --quick --report league.html[/cyan]
    """
    from headgate.lab.scenario import find_named_experiment, find_scenario
    from headgate.render.page import require_plotly

    if (named := find_named_experiment(name)) is not None:
        _run_named(named, out, master or "local[*]", report, json_file, is_quick=quick)
        return
    if quick:
        raise InputError(f"--quick goes with league; {name} has only one size.")
    if _is_experiment(name):
        _run_file(Path(name), out, master or "local[*]", report, json_file)
        return
    if out is not None or master is not None:
        raise InputError(f"--out and --master go with an experiment file or league; {name} is a scenario.")
    found = find_scenario(name)
    if report is not None:
        require_plotly()
    message = "the same command continues it" if found.resumes else "nothing is saved"
    with message_when_stopped(message), progress_bar(name, expected_s=found.takes_s) as progress:
        outcome = found.run(progress)
    show_outcome(outcome, found.name, found.summary, report, json_file, heading=f"{found.summary}\n")


def _is_experiment(name: str) -> bool:
    """Return whether a name is that of an experiment file, and not that of a scenario."""
    return name.lower().endswith(SUFFIXES) or Path(name).is_file()


def _run_file(file: Path, out: Path | None, master: str, report: Path | None, json_file: str | None) -> None:
    """Run an experiment file and show its results."""
    from headgate.lab.experiments.document import read_experiment

    _require_installed(report)
    experiment = read_experiment(file)
    for load in experiment.workloads:
        for sentence in load.notes:
            say(sentence, stderr=True)
    _run_matrix(experiment, file.parent, out, master, report, json_file, is_ranked=False)


def _run_named(
    named: NamedExperiment, out: Path | None, master: str, report: Path | None, json_file: str | None, *, is_quick: bool
) -> None:
    """Run an experiment that comes with Headgate, and rank its policies."""
    from headgate.lab.scenario import missing_traces_note

    _require_installed(report, "river")  # Every policy takes part.
    experiment, absent = named.read(is_quick=is_quick)
    if absent:
        say(missing_traces_note(absent), stderr=True)
    _run_matrix(experiment, named.file.parent, out, master, report, json_file, is_ranked=True)


def _require_installed(report: Path | None, *others: str) -> None:
    """Refuse, before anything is read, to run without what a lab run needs."""
    from headgate.render.page import report_packages

    require("a lab run", "pyspark", *others, *(() if report is None else report_packages()))


def _run_matrix(
    experiment: ExperimentMatrix,
    home: Path,
    out: Path | None,
    master: str,
    report: Path | None,
    json_file: str | None,
    *,
    is_ranked: bool,
) -> None:
    """Run what is missing in the folder, and show all results."""
    from headgate.lab.experiments.results import LabFolder, read_results
    from headgate.lab.experiments.run_experiment import ExperimentPlan, expected_s, require_spark, run_experiment

    require_spark()
    folder = out or new_folder(experiment.name.replace("/", "-"))
    prepare_folder("--out", folder)
    plan = ExperimentPlan(experiment, home, LabFolder(folder), master)
    message = f"finished runs are saved, and the same command with --out {folder} continues"
    about_s = expected_s(experiment, os.cpu_count() or 1)
    with (
        message_when_stopped(message),
        progress_bar(experiment.name, counted=len(experiment), expected_s=about_s) as progress,
    ):
        run_experiment(plan, progress, lambda sentence: say(sentence, stderr=True))
    show = show_ranks if is_ranked else show_results
    show(read_results(folder).sorted_by(None), report, json_file)
    if json_file != "-":
        ranked = " --rank" if is_ranked else ""
        say(f"\n{len(experiment):,} runs in {folder}; look again with: headgate lab results {folder}{ranked}")


@lab.command()
def new(
    file: Annotated[Path, argument("[FILE]", "The file to write.")] = Path("experiment.yaml"),
) -> None:
    """Write a commented experiment file to start from; it runs as it is.

    [bold]Example[/bold]
      [cyan]headgate lab new my.yaml && headgate lab run my.yaml[/cyan]
    """
    from importlib.resources import files

    from headgate.render.page import write_file

    check_target(file)
    if file.exists():
        raise InputError(f"{file} is there already; name another file.")
    write_file(file, files("headgate.lab.experiments").joinpath("example.yaml").read_text(encoding="utf-8"))
    say(f"{file} is written; run it with: headgate lab run {file}")


@lab.command()
def schema(json_file: options.Json = None) -> None:
    """Print the JSON schema of experiment files, for editors that complete and check by it.

    [bold]Example[/bold]
      [cyan]headgate lab schema --json experiment.schema.json[/cyan]
    """
    from headgate.lab.experiments.document import json_schema

    write_json(json_schema(), json_file or STANDARD_OUTPUT)


lab.command()(results)
lab.command()(traces)
lab.command()(tune)
lab.command("break")(break_policy)
