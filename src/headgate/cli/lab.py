"""headgate lab: experiments, and what is in the folder of a lab run."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headgate.cli import options
from headgate.cli.common import (
    STANDARD_OUTPUT,
    Outputs,
    argument,
    check_target,
    key_values,
    make_console,
    option,
    prepare_folder,
    print_described,
    print_notes,
    print_table,
    say,
    write_json,
)
from headgate.cli.lab_break import break_policy
from headgate.cli.lab_tune import new_folder, tune
from headgate.cli.progress import message_when_stopped, progress_bar
from headgate.core.errors import InputError
from headgate.core.extras import require
from headgate.core.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headgate.core.types import JSON
    from headgate.lab.experiments.results import GroupComparison, LabResults
    from headgate.lab.experiments.run_case import ExperimentMatrix
    from headgate.lab.experiments.summary import RepeatGroup
    from headgate.lab.scenario import NamedExperiment, ScenarioOutcome

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
    from headgate.lab.experiments.results import (
        ExperimentPlan,
        LabFolder,
        expected_s,
        read_results,
        require_spark,
        run_experiment,
    )

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


def show_ranks(found: LabResults, report: Path | None, json_file: str | None) -> None:
    """Write the requested files, and print the ranks unless JSON goes to standard output."""
    from headgate.research.league.report import league_outcome

    outcome = league_outcome(found)
    summary = f"{found.done:,} simulated runs: policies ranked by cost where the objective is met."
    show_outcome(outcome, found.name, summary, report, json_file)


def show_outcome(
    outcome: ScenarioOutcome, name: str, summary: str, report: Path | None, json_file: str | None, heading: str = ""
) -> None:
    """Write the requested files, and print the table unless JSON goes to standard output."""
    from headgate.lab.scenario import write_scenario_report

    with Outputs() as outputs:
        if report is not None:
            outputs.write(write_scenario_report, report, name, summary, outcome)
        outputs.write(write_json, outcome.to_json(name, summary), json_file)
        if json_file != "-":
            console = make_console()
            if heading:
                console.print(Text(heading, style="italic"))
            print_table(outcome.rows, console, outcome.notes)


_HOURS = {"instance-hours": "instance_hours"}
_PRICED = {"cost": "cost"}
_SHOWN = {"late %": "late_records_pct", "p95 s": "latency_p95_s", "rescales": "rescales"}


def results(
    folder: Annotated[Path, argument("DIR", "The folder of a lab run.")],
    where: Annotated[
        list[str] | None,
        option("LABEL=VALUE", "Only some: workload, job, objective or policy; * stands for anything; may be repeated."),
    ] = None,
    sort: Annotated[str | None, option("FIGURE", "The least of a figure first.", show_default="met, then cost")] = None,
    against: Annotated[Path | None, option("DIR", "Another lab run to compare with, as the earlier one.")] = None,
    rank: Annotated[
        bool, typer.Option("--rank", help="Rank policies over all contests, by cost where the objective is met.")
    ] = False,
    csv_file: Annotated[Path | None, option("FILE", "Write all figures as CSV.", "--csv")] = None,
    report: options.Report = None,
    json_file: options.Json = None,
) -> None:
    """Show what a lab run came to, also while it is under way or after it was stopped.

    [bold]Examples[/bold]
      [cyan]headgate lab results lab/first-look --where policy=hpa* --sort late_records_pct[/cyan]
      [cyan]headgate lab results lab/after --against lab/before --csv both.csv[/cyan]
    """
    from headgate.lab.experiments.results import compare, compared_to_json, read_results
    from headgate.render.page import require_plotly, write_file

    for target in (json_file, csv_file, report):
        check_target(target)
    if report is not None and against is not None:
        raise InputError(f"--report {report} and --against {against} do not go together; a report is of one lab run.")
    if rank and (against is not None or csv_file is not None or sort is not None):
        raise InputError("--rank goes with --where, --report and --json; --against, --csv and --sort are of contests.")
    if report is not None:
        require_plotly()
    require("a lab run", "pyarrow")
    wanted = key_values("--where", where or [])
    found = read_results(folder).where(wanted).sorted_by(sort)
    if rank:
        show_ranks(found, report, json_file)
        return
    pairs = None if against is None else compare(read_results(against).where(wanted), found)
    plain = found.to_json() if pairs is None else compared_to_json(pairs)
    with Outputs() as outputs:
        if csv_file is not None:
            outputs.write(write_file, csv_file, _as_csv(plain["rows"]))
        if pairs is None:
            show_results(found, report, json_file)
            return
        outputs.write(write_json, plain, json_file)
        if json_file != "-":
            _print_compared(pairs)


def show_results(found: LabResults, report: Path | None, json_file: str | None) -> None:
    """Write the requested files, and print the contests unless JSON goes to standard output."""
    from headgate.lab.experiments.report import write_results_report

    with Outputs() as outputs:
        if report is not None:
            outputs.write(write_results_report, report, found)
        outputs.write(write_json, found.to_json(), json_file)
        if json_file != "-":
            print_results(found)


def print_results(found: LabResults) -> None:
    """A table for each contest, and what to know about them."""
    from headgate.lab.experiments.report import with_interval

    console = make_console()
    contests = dict.fromkeys(group.contest for group in found.groups)
    for contest in contests:
        columns = _columns(group for group in found.groups if group.contest == contest)
        rows = [
            {"policy": group.policy, "kept": f"{group.met}/{group.runs}"}
            | {name: with_interval(group.figures[figure]) for name, figure in columns.items()}
            | {"": str(verdict)}
            for group, verdict in found.rows
            if group.contest == contest
        ]
        console.print(Text("\n" + " · ".join(contest), style="bold cyan"))
        print_table(rows, console)
    print_notes(found.notes, console)


def _print_compared(pairs: Sequence[GroupComparison]) -> None:
    console = make_console()
    for contest in dict.fromkeys(pair.labels[:3] for pair in pairs):
        columns = _columns(
            group for pair in pairs for group in (pair.before, pair.after) if group and group.contest == contest
        )
        rows = [
            {"policy": pair.labels[3]} | {name: _change(pair, figure) for name, figure in columns.items()}
            for pair in pairs
            if pair.labels[:3] == contest
        ]
        console.print(Text("\n" + " · ".join(contest), style="bold cyan"))
        print_table(rows, console)
    print_notes(
        ["before → after. *: differs by more than noise (Welch's test, 95 %). –: not in that lab run."], console
    )


def _columns(groups: Iterable[RepeatGroup]) -> dict[str, str]:
    """Money where there is a price, and what it is paid for otherwise."""
    is_priced = any(group.figures["cost"] for group in groups)
    return (_PRICED if is_priced else _HOURS) | _SHOWN


def _change(pair: GroupComparison, figure: str) -> str:
    from headgate.render.page import number

    before, after, is_change = pair.change(figure)
    values = f"{'–' if before is None else number(before)} → {'–' if after is None else number(after)}"
    return f"{values} *" if is_change else values


def _as_csv(rows: Sequence[Mapping[str, JSON]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


lab.command()(results)
lab.command()(traces)
lab.command()(tune)
lab.command("break")(break_policy)
