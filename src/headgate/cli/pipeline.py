"""headgate pipeline"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import options
from headgate.cli.common import (
    STANDARD_OUTPUT,
    Outputs,
    argument,
    duration_s,
    make_console,
    option,
    prepare_folder,
    refused_document,
    say,
    write_json,
)
from headgate.core.errors import EngineError, InputError
from headgate.core.extras import require

if TYPE_CHECKING:
    from headgate.pipelines.model import Pipeline

pipeline = typer.Typer(
    no_args_is_help=True, help="Several jobs joined by topics, scaled together.", rich_markup_mode="rich"
)

FileArgument = Annotated[Path, argument("FILE", "A pipeline file, YAML.")]


@pipeline.command()
def check(file: FileArgument, json_file: options.Json = None) -> None:
    """Say whether a pipeline file is valid, and everything that is wrong with it. Nothing is started.

    Every error has its line and column; the exit code is 2 if there is one.

    [bold]Example[/bold]
      [cyan]headgate pipeline check examples/pipeline-chain.yaml[/cyan]
    """
    from headgate.documents import DocumentError

    try:
        found = _read(file)
    except DocumentError as error:
        if json_file is None:
            raise
        write_json(refused_document(file, error), json_file)
        raise typer.Exit(2) from error
    if json_file is not None:
        write_json({"file": str(file), "valid": True, "errors": [], "jobs": _described(found)}, json_file)
        return
    for sentence in _sentences(found):
        say(sentence)


@pipeline.command()
def schema(json_file: options.Json = None) -> None:
    """Print the JSON schema of pipeline files, for editors that complete and check by it.

    [bold]Example[/bold]
      [cyan]headgate pipeline schema --json pipeline.schema.json[/cyan]
    """
    from headgate.pipelines.document import json_schema

    write_json(json_schema(), json_file or STANDARD_OUTPUT)


@pipeline.command()
def run(
    file: FileArgument,
    *,
    policy: Annotated[str | None, option("NAME", "Who decides, instead of what the file says.")] = None,
    seconds: Annotated[
        str | None, option("DURATION", "How long the load lasts, instead of what the file says.")
    ] = None,
    master: Annotated[
        str | None, option("URL", "A Spark cluster of your own; one on this machine where not given.")
    ] = None,
    bootstrap: Annotated[
        str | None, option("HOST:PORT", "A broker of your own; one on this machine where not given.")
    ] = None,
    checkpoints: Annotated[
        str | None,
        option("FOLDER", "Where queries note how far they are, for a later run to go on; all workers must reach it."),
    ] = None,
    output: Annotated[Path, option("FOLDER", "Gets report.html, journal.db and logs.")] = Path("headgate-pipeline"),
    json_file: options.Json = None,
) -> None:
    """Run a pipeline: several Spark applications joined by topics, each scaled as the objective end to end needs.

    Starts a Spark cluster and a Kafka broker on this machine unless others are named, a driver for each job, and the
    load. Jobs that die are started again. At the end it says how long records took from end to end, and writes one
    report for all jobs. Everything it started is gone afterwards, also after Ctrl-C.

    [bold]Examples[/bold]
      [cyan]headgate pipeline run examples/pipeline-chain.yaml[/cyan]
      [cyan]headgate pipeline run examples/pipeline-fork.yaml --policy mdp-path --seconds 2m --json run.json[/cyan]
    """
    _require_installed()
    from headgate.cli.live_view import shown
    from headgate.cli.operators_view import PipelineView, print_result
    from headgate.cli.progress import message_when_stopped, stopped_by_signals
    from headgate.pipelines.report import write_pipeline_report
    from headgate.pipelines.run import PipelineRunPlan, run_pipeline
    from headgate.runtime.interrupts import INTERRUPTED

    found = _changed(_read(file), policy, None if seconds is None else duration_s("--seconds", seconds))
    _require_servers(master, bootstrap)
    prepare_folder("--output", output)
    plan = PipelineRunPlan(found, _applications(), output, master, bootstrap, checkpoints)
    console = make_console(stderr=json_file == "-")
    message = f"no load had been sent yet, and what jobs said is in {output / 'logs'}"
    with message_when_stopped(message), stopped_by_signals() as stop, shown(PipelineView(console, found)) as view:
        outcome = run_pipeline(plan, view, stop)
    with Outputs() as outputs:
        result = write_pipeline_report(plan, outcome, outputs.failed)
        outputs.write(write_json, result.to_json(), json_file)
        print_result(result, console)
    if stop.is_set() and found.load is not None:
        raise typer.Exit(INTERRUPTED)


def _applications() -> tuple[str, ...]:
    from headgate.apps.registry import APPLICATIONS

    # One that learns writes its results itself, and not into a topic.
    return tuple(application.name for application in APPLICATIONS if application.learn is None)


def _read(file: Path) -> Pipeline:
    import headgate.apps.payloads  # noqa: F401 - which registers the payloads of all applications
    from headgate.pipelines.document import read_pipeline

    return read_pipeline(file, _applications())


def _described(found: Pipeline) -> list[dict[str, Any]]:
    return [
        {
            "name": job.name,
            "from": list(job.reads),
            "to": job.writes,
            "executors": [job.min_executors, job.max_executors],
            "objective": str(found.objective.slo_of(job.name)) if job.name in found.objective.operators else None,
        }
        for job in found.jobs
    ]


def _sentences(found: Pipeline) -> list[str]:
    topology, objective = found.topology, found.objective
    sentences = [
        f"{found.file} is valid: {len(found.jobs)} jobs, {found.end_to_end.slo} from end to end, by {found.policy}."
    ]
    for job in found.jobs:
        after = ", ".join(topology.upstream(job.name)) or "the load"
        own = f", {objective.operators[job.name]}" if job.name in objective.operators else ""
        sentences.append(
            f"{job.name}: {', '.join(job.reads)} -> {job.writes}, after {after}, "
            f"{job.min_executors} to {job.max_executors} executors{own}"
        )
    return sentences


def _changed(found: Pipeline, policy: str | None, seconds: float | None) -> Pipeline:
    """What the command line says instead of the file."""
    if policy is not None:
        found = found.with_policy(policy)
        found.make_policy()
    if seconds is None:
        return found
    if found.load is None:
        raise InputError(f"--seconds {seconds:g} is not possible: {found.file} has no load.")
    load = replace(found.load, seconds=seconds)
    if load.schedule.total < 1:
        raise InputError(f"--seconds {seconds:g} is not possible: no record comes in that time.")
    return replace(found, load=load)


def _require_servers(master: str | None, bootstrap: str | None) -> None:
    """Refuse a cluster that cannot be scaled, and a broker that does not answer."""
    from headgate.local.topics import check_broker

    if master is not None and not master.startswith(("spark://", "k8s://", "yarn")):
        raise InputError(f"--master {master!r} is not usable; a cluster is needed, such as spark://HOST:PORT.")
    if bootstrap is not None:
        try:
            check_broker(bootstrap)
        except EngineError as error:  # Before anything was started, a broker that is not there is a wrong address.
            raise InputError(str(error)) from error


def _require_installed() -> None:
    """Refuse, before anything is started, to run without what a pipeline needs."""
    from headgate.render.page import report_packages

    servers = ("fastapi", "uvicorn", "httpx", "confluent_kafka", "pyspark")
    require("a pipeline", *servers, *report_packages())
