"""headgate mst"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.common import JsonOption, check_target, duration_s, make_console, write_json
from headgate.core.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from headgate.lab.mst import Measurement, MstPlan, MstResult


def mst(  # noqa: PLR0913 - one option per thing that a user may say about a measurement
    app: Annotated[str, typer.Argument(metavar="APP", help="The job to measure: steady-job.")],
    *,
    executors: Annotated[str, typer.Option(metavar="SIZES", help="Which sizes to measure, such as 1,2,4.")] = "1,2,4",
    validate: Annotated[
        str, typer.Option(metavar="SIZES", help="Further sizes, to choose between the two models.", show_default=False)
    ] = "",
    cost: Annotated[str, typer.Option(metavar="DURATION", help="How long one record keeps an executor busy.")] = "20ms",
    partitions: Annotated[int, typer.Option(metavar="N", help="Tasks per batch.")] = 12,
    batch: Annotated[str, typer.Option(metavar="DURATION", help="About how long a batch takes.")] = "2s",
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long one size may take to settle.")] = "2m",
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The model file; mst-APP.json if not given.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an HTML page with the curve.", show_default=False)
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Measure the throughput that a real Spark job sustains at most, by its number of executors.

    Starts a Spark cluster on this machine, fills the job's source before it starts, and watches the throughput of each
    size until it settles: four of the last five batches within 5% of the one before. Writes both fitted models with
    their uncertainty, and the measurements: mst-0 … mst-7 and quantile load them by model_file=FILE. Everything it
    started is gone afterwards, also after Ctrl-C.

    [bold]Examples[/bold]
      [cyan]headgate mst steady-job --executors 1,2,4 --save mst.json --plot mst.html[/cyan]
      [cyan]headgate mst steady-job --executors 1,2,4,6 --validate 3,5 --cost 10ms --json[/cyan]
    """
    from headgate.lab.mst import MstPlan, measure_mst

    plan = MstPlan(
        executors=_sizes("--executors", executors),
        validation=_sizes("--validate", validate),
        app=app,
        cost_s=duration_s("--cost", cost),
        partitions=partitions,
        batch_s=duration_s("--batch", batch),
        timeout_s=duration_s("--timeout", timeout),
    )
    file = Path(f"mst-{app}.json") if save is None else save
    for target in (file, plot, json_file):
        check_target(target)
    if plot is not None:
        from headgate.lab.report import require_plotly

        require_plotly()
    console = make_console(stderr=json_file == "-")
    with _view(console, plan) as view:
        result = measure_mst(plan, view)
    write_json(result.to_json(), str(file))
    if plot is not None:
        _write_plot(plot, result)
    if json_file is not None:
        write_json(result.to_json(), json_file)
    _print(result, file, plot, console)


def _sizes(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdigit() for part in parts):
        raise InputError(f"{option} {text!r} is not understood; write whole numbers with commas, such as 1,2,4.")
    return tuple(int(part) for part in parts)


class MstView:
    """What is measured, line by line; on a terminal it is redrawn."""

    def __init__(self, console: Console, plan: MstPlan) -> None:
        self._console = console
        self._plan = plan
        self._stage = ""
        self._rows: dict[int, tuple[Sequence[float], str]] = {}

    def stage(self, text: str) -> None:
        self._stage = text
        self._say(text)

    def reading(self, executors: int, readings: Sequence[float]) -> None:
        self._rows[executors] = (tuple(readings), "settling")

    def settled(self, measurement: Measurement) -> None:
        throughput = measurement.throughput_per_s
        told = "did not settle in time" if throughput is None else f"{throughput:.1f} records/s"
        self._rows[measurement.executors] = (measurement.readings, told)
        self._say(f"{measurement.executors} executors: {told} ({len(measurement.readings)} batches)")

    def _say(self, text: str) -> None:
        if not self._console.is_terminal:
            self._console.print(text)

    def __rich__(self) -> Table:
        from rich.table import Table

        from headgate.cli.sparklines import sparkline

        table = Table(title=f"headgate mst {self._plan.app}", caption=self._stage, box=None, padding=(0, 2, 0, 0))
        for heading in ("executors", "throughput by batch", "newest", ""):
            table.add_column(heading, no_wrap=True)
        for size in self._plan.sizes:
            readings, told = self._rows.get(size, ((), ""))
            newest = f"{readings[-1]:.1f}/s" if readings else ""
            table.add_row(str(size), sparkline(list(readings), 24), newest, told)
        return table


@contextmanager
def _view(console: Console, plan: MstPlan) -> Iterator[MstView]:
    view = MstView(console, plan)
    if not console.is_terminal:
        yield view
        return
    from rich.live import Live

    with Live(view, console=console, refresh_per_second=4, transient=True):
        yield view


def _write_plot(path: Path, result: MstResult) -> None:
    from headgate.lab.scenario import Outcome, Plot, Scenario
    from headgate.lab.scenario_report import write_scenario_report

    data, layout = result.figure()
    notes = [
        f"A batch is given about {result.plan.batch_s:g} s of work; a size has settled when four of its last five "
        "batches are within 5% of the one before, and these are the points of the plot.",
        f"Model 1 is 1 / (w0 + w1/m + w2·m + w3·m²), model 2 is w0 + w1·m − w2·m²; σ is "
        f"{result.selected.deviation:.2f} records/s for the chosen one.",
    ]
    outcome = Outcome(result.rows(), notes, [Plot("Maximum sustainable throughput", data, layout)])
    summary = "The throughput that a job sustains at most, by its number of executors."
    write_scenario_report(path, Scenario(f"mst {result.plan.app}", summary, lambda _: outcome), outcome)


def _print(result: MstResult, file: Path, plot: Path | None, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from headgate.lab.scenario_report import cell

    rows = result.rows()
    table = Table(*rows[0], box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(cell(value) for value in row.values()))
    console.print()
    console.print(table)
    chosen = result.selected
    console.print(f"\nmodel {int(chosen.kind)} is chosen, with a deviation of {chosen.deviation:.2f} records/s")
    console.print(Text(f"model: {file}" + ("" if plot is None else f"\nplot:  {plot}"), style="dim"), soft_wrap=True)
