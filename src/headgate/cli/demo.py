"""headgate demo"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from headgate.cli import options
from headgate.cli.common import (
    Outputs,
    duration_s,
    key_values,
    make_console,
    option,
    prepare_folder,
    write_json,
    write_live_report,
)
from headgate.cli.progress import message_when_stopped
from headgate.core.extras import require
from headgate.core.plugins import DEFAULT_POLICY

if TYPE_CHECKING:
    from rich.console import Console

    from headgate.lab.demo import DemoResult
    from headgate.render.verdict import FixedSizes


def demo(
    *,
    seconds: Annotated[str, option("DURATION", "How long the load lasts; at least 40s.")] = "240s",
    policy: Annotated[str, option("NAME", "Who decides; headgate policies lists them.")] = DEFAULT_POLICY,
    setting: options.Set = None,
    output: Annotated[Path, option("FOLDER", "Gets report.html and journal.db.")] = Path("headgate-demo"),
    json_file: options.Json = None,
) -> None:
    """Watch a real Spark job being scaled as its load rises and falls.

    Starts a Spark cluster on this machine with real executor processes, runs a Structured Streaming job on it whose
    load rises and falls, and keeps it at the right size. At the end it counts the job's output, compares with fixed
    sizes, and writes a report with plots. Everything it started is gone afterwards, also after Ctrl-C.

    [bold]Examples[/bold]
      [cyan]headgate demo[/cyan]
      [cyan]headgate demo --seconds 90s --policy hpa --json demo.json[/cyan]
    """
    from headgate.render.page import report_packages

    require("a demo", "pyspark", *report_packages())
    from headgate.lab.demo import DemoPlan, run_demo

    plan = DemoPlan(
        directory=output,
        seconds=duration_s("--seconds", seconds),
        policy=policy,
        settings=key_values("--set", setting or []),
    )
    prepare_folder("--output", output)
    from headgate.cli.job_view import LiveJobView
    from headgate.cli.live_view import RunHeading, shown

    # Where JSON goes to standard output, the view must not.
    console = make_console(stderr=json_file == "-")
    heading = RunHeading("headgate demo", plan.policy, plan.goal, plan.seconds)
    with message_when_stopped(f"what was done is in {plan.journal}"), shown(LiveJobView(console, heading)) as view:
        result = run_demo(plan, stage=view.stage, watcher=view.tick)
    with Outputs() as outputs:
        outputs.write(_write_report, result)
        outputs.write(write_json, result.to_json(), json_file)
        _print(result, plan.report, console)


def _write_report(result: DemoResult) -> Path:
    return write_live_report(
        result.plan.report,
        "headgate-demo",
        result.record,
        result.journal,
        [f"A real Spark job on this machine, scaled by {result.plan.policy}.", *_notes(result)],
        _fixed(result),
    )


def _fixed(result: DemoResult) -> FixedSizes:
    from headgate.render.verdict import FixedSizes

    return FixedSizes(result.comparison, "simulated under the offered load, with the measured batch times")


def _notes(result: DemoResult) -> list[str]:
    plan, output = result.plan, result.output
    notes = [
        f"Load: {plan.workload}. A record keeps an executor busy for {1000 * plan.cost_s:g} ms by sleeping, so that "
        "several executors can share a few cores.",
        f"Output: {output['records']} records, {output['missing']} missing, {output['doubled']} doubled.",
    ]
    if result.times is not None:
        times = result.times
        notes.append(
            "Fixed sizes are simulated under the load that was offered, with the service measured in this run: "
            f"{times.overhead_s:.2f} s per batch and {times.rate_per_s:.1f} records/s per executor "
            f"({times.batches} batches)."
        )
    return notes


def _print(result: DemoResult, report: Path, console: Console) -> None:
    from headgate.cli.explain import comparison_table, print_run

    record = result.record
    console.print()
    print_run(record, result.plan.seconds, console, _fixed(result), str(result.journal))
    if result.comparison:
        console.print()
        rows = {f"{result.plan.policy} (measured)": record.summary()}
        rows |= {f"{size} fixed (simulated)": summary for size, summary in result.comparison.items()}
        console.print(comparison_table(rows))
    for note in _notes(result)[1:]:
        console.print(Text(f"\n{note}"))
    console.print(Text(f"\nreport:  {report}\nwhy:     headgate explain {result.journal}", style="dim"), soft_wrap=True)
