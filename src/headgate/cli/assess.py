"""headgate assess"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from headgate.cli import options
from headgate.cli.common import (
    Outputs,
    argument,
    duration_s,
    make_console,
    option,
    print_table,
    write_json,
)
from headgate.cli.progress import message_when_stopped, progress_bar
from headgate.core.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from headgate.engines.spark.event_log_files import EventLog
    from headgate.lab.assess import Assessment, AssessmentTerms

FORMAT_VERSION = 1
_COUNTS = (".csv", ".csv.gz", ".parquet")
_COUNT_SPECS = ("csv:", "parquet:")


def assess(  # noqa: PLR0913 - one parameter per option
    source: Annotated[
        str,
        argument(
            "PATH",
            "An event log of Spark, a folder of them, a file of progress lines, or counts of records as CSV.",
        ),
    ],
    *,
    objective: Annotated[
        str | None, option("TEXT", "The objective, as text or a YAML file.", show_default="what the job met so far")
    ] = None,
    price: options.Price = None,
    fewest: Annotated[int | None, option("N", "Never fewer executors.", "--min", min=1, show_default="1")] = None,
    most: Annotated[
        int | None, option("N", "Never more executors.", "--max", min=1, show_default="twice the most seen")
    ] = None,
    query: Annotated[
        str | None, option("NAME", "Which query, where there are several.", show_default="that with the most records")
    ] = None,
    instances: Annotated[
        int | None, option("N", "How many executors the job had, where the source does not say.", min=1)
    ] = None,
    startup: Annotated[
        str | None, option("DURATION", "How long an executor takes to start.", show_default="as in the log, or 60s")
    ] = None,
    service_rate: Annotated[
        float | None, option("RATE", "Of counts: the records that an executor gets through in a second.")
    ] = None,
    draws: Annotated[int, option("N", "How many draws of the log the ranges span, besides the log itself.", min=1)] = 4,
    seed: Annotated[int, option("K", "Makes randomness repeatable.", min=0)] = 0,
    report: options.Report = None,
    json_file: options.Json = None,
) -> None:
    """Estimate what a job would cost under autopilot, at a fixed size and under Spark's own allocation, from its logs.

    Nothing has to be installed in the job: what Spark wrote anyway is enough. A folder of a history server makes a
    table of all its applications, those that missed their objective first.

    [bold]Examples[/bold]
      [cyan]headgate assess /var/log/spark-events/application_17_0042.zstd[/cyan]
      [cyan]headgate assess /var/log/spark-events --objective "latency p95 < 30s" --price 0.25 --report page.html[/cyan]
      [cyan]headgate assess progress.jsonl --instances 4[/cyan]
      [cyan]headgate assess csv:counts.csv,time=minute,count=n --service-rate 400 --objective "latency p95 < 30s"[/cyan]
    """
    from headgate.lab.assess import AssessmentTerms, by_urgency
    from headgate.lab.assess_report import write_assessment
    from headgate.render.page import require_plotly
    from headgate.runtime.objective_file import text_or_file

    if report is not None:
        require_plotly()
    terms = AssessmentTerms(
        objective=None if objective is None else text_or_file(objective),
        price=price,
        fewest=fewest,
        most=most,
        startup_s=None if startup is None else duration_s("--startup", startup),
        draws=draws,
        seed=seed,
    )
    failed: dict[str, str] = {}
    with message_when_stopped("nothing is saved"), progress_bar("Assessing") as progress:
        if source.startswith(_COUNT_SPECS) or source.endswith(_COUNTS):
            found = [_from_counts(source, terms, service_rate, instances, progress)]
        else:
            if service_rate is not None:
                raise InputError("--service-rate goes with counts of records; a log tells how fast the job is.")
            found = _from_logs(Path(source), terms, query, instances, failed, progress)
    found = by_urgency(found)
    with Outputs() as outputs:
        if report is not None and not outputs.write(write_assessment, report, found, failed):
            report = None
        outputs.write(
            write_json,
            {"version": FORMAT_VERSION, "applications": [item.to_json() for item in found], "not_assessed": failed},
            json_file,
        )
        if json_file != "-":
            _print(found, failed, report)


def _from_logs(
    path: Path,
    terms: AssessmentTerms,
    query: str | None,
    instances: int | None,
    failed: dict[str, str],
    progress: Callable[[float], None],
) -> list[Assessment]:
    """Assess every log at a path; of several, those that cannot be are added to ``failed`` with the reason."""
    from headgate.engines.spark.event_log import read_event_log
    from headgate.engines.spark.event_log_files import find_event_logs
    from headgate.lab.assess import assess_logged_job

    if not path.exists():
        raise InputError(f"{path} does not exist; give an event log, a folder of them, progress lines or counts.")
    logs = find_event_logs(path)
    if not logs:
        raise InputError(f"{path} has no event log in it.")

    def assessed(log: EventLog, done: int) -> Assessment:
        def report(share: float) -> None:
            progress((done + share) / len(logs))

        logged = read_event_log(
            log,
            late_after_s=terms.late_after_s,
            query=query,
            instances=instances,
            progress=lambda share: report(0.3 * share),
        )
        return assess_logged_job(logged, terms, lambda share: report(0.3 + 0.7 * share))

    found = []
    for done, log in enumerate(logs):
        try:
            found.append(assessed(log, done))
        except InputError as error:
            if len(logs) == 1:
                raise
            failed[log.path.name] = str(error)
    if not found:
        first = next(iter(failed.values()))
        raise InputError(f"none of the {len(logs)} logs in {path} can be assessed; the first: {first}")
    return found


def _from_counts(
    source: str,
    terms: AssessmentTerms,
    service_rate: float | None,
    instances: int | None,
    progress: Callable[[float], None],
) -> Assessment:
    from headgate.lab.assess import assess_counts
    from headgate.workloads import parse_workload
    from headgate.workloads.steps import Steps

    if service_rate is not None and terms.objective is None:
        raise InputError("counts do not tell which objective the job met: say --objective.")
    kind = "parquet" if source.endswith(".parquet") else "csv"
    load = parse_workload(source if source.startswith(_COUNT_SPECS) else f"{kind}:{source}")
    if not isinstance(load, Steps):
        raise InputError(f"{source} is no single file of counts.")
    return assess_counts(source, load, terms, service_rate, instances or 1, progress)


# ------------------------------------------------------------------------------------------------------------ as text


def _print(found: Sequence[Assessment], failed: dict[str, str], report: Path | None) -> None:
    from headgate.lab.assess_report import overview_rows

    console = make_console()
    if len(found) > 1:
        print_table(overview_rows(found), console)
        console.print()
        for item in found:
            console.print(Text.assemble((f"{item.name}: ", "bold cyan"), item.recommendation))
    else:
        _print_job(found[0], console)
    if failed:
        console.print("\n[bold]Not assessed[/bold]")
        for name, problem in failed.items():
            console.print(Text(f"- {name}: {problem}"))
    if report is not None:
        console.print(Text(f"\nreport: {report}", style="dim"), soft_wrap=True)


def _print_job(item: Assessment, console: Console) -> None:
    from headgate.lab.assess_report import load_line, objective_line, prospect_rows, so_far_line
    from headgate.lab.replay_report import found_rows

    console.print(Text.assemble((item.name, "bold cyan"), f": {item.about}"))
    console.print(Text(objective_line(item)))
    console.print(Text(f"\n{item.recommendation}", style="bold"))
    for line in item.code:
        console.print(Text(f"    {line}"), soft_wrap=True)
    console.print()
    for line in filter(None, (load_line(item), so_far_line(item))):
        console.print(Text(line))
    for title, rows in (
        ("What it would have been, in the range of the simulations", prospect_rows(item) if item.prospects else []),
        ("What the job can do", found_rows(item.found)),
    ):
        if rows:
            console.print(f"\n[bold]{title}[/bold]")
            print_table(rows, console)
    for title, sentences in (("What this does not know", item.unknown), ("What was left out", item.left_out)):
        if sentences:
            console.print(f"\n[bold]{title}[/bold]")
            for sentence in sentences:
                console.print(Text(f"- {sentence}"))
