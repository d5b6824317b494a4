"""headgate kafka"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headgate.cli import options
from headgate.cli.cluster import print_stopped
from headgate.cli.common import answer, argument, counted, make_console, option, say, write_json
from headgate.core.errors import EngineError, InputError
from headgate.core.extras import require

kafka = typer.Typer(
    no_args_is_help=True,
    help="A real Kafka broker on this machine, to try things on, and Spark's connector to it.",
    rich_markup_mode="rich",
)

BootstrapOption = Annotated[str | None, option("HOST:PORT", "A broker of your own instead of the one that is up here.")]


@kafka.command()
def up(
    port: Annotated[
        int | None, option("N", "Where it listens; otherwise a free port is taken.", min=1, max=65535)
    ] = None,
    json_file: options.Json = None,
) -> None:
    """Start a broker that goes on until [bold]headgate kafka down[/bold].

    It listens on this machine only, and takes about 360 MB. The first time, 44 MB are fetched. What is in its topics
    goes away with it.
    """
    require("a broker", "confluent_kafka", "psutil")
    from headgate.local import kafka as local

    local.fetch_broker()  # Its progress line and the one below would write over each other.
    with make_console(stderr=True).status("starting a Kafka broker"):
        state = local.up(port)
    about = {"up": True, "bootstrap": state.bootstrap, "warden_pid": state.warden_pid}
    answer(about, f"up at {state.bootstrap}", json_file)


@kafka.command()
def status(bootstrap: BootstrapOption = None, json_file: options.Json = None) -> None:
    """Say whether a broker is up, which release it is, and what topics it has.

    The exit code is 1 if it should be up and does not answer.

    [bold]Examples[/bold]
      [cyan]headgate kafka status[/cyan]
      [cyan]headgate kafka status --bootstrap 127.0.0.1:9092[/cyan]
    """
    found = _ask(bootstrap)
    is_up = f"up at {found['bootstrap']}, Kafka {found['release']}, {_listed(found)}" if found["up"] else ""
    answer(found, is_up or found["reason"], json_file)
    if not found["up"] and found["bootstrap"] is not None:
        raise typer.Exit(1)


@kafka.command()
def down(json_file: options.Json = None) -> None:
    """Stop the broker and forget what is in its topics; fine when none is up."""
    from headgate.local import kafka as local

    print_stopped(local.down(), json_file, "broker")


@kafka.command()
def topic(
    name: Annotated[str, argument("NAME", "The topic to make.")],
    partitions: Annotated[int, option("N", "How many partitions it has.")] = 1,
    bootstrap: BootstrapOption = None,
) -> None:
    """Make a topic.

    [bold]Example[/bold]
      [cyan]headgate kafka topic orders --partitions 8[/cyan]
    """
    require("a topic", "confluent_kafka", "psutil")
    from headgate.local.topics import create_topic

    create_topic(bootstrap or own_broker(), name, partitions)
    say(f"made {name} with {counted(partitions, 'partition')}")


@kafka.command()
def connector(json_file: options.Json = None) -> None:
    """Print the jars of Spark's Kafka connector, as [bold]spark.jars[/bold] wants them.

    The connector of the installed Spark's version is taken, else the newest that works, which is then said on standard
    error. The first time, 10 MB are fetched.

    [bold]Example[/bold]
      [cyan]spark-submit --jars "$(headgate kafka connector)" job.py[/cyan]
    """
    from headgate.local.connector import find_connector

    found = find_connector()
    if json_file is not None:
        jars = [str(jar) for jar in found.jars]
        write_json(
            {"spark": found.spark_version, "connector": found.version, "note": found.note, "jars": jars}, json_file
        )
        return
    if found.note is not None:
        typer.echo(f"taking connector {found.version} for Spark {found.spark_version}: {found.note}", err=True)
    typer.echo(found.spark_jars)


# ------------------------------------------------------------------------------------------------------------- asking


def own_broker() -> str:
    """The address of the broker that is up here."""
    from headgate.local import kafka as local

    found = local.status()
    if found is None or found.gone:
        raise InputError("no broker is up; start one with: headgate kafka up, or name yours with --bootstrap.")
    return found.state.bootstrap


def _ask(bootstrap: str | None) -> dict[str, Any]:
    """What can be said of a named broker, or of the one that should be up here."""
    from headgate.local import kafka as local

    if bootstrap is None:
        found = local.status()
        if found is None:
            return _not_up(None, "no broker is up; start one with: headgate kafka up")
        bootstrap = found.state.bootstrap
        if found.gone:
            return _not_up(bootstrap, found.gone)
    try:
        answer: dict[str, Any] = {"up": True, "bootstrap": bootstrap, "release": local.release(bootstrap)}
    except EngineError as error:
        return _not_up(bootstrap, str(error))
    return answer | _topics(bootstrap)


def _not_up(bootstrap: str | None, reason: str) -> dict[str, Any]:
    return {"up": False, "bootstrap": bootstrap, "reason": reason}


def _topics(bootstrap: str) -> dict[str, Any]:
    from headgate.core.errors import HeadgateError
    from headgate.local.topics import topics

    try:
        return {"topics": topics(bootstrap)}
    except HeadgateError as error:  # A broker that wants a password answers, but not that; nor without the package.
        return {"topics": None, "note": str(error)}


# ------------------------------------------------------------------------------------------------------------- saying


def _listed(found: dict[str, Any]) -> str:
    topics = found["topics"]
    if topics is None:
        return f"topics unknown: {found['note']}"
    if not topics:
        return "no topics"
    named = ", ".join(f"{name} ({counted(count, 'partition')})" for name, count in topics.items())
    return f"{counted(len(topics), 'topic')}: {named}"
