"""headgate simulate"""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.common import (
    JsonOption,
    check_target,
    duration_s,
    key_values,
    make_console,
    progress_bar,
    write_json,
)
from headgate.core.objective import Objective, parse_objective
from headgate.core.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from headgate.runtime.simulate import SimulationResult
    from headgate.runtime.summary import Summary

SHOWN_CHANGES = 20
COMPARED_SIZES = 10


def simulate(  # noqa: PLR0913 - one parameter per option
    workload: Annotated[
        str, typer.Option(metavar="SPEC", help="What arrives: a shape with its parameters, or csv:PATH; see below.")
    ],
    service_rate: Annotated[
        float, typer.Option(metavar="RATE", help="Records per second that one instance processes.")
    ],
    seconds: Annotated[str, typer.Option(metavar="DURATION", help="How long the run is, in simulated time.")],
    policy: Annotated[
        str, typer.Option(metavar="NAME", help="Who decides; headgate policies lists them.")
    ] = "reactive",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of the policy; may be repeated.", show_default=False
        ),
    ] = None,
    guard: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of the guards; may be repeated.", show_default=False),
    ] = None,
    objective: Annotated[
        str, typer.Option(metavar="TEXT", help="'latency p95 < 10s', 'slow records < 5%' or 'throughput >= 95%'.")
    ] = "latency p95 < 10s",
    min_instances: Annotated[int, typer.Option("--min", metavar="N", help="Never fewer instances.")] = 1,
    max_instances: Annotated[int, typer.Option("--max", metavar="N", help="Never more instances.")] = 10,
    start: Annotated[
        int | None,
        typer.Option(metavar="N", help="Instances at the start; the minimum where not given.", show_default=False),
    ] = None,
    startup: Annotated[str, typer.Option(metavar="DURATION", help="Time until a new instance can work.")] = "0s",
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Time between two decisions.")] = "5s",
    model: Annotated[str, typer.Option(metavar="MODEL", help="How the job works: queue or micro-batch.")] = "queue",
    seed: Annotated[int, typer.Option(metavar="K", help="Makes noise and randomness repeatable.")] = 0,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep everything in a journal, for headgate explain.", show_default=False),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an HTML report with plots.", show_default=False)
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Run a policy on a simulated job and show what comes of it.

    The job is called [bold]job[/bold]. Its load is one of
      constant:10
      periodic:base=10,peak=20,high=20s,low=40s
      sine:mean=50,amplitude=30,period=1h
      gaussian:base=0,peak=100,center=30m,sigma=8m
      ramp:from=10,to=100,over=10m
      spike:base=10,peak=70,at=300s,width=300s
      csv:PATH, with columns timestamp and count or rate

    [bold]Examples[/bold]
      [cyan]headgate simulate --workload constant:25 --service-rate 10 --seconds 10m[/cyan]
      [cyan]headgate simulate --policy threshold --set upper=0.9 --workload sine:mean=50,amplitude=30,period=1h \\\\
        --service-rate 10 --startup 30s --seconds 2h --report run.html[/cyan]
    """
    from headgate.journal.sqlite import SqliteJournal
    from headgate.lab.report import require_plotly
    from headgate.runtime.simulate import simulate as run_simulation
    from headgate.workloads import parse_workload

    check_target(json_file)
    if report is not None:
        check_target(str(report))
        require_plotly()
    asked = parse_objective(objective).within(min_instances, max_instances)
    offered = parse_workload(workload)
    options: dict[str, Any] = {
        "service_rate_per_s": service_rate,
        "model": model,
        "startup_s": duration_s("--startup", startup),
        "interval_s": duration_s("--interval", interval),
        "seconds": duration_s("--seconds", seconds),
        "seed": seed,
    }
    kept = nullcontext(None) if journal is None else closing(SqliteJournal(journal))
    with kept as open_journal, progress_bar("Simulating") as progress:
        result = run_simulation(
            policy,
            offered,
            objective=asked,
            settings=key_values("--set", setting or []),
            guards=key_values("--guard", guard or []),
            start=min_instances if start is None else start,
            journal=open_journal,
            progress=progress,
            **options,
        )
    if report is not None:
        _write_report(report, result, asked, offered.describe(), _fixed_sizes(asked, offered, options))
    if json_file is not None:
        write_json(result.to_json(), json_file)
    else:
        _print(result, asked, report, journal)


def _fixed_sizes(objective: Objective, workload: Any, options: dict[str, Any]) -> dict[str, Summary]:
    """The same load on sizes that never change."""
    from headgate.runtime.simulate import simulate as run_simulation

    lowest, highest = objective.min_instances, objective.max_instances
    stride = -(-(highest - lowest + 1) // COMPARED_SIZES)
    sizes = [*range(lowest, highest, stride), highest]
    with progress_bar("Comparing with fixed sizes") as progress:
        compared = {}
        for done, size in enumerate(sizes):
            progress(done / len(sizes))
            result = run_simulation("static", workload, objective=objective, start=size, **options)
            compared[f"{size} instance{'s' if size > 1 else ''}"] = result.summary
    return compared


def _write_report(
    path: Path, result: SimulationResult, objective: Objective, workload: str, comparison: dict[str, Summary]
) -> None:
    from headgate.lab.report import write_report

    run = result.run
    write_report(
        path,
        title=f"{run['policy']} on a simulated job",
        observations=result.observations,
        decisions=result.decisions,
        objective=objective,
        summary=result.summary,
        comparison=comparison,
        notes=[
            f"Load: {workload}; one instance processes {run['service_rate_per_s']:g} records/s "
            f"and takes {format_duration(run['startup_s'])} to start.",
            f"Model: {run['model']}, a decision every {format_duration(run['interval_s'])}, seed {run['seed']}.",
        ],
    )


def _print(result: SimulationResult, objective: Objective, report: Path | None, journal: Path | None) -> None:
    from rich.text import Text

    console = make_console()
    run = result.run
    console.print(
        Text.assemble(
            (str(run["policy"]), "bold cyan"),
            f" on {run['workload']} for {format_duration(run['seconds'])}, objective {objective}\n",
        )
    )
    console.print(_plots(result, console))
    console.print()
    console.print(_figures(result.summary, objective))
    _print_changes(result, console)
    for what, path in (("report", report), ("journal", journal)):
        if path is not None:
            console.print(Text(f"\n{what}: {path}", style="dim"), soft_wrap=True)


def _plots(result: SimulationResult, console: Console) -> Table:
    from rich.table import Table

    from headgate.cli.sparklines import sparkline
    from headgate.policies.readings import plain

    series = result.record.series()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    width = max(20, min(72, console.width - 44))
    for name, key, style, unit in (
        ("input rate", "input_rate", "blue", "records/s"),
        ("backlog", "backlog", "yellow", "records"),
        ("latency", "latency_s", "magenta", "s"),
        ("instances ready", "ready", "green", ""),
    ):
        values = [point[key] for point in series]
        largest = max((value for value in values if value is not None), default=None)
        told = "unknown" if largest is None else f"max {plain(largest)} {unit}".rstrip()
        table.add_row(name, f"[{style}]{sparkline(values, width)}[/{style}]", told)
    return table


def _figures(summary: Summary, objective: Objective) -> Table:
    from rich.table import Table

    from headgate.policies.readings import plain

    def told(value: float | None, unit: str = "") -> str:
        return "unknown" if value is None else f"{plain(value)}{unit}"

    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(2):
        table.add_column(style="dim", no_wrap=True)
        table.add_column(justify="right", no_wrap=True, style="bold")
    latency = " / ".join(told(value) for value in (summary.latency_p50_s, summary.latency_p95_s, summary.latency_p99_s))
    table.add_row(
        "objective violated", told(summary.slo_violation_pct, " %"), "mean instances", told(summary.mean_instances)
    )
    table.add_row("kept up", told(summary.qos_pct, " %"), "instance hours", told(summary.instance_seconds / 3600))
    table.add_row("latency p50 / p95 / p99", f"{latency} s", "changes of size", str(summary.rescales))
    table.add_row(
        "largest backlog",
        told(summary.max_backlog),
        "bounds",
        f"{objective.min_instances} to {objective.max_instances}",
    )
    return table


def _print_changes(result: SimulationResult, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from headgate.journal.story import Resize, note_in_words, tell

    changes = [item for item in tell(result.decisions, result.observations) if isinstance(item, Resize)]
    if not changes:
        console.print("\nThe size was never changed.")
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for change in changes[:SHOWN_CHANGES]:
        verdict = change.verdict
        style = "bold green" if verdict.change > 0 else "bold yellow"
        altered = [f"\n{note_in_words(note)}" for note in verdict.notes if note.before != note.after]
        table.add_row(
            Text(f"+{format_duration(change.at_s)}", style="dim"),
            Text(f"{verdict.current} → {verdict.target}", style=style),
            Text.assemble(verdict.reason, ("".join(altered), "magenta")),
        )
    console.print("\n[bold]Changes of size[/bold]")
    console.print(table)
    if len(changes) > SHOWN_CHANGES:
        more = len(changes) - SHOWN_CHANGES
        console.print(
            f"[dim]and {more} more: --journal FILE keeps them all, and headgate explain FILE tells them.[/dim]"
        )
