"""headgate mst"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import options
from headgate.cli.common import (
    Outputs,
    argument,
    check_target,
    duration_s,
    make_console,
    option,
    prepare_folder,
    print_table,
    say,
    write_json,
)
from headgate.cli.progress import message_when_stopped
from headgate.core.errors import InputError
from headgate.core.extras import require
from headgate.core.types import JSON

if TYPE_CHECKING:
    from rich.console import Console

    from headgate.lab.mst import MstPlan, MstResult
    from headgate.lab.own_job import OwnJob


def mst(  # noqa: PLR0913 - one option per thing that a user may say about a measurement
    app: Annotated[
        str | None,
        argument("APP", "The job to measure: steady-job, one of headgate app list, or FILE.py:FUNCTION of your own."),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Measure every application, one after the other.")] = False,
    executors: Annotated[str, option("SIZES", "Which sizes to measure, such as 1,2,4.")] = "1,2,4",
    validate: Annotated[
        str, option("SIZES", "Further sizes, to choose between the two models.", show_default=False)
    ] = "",
    cost: Annotated[str, option("DURATION", "How long a record of steady-job takes.")] = "20ms",
    partitions: Annotated[int, option("N", "Tasks per batch.")] = 12,
    batch: Annotated[str, option("DURATION", "About how long a batch takes.")] = "2s",
    timeout: Annotated[str, option("DURATION", "How long one size may take to settle.")] = "2m",
    save: Annotated[
        Path | None,
        option("PATH", "The model file, mst-APP.json if not given; with --all their folder, mst if not given."),
    ] = None,
    plot: Annotated[Path | None, option("FILE", "Write an HTML page with the curves.")] = None,
    json_file: options.Json = None,
) -> None:
    """Measure the throughput that a real Spark job sustains at most, by its number of executors.

    Starts a Spark cluster on this machine, gives the job more records than it can do, and watches the throughput of
    each size until it settles: four of the last five batches within 5% of the one before. Writes both fitted models
    with their uncertainty, and the measurements: mst-0 … mst-7 and quantile load them by model_file=FILE. With --all a
    job that cannot be measured is reported and the others are still measured; the exit code is 1 then. The same command
    continues after Ctrl-C: results in its folder with the same options are not measured again. Everything it started
    is gone afterwards, also after Ctrl-C.

    [bold]Examples[/bold]
      [cyan]headgate mst steady-job --executors 1,2,4 --save mst.json --plot mst.html[/cyan]
      [cyan]headgate mst steady-job --executors 1,2,4,6 --validate 3,5 --cost 10ms --json[/cyan]
      [cyan]headgate mst nexmark-5 --executors 1,2[/cyan]
      [cyan]headgate mst my_job.py:build --executors 1,2,4[/cyan]
      [cyan]headgate mst --all --executors 1,2,4 --save models --plot mst.html[/cyan]
    """
    from headgate.render.page import report_packages

    require("a measurement", "pyspark", *(() if plot is None else report_packages()))
    from headgate.lab.mst import MstPlan

    plans = [
        MstPlan(
            executors=_sizes("--executors", executors),
            validation=_sizes("--validate", validate),
            app=name if own is None else own.name,
            own=own,
            cost_s=duration_s("--cost", cost),
            partitions=partitions,
            batch_s=duration_s("--batch", batch),
            timeout_s=duration_s("--timeout", timeout),
        )
        for name, own in _chosen(app, every)
    ]
    files = _files(plans, save, every=every)
    for target in (*files, plot, json_file):
        check_target(target)
    console = make_console(stderr=json_file == "-")
    with Outputs() as outputs:
        measured = _measured_before(plans, files, console) if every else {}
        results, failed = _measure(plans, files, measured, console, outputs)
        if plot is not None and results:
            outputs.write(_write_plot, plot, results)
        if json_file is not None:
            found = [result.to_json() for result in results]
            outputs.write(write_json, found if every else found[0], json_file)
        _print(results, console)
    for path in (*(file for file in files if file.exists()), *([plot] if plot is not None and results else [])):
        say(f"written: {path}", stderr=json_file == "-")
    for sentence in failed:
        say(sentence, stderr=True)
    if failed:
        raise typer.Exit(1)


def _chosen(app: str | None, every: bool) -> list[tuple[str, OwnJob | None]]:
    from headgate.lab.mst import measurable
    from headgate.lab.own_job import find_own_job

    if every == (app is not None):
        raise InputError("either one APP or --all is needed; write for example headgate mst steady-job.")
    return [(app, find_own_job(app))] if app is not None else [(name, None) for name in measurable()]


def _files(plans: Sequence[MstPlan], save: Path | None, *, every: bool) -> list[Path]:
    if not every:
        return [save or Path(f"mst-{plans[0].app}.json")]
    folder = save or Path("mst")
    prepare_folder("--save", folder)
    return [folder / f"{plan.app}.json" for plan in plans]


def _measured_before(plans: Sequence[MstPlan], files: Sequence[Path], console: Console) -> dict[str, MstResult]:
    """What an earlier run has measured, by application."""
    from headgate.lab.mst import cached_result

    measured: dict[str, MstResult] = {}
    for plan, file in zip(plans, files, strict=True):
        if (found := cached_result(plan, file)) is not None:
            measured[plan.app] = found
        elif file.exists():
            console.print(f"{plan.app} was measured with other options, and is measured again")
    if measured:
        console.print(f"{len(measured)} of {len(plans)} are measured already: {', '.join(measured)}")
    return measured


def _measure(
    plans: Sequence[MstPlan], files: Sequence[Path], measured: dict[str, MstResult], console: Console, outputs: Outputs
) -> tuple[list[MstResult], list[str]]:
    """The results, each written as soon as it is there, and why others were not measured."""
    from headgate.cli.live_view import shown
    from headgate.cli.mst_view import MstView
    from headgate.core.errors import HeadgateError
    from headgate.lab.mst_measuring import measure_all

    missing = [(plan, file) for plan, file in zip(plans, files, strict=True) if plan.app not in measured]
    by_app = dict(measured)
    failed: list[str] = []
    if missing:
        pending = [plan for plan, _ in missing]
        written = [str(file) for plan, file in zip(plans, files, strict=True) if plan.app in measured]
        stop_message = partial(_stop_message, written, several=len(plans) > 1)
        with message_when_stopped(stop_message), shown(MstView(console, pending)) as view:
            for (plan, file), found in zip(missing, measure_all(pending, view.begin), strict=True):
                if isinstance(found, HeadgateError):
                    if len(plans) == 1:
                        raise found
                    failed.append(f"{plan.app} was not measured: {found}")
                    continue
                if outputs.write(write_json, found.to_json(), str(file)):
                    written.append(str(file))
                by_app[plan.app] = found
    return [by_app[plan.app] for plan in plans if plan.app in by_app], failed


def _stop_message(measured: Sequence[str], *, several: bool) -> str:
    text = f"saved: {', '.join(measured)}" if measured else "nothing is saved"
    return f"{text}; the same command continues with the others" if measured and several else text


def _sizes(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdigit() for part in parts):
        raise InputError(f"{option} {text!r} is not understood; write whole numbers with commas, such as 1,2,4.")
    return tuple(int(part) for part in parts)


def _write_plot(path: Path, results: Sequence[MstResult]) -> None:
    from headgate.lab.mst import PLOT_KEY
    from headgate.lab.scenario import ScenarioOutcome, write_scenario_report
    from headgate.render.page import Plot

    plan = results[0].plan
    notes = [
        f"A batch is given about {plan.batch_s:g} s of work; a size has settled when four of its last five batches are "
        "within 5% of the one before, and these are the points of the plots; of one that has not, they are the middle "
        "half of the newer half of its batches.",
        "Model 1 is 1 / (w0 + w1/m + w2·m + w3·m²), model 2 is w0 + w1·m − w2·m²; the band is two deviations of the "
        "chosen one.",
    ]
    plots = [
        Plot(f"{result.plan.app}: maximum sustainable throughput", *result.figure(), PLOT_KEY) for result in results
    ]
    outcome = ScenarioOutcome(
        [row for result in results for row in _rows(result, with_app=len(results) > 1)], notes, plots
    )
    summary = "The throughput that a job sustains at most, by its number of executors."
    name = f"mst {plan.app}" if len(results) == 1 else "mst --all"
    write_scenario_report(path, name, summary, outcome)


def _rows(result: MstResult, *, with_app: bool) -> list[dict[str, JSON]]:
    app: dict[str, JSON] = {"app": result.plan.app} if with_app else {}
    return [app | row for row in result.rows()]


def _print(results: Sequence[MstResult], console: Console) -> None:
    rows = [row for result in results for row in _rows(result, with_app=len(results) > 1)]
    if not rows:
        return
    console.print()
    print_table(rows, console)
    for result in results:
        chosen = result.selected
        sentence = (
            f"model {int(chosen.kind)} is chosen, with a deviation of {chosen.deviation:,.2f} records/s; "
            f"{result.next_size_text()}"
        )
        console.print(f"\n{result.plan.app}: {sentence}" if len(results) > 1 else f"\n{sentence}")
