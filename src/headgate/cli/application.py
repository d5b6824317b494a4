"""headgate app"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headgate.cli import options
from headgate.cli.common import (
    Outputs,
    argument,
    chosen_settings,
    duration_s,
    live_fixed_sizes,
    make_console,
    option,
    prepare_folder,
    print_table,
    say,
    write_json,
    write_live_report,
)
from headgate.cli.progress import message_when_stopped
from headgate.core.errors import InputError
from headgate.core.extras import require
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.types import JSON

if TYPE_CHECKING:
    from rich.console import Console

    from headgate.apps.running.plan import ApplicationRunPlan
    from headgate.apps.running.run import RunResult
    from headgate.render.verdict import FixedSizes
    from headgate.workloads.load import Load


SOURCES = ("kafka", "embedded")
FORMS = ("parquet", "json")


def run(  # noqa: PLR0913 - one parameter per option
    name: Annotated[str, argument("NAME", "The application; headgate app list names them.")],
    *,
    source: Annotated[str, option("kafka|embedded", "Where its records come from.")] = "kafka",
    workload: Annotated[str | None, option("WORKLOAD", "What arrives when, as for headgate load.")] = None,
    seconds: Annotated[
        str | None, option("DURATION", "How much of the workload; with --no-load, how long to run.")
    ] = None,
    speed: Annotated[str, option("X", "How fast the workload's time passes, 1 to 1000.")] = "1",
    keys: options.Keys = 1000,
    skew: Annotated[float, option("S", "Key k is as frequent as 1/k^S.", min=0)] = 0.0,
    seed: options.RecordsSeed = 0,
    no_load: Annotated[bool, typer.Option("--no-load", help="Others send the records to the topic.")] = False,
    objective: Annotated[str, option("TEXT", "The objective to meet.")] = "latency p95 < 10s",
    executors: Annotated[str, option("LO..HI", "The fewest and the most executors.")] = "1..4",
    policy: options.Policy = None,
    setting: options.Set = None,
    guard: options.Guard = None,
    settings: options.SettingsFile = None,
    folder: Annotated[Path | None, option("FOLDER", "Gets everything; one that holds a run goes on with it.")] = None,
    checkpoint: Annotated[Path | None, option("FOLDER", "Spark's checkpoint, if not in the folder.")] = None,
    results: Annotated[str, option("parquet|json", "How results are written.")] = "parquet",
    output_topic: Annotated[str | None, option("TOPIC", "Gets the results too.")] = None,
    topic: Annotated[str | None, option("TOPIC", "The topic to read; one of its own is made if not given.")] = None,
    bootstrap: Annotated[
        str | None, option("HOST:PORT", "A broker of your own; otherwise that of headgate kafka, started if needed.")
    ] = None,
    master: Annotated[str | None, option("URL", "A Spark cluster of your own; otherwise one for this run.")] = None,
    state_partitions: Annotated[
        str, option("LO..HI", "Over how many partitions state is spread; more when that pays.")
    ] = "2..8",
    trigger: Annotated[str, option("DURATION", "Time between batches, at least.")] = "1s",
    interval: Annotated[str, option("DURATION", "Time between decisions.")] = "2s",
    record_cost: Annotated[
        str,
        option(
            "DURATION",
            "Each record waits so long, as for a service elsewhere: then also executors that share a few cores add up.",
        ),
    ] = "0s",
    check: Annotated[
        bool, typer.Option("--check", help="Compare the results with a batch computation over the same records.")
    ] = False,
    json_file: options.Json = None,
) -> None:
    """Run an application under a load, scale it to its objective, and account for every record.

    Starts a Kafka broker and a Spark cluster on this machine where none is named. It ends with a report when the load
    is over and processed. A run that was stopped or killed continues when it is started again with its folder. The
    exit code is 1 if records were refused, or results differ from the batch computation.

    [bold]Examples[/bold]
      [cyan]headgate app run click-fraud --workload sine:mean=400,amplitude=300,period=2m --seconds 4m[/cyan]
      [cyan]headgate app run grep --source embedded --workload constant:500 --seconds 1m --executors 1..3 --check[/cyan]
      [cyan]headgate app run page-view --no-load --topic views --policy hpa --folder views-run[/cyan]
    """
    from headgate.render.page import report_packages

    from_kafka = () if source == "embedded" else ("confluent_kafka",)
    require("an application", "pyspark", *report_packages(), *from_kafka)
    from headgate.apps.registry import find_application
    from headgate.apps.running.folder import RunFolder
    from headgate.apps.running.plan import ApplicationRunPlan
    from headgate.core.objective import parse_objective

    application = find_application(name)
    decides, chosen, guards = chosen_settings(policy, settings, setting, guard)
    fewest, most = _bounds("--executors", executors)
    lasting_s = None if seconds is None else duration_s("--seconds", seconds)
    load = _load(no_load, workload, name, lasting_s, (speed, keys, skew, seed))
    place = folder or Path("headgate-runs") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    plan = ApplicationRunPlan(
        application=application,
        source=_one_of("--source", source, SOURCES),  # type: ignore[arg-type] # it is one of them
        folder=RunFolder.at(place, checkpoint),
        objective=parse_objective(objective).within(fewest, most),
        policy=decides or DEFAULT_POLICY,
        settings=chosen,
        guards=guards,
        load=load,
        seconds=lasting_s if no_load else None,
        bootstrap=bootstrap,
        topic=topic,
        output_topic=output_topic,
        form=_one_of("--results", results, FORMS),  # type: ignore[arg-type] # it is one of them
        master=master,
        state_partitions=_bounds("--state-partitions", state_partitions),
        trigger_interval_s=duration_s("--trigger", trigger),
        interval_s=duration_s("--interval", interval),
        record_cost_s=duration_s("--record-cost", record_cost),
        check=check,
    )
    prepare_folder("--folder", plan.folder.path)
    prepare_folder("--checkpoint", plan.folder.checkpoint)
    # Where JSON goes to standard output, the view must not.
    console = make_console(stderr=json_file == "-")
    result = _run(plan, console)
    with Outputs() as outputs:
        fixed = live_fixed_sizes(result.record, result.record.decisions)
        outputs.write(_write_report, result, fixed)
        outputs.write(write_json, result.to_json(), json_file)
        _print(result, fixed, plan.folder.report, console)
    if problems(result):
        raise typer.Exit(1)


# -------------------------------------------------------------------------------------------------------------- input


def _bounds(option: str, text: str) -> tuple[int, int]:
    fewest, dots, most = text.partition("..")
    if not (dots and fewest.isdigit() and most.isdigit()):
        raise InputError(f"{option} {text!r} is not understood; write the fewest and the most, as 1..4.")
    return int(fewest), int(most)


def _one_of(option: str, text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise InputError(f"{option} {text!r} is not known; {' and '.join(allowed)} are.")
    return text


def _load(
    no_load: bool, workload: str | None, name: str, seconds: float | None, records: tuple[str, int, float, int]
) -> Load | None:
    import headgate.apps.payloads  # noqa: F401 - which registers the payloads of all applications
    from headgate.workloads.load import Load, parse_speed

    if no_load:
        if workload is not None:
            raise InputError(f"--workload {workload!r} does not go with --no-load; leave one of them out.")
        return None
    if workload is None:
        raise InputError(
            "what arrives is not said; write --workload constant:100, or --no-load if others send records."
        )
    speed, keys, skew, seed = records
    return Load(workload, name, seconds, parse_speed(speed), keys, skew, seed)


# ------------------------------------------------------------------------------------------------------------- running


def _run(plan: ApplicationRunPlan, console: Console) -> RunResult:
    from headgate.apps.running.accounts import Totals
    from headgate.apps.running.run import RunView, run_application
    from headgate.cli.job_view import LiveJobView
    from headgate.cli.live_view import RunHeading, shown
    from headgate.core.errors import EngineError, QueryFailedError
    from headgate.core.types import Event
    from headgate.runtime.loop import Watcher
    from headgate.workloads.replay import ReplayProgress

    class _RunView(RunView):
        def __init__(self, live: LiveJobView) -> None:
            self._live = live

        def stage(self, text: str) -> None:
            self._live.stage(text)

        def records(self, totals: Totals, load: ReplayProgress | None) -> None:
            sent = "" if load is None else f"{load.sent:,} sent, "
            more = f"{sent}{totals.malformed:,} malformed, {totals.late:,} late, {totals.batches:,} batches"
            self._live.count("records", f"{totals.read:,} read", more)

        def event(self, event: Event) -> None:
            self._live.event(event)

        @property
        def watcher(self) -> Watcher:
            return self._live.tick

    lasting_s = plan.seconds if plan.load is None else plan.load.lasting_s
    heading = RunHeading(
        f"headgate app run {plan.application.name}",
        plan.policy,
        plan.objective,
        lasting_s,
        when_stopped=f"Ctrl-C stops; --folder {plan.folder.path} goes on",
    )
    message = f"what was read is saved, and the same command with --folder {plan.folder.path} continues the run"
    before = _own_broker(plan)
    try:
        with (
            message_when_stopped(message),
            shown(LiveJobView(console, heading)) as view,
            _logged(plan.folder.path / "headgate.log"),
        ):
            return run_application(plan, _RunView(view))
    except typer.Exit:
        if before is None and (started := _own_broker(plan)) is not None:
            say(_still_up(started), stderr=True)
        raise
    except QueryFailedError as error:
        raise EngineError(f"{str(error).rstrip('.')}; {message}.") from error


def _own_broker(plan: ApplicationRunPlan) -> str | None:
    """The address of the broker of ``headgate kafka`` that is up, where the run may use it."""
    if plan.source != "kafka" or plan.bootstrap is not None:
        return None
    from headgate.local import kafka

    found = kafka.status()
    return None if found is None or found.gone else found.state.bootstrap


def _still_up(bootstrap: str) -> str:
    return f"broker:  {bootstrap} is still up; headgate kafka down stops it"


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """What is logged goes into a file: it has no place in a live view."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("headgate")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


# ------------------------------------------------------------------------------------------------------------- output


def problems(result: RunResult) -> list[str]:
    """What should not be: records that were refused, or results that differ."""
    found = []
    if result.load is not None and (result.load.answers.failed or result.load.unanswered):
        answers = result.load.answers
        found.append(
            f"{answers.failed:,} records were not accepted by the broker, and of {result.load.unanswered:,} it is not "
            "known whether they were."
        )
    if result.differences is not None and not result.differences.is_exact:
        seen = result.differences
        late = f"; {result.totals.late:,} records were late, and do not count in a stream" if result.totals.late else ""
        found.append(
            f"The results differ from the batch computation: {seen.missing:,} missing, {seen.unexpected:,} unexpected, "
            f"{seen.doubled:,} doubled, {seen.wrong:,} wrong{late}."
        )
    return found


def sentences(result: RunResult) -> Iterator[str]:
    """What became of the records."""
    totals = result.totals
    there = "an unknown number" if result.available is None else f"{result.available:,}"
    yield (
        f"Records: {there} there, {totals.read:,} read in {totals.batches:,} batches, "
        f"{totals.malformed:,} malformed, {totals.late:,} late."
    )
    if totals.malformed:
        yield f"Malformed records are stored unchanged in {result.plan.folder.malformed}"
    if totals.unknown_late:
        yield f"Late records of {totals.unknown_late:,} batches are unknown: Spark was killed before it reported them."
    if result.differences is not None and result.differences.is_exact:
        yield (
            f"The {result.differences.expected:,} results are those of the batch computation over the same records: "
            "none missing, doubled or wrong."
        )
    yield from problems(result)


def _write_report(result: RunResult, fixed: FixedSizes) -> Path:
    plan = result.plan
    load = "others" if plan.load is None else f"{plan.load.offered.describe()} at speed {plan.load.speed:g}"
    where = "an embedded source" if result.topic is None else f"topic {result.topic}"
    return write_live_report(
        plan.folder.report,
        plan.application.name,
        result.record,
        plan.folder.journal,
        [f"{plan.application.summary}, from {where}, scaled by {plan.policy}. Load: {load}.", *sentences(result)],
        fixed,
    )


def _print(result: RunResult, fixed: FixedSizes, report: Path, console: Console) -> None:
    from headgate.cli.explain import print_run

    record, folder = result.record, result.plan.folder
    if record.observations:
        console.print()
    seconds = record.observations[-1].at_s - record.start_s if record.observations else 0.0
    print_run(record, seconds, console, fixed, str(folder.journal))
    console.print()
    for sentence in sentences(result):
        console.print(Text(sentence), soft_wrap=True)
    lines = [f"results: {folder.results}", f"report:  {report}", f"why:     headgate explain {folder.journal}"]
    if result.broker is not None and result.broker.is_ours:
        lines.append(_still_up(result.broker.bootstrap))
    console.print(Text("\n" + "\n".join(lines), style="dim"), soft_wrap=True)


application = typer.Typer(
    no_args_is_help=True, help="Streaming applications to be scaled, and records for them.", rich_markup_mode="rich"
)


application.command()(run)


@application.command("list")
def list_applications(json_file: options.Json = None) -> None:
    """List the applications: what each computes, where it is from, its data, and whether it keeps state.

    [bold]Examples[/bold]
      [cyan]headgate app list[/cyan]
      [cyan]headgate app list --json | jq '.\\[].name'[/cyan]
    """
    from headgate.apps.registry import APPLICATIONS

    if json_file is not None:
        write_json([application.to_json() for application in APPLICATIONS], json_file)
        return
    rows: list[dict[str, JSON]] = [
        {
            "application": application.name,
            "what it computes": application.summary,
            "from": application.document,
            "state": application.state,
            "records": application.data,
        }
        for application in APPLICATIONS
    ]
    print_table(rows, make_console())
