"""headgate flink"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import options
from headgate.cli.cluster import print_status, print_stopped
from headgate.cli.common import answer, argument, duration_s, make_console, option, prepare_folder, say, write_json
from headgate.cli.kafka import BootstrapOption, own_broker
from headgate.cli.progress import message_when_stopped
from headgate.core.errors import InputError
from headgate.core.types import JSON

if TYPE_CHECKING:
    from headgate.apps.comparison import ResultDifferences
    from headgate.apps.flink.sources import FlinkSource
    from headgate.local.flink import FlinkState


SOURCES = ("kafka", "built-in")
RECORDS, RESULTS = "records.json", "results"


def run(  # noqa: PLR0913 - one parameter per option
    name: Annotated[str, argument("NAME", "click-fraud, nexmark-1, nexmark-3, nexmark-5 or slow-middle.")],
    *,
    source: Annotated[str, option("kafka|built-in", "Where its records come from.")] = "kafka",
    topic: Annotated[str | None, option("TOPIC", "The topic to read, from its beginning.")] = None,
    bootstrap: BootstrapOption = None,
    workload: Annotated[
        str | None, option("WORKLOAD", "Built in: which records, as for headgate load.", show_default="constant:1000")
    ] = None,
    seconds: Annotated[str | None, option("DURATION", "Built in: how much of the workload.", show_default="1m")] = None,
    keys: Annotated[int, option("N", "Built in: how many different keys.", min=1)] = 1000,
    seed: Annotated[int, option("K", "Built in: makes the records repeatable.", min=0)] = 0,
    folder: Annotated[Path | None, option("FOLDER", "Gets the results; without one they are let go, on Kafka.")] = None,
    job: Annotated[str | None, option("NAME", "What the job is called.", show_default="as the application")] = None,
    parallelism: Annotated[int, option("N", "How many instances each step begins with.")] = 1,
    cost: Annotated[str, option("DURATION", "What a record takes in the middle of slow-middle.")] = "1ms",
    savepoint: Annotated[
        str | None, option("URL", "Go on where a job of this application was stopped, as Flink says.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Read what there is now, wait for the end, and compare the results with a batch of Spark."
        ),
    ] = False,
    url: Annotated[str | None, option("URL", "A Flink cluster of your own instead of the one that is up here.")] = None,
    json_file: options.Json = None,
) -> None:
    """Run an application in Flink SQL.

    It runs until it is cancelled, on the web page of the cluster or by its id; with
    --check until it has worked off what there is. Records that are built in are written to the folder
    first, and Flink reads them as fast as it can. The exit code is 1 if the results are not what a batch computes.

    [bold]Examples[/bold]
      [cyan]headgate flink run nexmark-5 --source built-in --folder five --check[/cyan]
      [cyan]headgate flink run click-fraud --topic clicks --parallelism 2[/cyan]
      [cyan]headgate flink run slow-middle --topic numbers --cost 5ms --job middle[/cyan]
    """
    from headgate.apps.flink.programs import PROGRAMS, SubmittedJob
    from headgate.apps.flink.submission import submit
    from headgate.core.errors import UnknownNameError

    if name not in PROGRAMS:
        raise UnknownNameError("Flink application", name, PROGRAMS)
    address = (url or own_cluster()).rstrip("/")
    cost_ms = 1000 * duration_s("--cost", cost)
    results = _results(folder, check)
    if source == "kafka":
        _refuse_given(workload, seconds)
        records = _topic(topic, bootstrap, parallelism, check)
    elif source == "built-in":
        load = (workload or "constant:1000", duration_s("--seconds", seconds or "1m"), keys, seed)
        records = _file(name, load, folder, check)
    else:
        raise InputError(f"--source {source!r} is not known; {' and '.join(SOURCES)} are.")
    wanted = SubmittedJob(name, records, job or name, results, parallelism, cost_ms=cost_ms, savepoint=savepoint)
    console = make_console(stderr=True)
    message = f"a {wanted.name} that Flink had taken already runs at {address}, where it can be cancelled"
    with message_when_stopped(message), console.status(f"handing {wanted.name} to {address}"):
        job_id = submit(wanted, address)
    about: dict[str, JSON] = {"job": job_id, "name": wanted.name, "url": address}
    if not check:
        answer(about, f"{wanted.name} runs at {address} as {job_id}", json_file)
        return
    assert results is not None
    message = f"{wanted.name} goes on at {address} as {job_id}, and its results are in {results}"
    with message_when_stopped(message), console.status("waiting for its end, and comparing"):
        found = _checked(name, records, results, address, job_id)
    sentence = (
        f"{found.expected} results, all as a batch computes them"
        if found.is_exact
        else f"of {found.expected} results {found.missing} are missing and {found.wrong} wrong; {found.unexpected} are "
        f"not expected, {found.doubled} doubled"
    )
    answer({**about, "is_exact": found.is_exact, **vars(found)}, sentence, json_file)
    if not found.is_exact:
        raise typer.Exit(1)


def own_cluster() -> str:
    """The address of the cluster that is up here."""
    from headgate.local import flink as local

    found = local.status()
    if found is None or found.gone:
        raise InputError("no Flink cluster is up; start one with: headgate flink up, or name yours with --url.")
    return found.state.url


# -------------------------------------------------------------------------------------------------------------- input


def _refuse_given(workload: str | None, seconds: str | None) -> None:
    for name, value in (("--workload", workload), ("--seconds", seconds)):
        if value is not None:
            raise InputError(
                f"{name} {value!r} does not go with --source kafka; send records with headgate load, or take "
                "--source built-in."
            )


def _topic(topic: str | None, bootstrap: str | None, parallelism: int, check: bool) -> FlinkSource:
    from headgate.apps.flink.sources import TopicRecords
    from headgate.local.topics import require_topic, topics

    if topic is None:
        raise InputError("which topic is to be read is not said; write --topic NAME, or take --source built-in.")
    broker = bootstrap or own_broker()
    require_topic(broker, topic)
    if parallelism > (partitions := topics(broker)[topic]):
        # Instances without a partition would hold up event time, and no window would ever close.
        raise InputError(f"topic {topic!r} has {partitions} partitions; --parallelism {parallelism} is more than that.")
    return TopicRecords(broker, topic, is_bounded=check)


def _file(name: str, load: tuple[str, float, int, int], folder: Path | None, check: bool) -> FlinkSource:
    import headgate.apps.payloads  # noqa: F401 - which registers the payloads of all applications
    from headgate.apps.flink.programs import SLOW_MIDDLE
    from headgate.apps.flink.sources import FileRecords, write_records
    from headgate.workloads.load import Load
    from headgate.workloads.payloads import DEFAULT

    if folder is None:
        raise InputError("where records that are built in are to lie is not said; write --folder FOLDER.")
    workload, lasting_s, keys, seed = load
    prepare_folder("--folder", folder)
    records = folder / RECORDS
    wanted = Load(workload, DEFAULT if name == SLOW_MIDDLE else name, lasting_s, keys=keys, seed=seed)
    write_records(wanted, records, round(time.time() * 1000))
    return FileRecords(records, is_bounded=check)


def _results(folder: Path | None, check: bool) -> Path | None:
    if folder is None:
        if check:
            raise InputError("--check compares what was written; write --folder FOLDER.")
        return None
    results = folder / RESULTS
    if results.exists() and any(results.iterdir()):
        raise InputError(f"{results} holds results of another run; name another folder, or delete it.")
    prepare_folder("--folder", results)
    return results


# ------------------------------------------------------------------------------------------------------------ checking


def _checked(name: str, source: FlinkSource, results: Path, url: str, job_id: str) -> ResultDifferences:
    from headgate.apps.flink.programs import check_results
    from headgate.apps.flink.sources import FileRecords, TopicRecords
    from headgate.local.flink_rest import await_end
    from headgate.local.records import topic_values
    from headgate.local.spark.cluster import plain_session

    await_end(url, job_id)
    with TemporaryDirectory(prefix="headgate-check-") as folder:
        records = Path(folder, RECORDS)
        if isinstance(source, FileRecords):
            records = source.path
        elif isinstance(source, TopicRecords):
            with records.open("wb") as file:
                file.writelines(b"%b\n" % value for value in topic_values(source.bootstrap, source.topic))
        settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
        spark = plain_session("local[1]", "check", settings, Path(folder, "driver.log"))
        try:
            return check_results(spark, name, records, results)
        finally:
            spark.stop()


flink = typer.Typer(
    no_args_is_help=True,
    help="A real Flink cluster on this machine, to try things on, and applications for it.",
    rich_markup_mode="rich",
)
flink.command()(run)

DEFAULT_TASKMANAGERS = 1
DEFAULT_SLOTS = 2


@flink.command()
def up(
    taskmanagers: Annotated[int, option("N", "How many TaskManagers it begins with.")] = DEFAULT_TASKMANAGERS,
    slots: Annotated[int, option("N", "How many slots a TaskManager has.")] = DEFAULT_SLOTS,
    json_file: options.Json = None,
) -> None:
    """Start a cluster that goes on until [bold]headgate flink down[/bold].

    All its servers listen on this machine only. JobManager and coordinator take about 300 MB together, a TaskManager
    200 MB and 100 MB for each slot. One that ends is started again, and jobs go on from their last checkpoint, which
    stay as long as the cluster is up.
    """
    from headgate.local import flink as local

    with make_console(stderr=True).status("starting a Flink JobManager and TaskManagers"):
        state = local.up(taskmanagers, slots)
    if json_file is None:
        say(_status_text(state))
    else:
        write_json({"up": True, **_as_json(state)}, json_file)


@flink.command()
def status(json_file: options.Json = None) -> None:
    """Say whether a cluster is up, where, and with how many TaskManagers.

    The exit code is 1 if one should be up and is gone.
    """
    from headgate.local import flink as local

    none_is_up = "no Flink cluster is up; start one with: headgate flink up"
    print_status(local.status(), json_file, none_is_up, _status_text, _as_json)


@flink.command()
def down(json_file: options.Json = None) -> None:
    """Stop the cluster with all its jobs and their checkpoints; fine when none is up."""
    from headgate.local import flink as local

    print_stopped(local.down(), json_file, "Flink cluster")


@flink.command()
def provide(
    most: Annotated[int, option("N", "At most so many TaskManagers run.", min=1)] = 8,
    port: Annotated[int, option("PORT", "The port on this machine; a free one where not given.", min=0, max=65535)] = 0,
    url: Annotated[
        str | None, option("URL", "Which cluster of this machine.", show_default="the one that is up")
    ] = None,
) -> None:
    """Start and stop TaskManagers on request: the reference server for [bold]--provider URL[/bold].

    GET, POST and DELETE /taskmanager, until Ctrl-C. It listens on this machine only and asks for no token; servers of
    your own, in front of Docker or a cloud, offer the same three requests.

    [bold]Example[/bold]
      [cyan]headgate flink provide --most 4 --port 8090[/cyan]
    """
    from headgate.cli.progress import stopped_by_signals
    from headgate.local.flink import FlinkCluster
    from headgate.local.taskmanager_server import LocalPool, TaskManagerRequests, TaskManagerServer

    cluster = FlinkCluster.at(url or own_cluster())
    with (
        stopped_by_signals() as stop,
        closing(TaskManagerServer(TaskManagerRequests(LocalPool(cluster), most), port)) as server,
    ):
        say(f"starts and stops TaskManagers of {cluster.url} at {server.url}/taskmanager")
        stop.wait()


def _status_text(state: FlinkState) -> str:
    from headgate.local.flink import FlinkCluster

    found = FlinkCluster(state.url, state.directory).taskmanagers()
    slots, free = sum(taskmanager.slots for taskmanager in found), sum(taskmanager.free_slots for taskmanager in found)
    return f"up at {state.url}, {len(found)} TaskManager{'' if len(found) == 1 else 's'}, {free} of {slots} slots free"


def _as_json(state: FlinkState) -> dict[str, JSON]:
    from headgate.local.flink import FlinkCluster

    servers: list[JSON] = [
        {"id": taskmanager.id, "slots": taskmanager.slots, "free_slots": taskmanager.free_slots}
        for taskmanager in FlinkCluster(state.url, state.directory).taskmanagers()
    ]
    return {"url": state.url, "warden_pid": state.warden_pid, "taskmanagers": servers}
