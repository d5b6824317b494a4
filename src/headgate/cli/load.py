"""headgate load"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import options
from headgate.cli.common import Outputs, argument, duration_s, make_console, option, say, write_json
from headgate.cli.kafka import BootstrapOption, own_broker
from headgate.cli.progress import stopped_by_signals
from headgate.core.errors import EngineError, InputError
from headgate.core.extras import require
from headgate.runtime.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from headgate.local.records import TopicSink
    from headgate.workloads.load import Load
    from headgate.workloads.payloads import Payloads
    from headgate.workloads.replay import ReplayProgress


def load(  # noqa: PLR0913 - one parameter per option
    workload: Annotated[str, argument("WORKLOAD", "What arrives when, one of those above.")],
    *,
    to: Annotated[str, option("kafka:TOPIC", "Where the records go.")],
    app: Annotated[str | None, option("NAME", "Whose records they are.", show_default="numbered")] = None,
    records: Annotated[Path | None, option("FILE", "Send the JSON lines of a file, again and again.")] = None,
    key_field: Annotated[str | None, option("NAME", "With --records: the field that is the record's key.")] = None,
    template: Annotated[
        str | None, option("TEXT|@FILE", "Send this text with $number, $key, $at_ms, $at and others filled in.")
    ] = None,
    seconds: Annotated[
        str | None, option("DURATION", "How much of the workload; all of it where it has an end.")
    ] = None,
    speed: Annotated[str, option("X", "1 to 1000 times as fast, or max: as fast as they are accepted.")] = "1",
    keys: options.Keys = 1000,
    skew: Annotated[float, option("S", "Key k is as frequent as 1/k^S: 0 is even, 1 is as words are.", min=0)] = 0.0,
    seed: options.RecordsSeed = 0,
    event_start: Annotated[str | None, option("TIME", "Event time of the start, ISO 8601; now if not given.")] = None,
    bootstrap: BootstrapOption = None,
    json_file: options.Json = None,
) -> None:
    """Send the records of a workload to a topic, each when it is due.

    It is an open loop: what is due is sent, whether or not the reader keeps up, and lateness is reported. Records
    are numbered from 0 without a gap, and carry their due time ([bold]at_ms[/bold]), which passes at the speed of the
    workload. Records of your own come from --records or --template, in which these are filled in: $number, $key,
    $at_ms, $at, $random, ${int:1..100}, ${choice:red|green}. The exit code is 1 if a record was refused or not
    acknowledged, 130 after Ctrl-C.

    [bold]Workloads[/bold]
      constant:10
      periodic:base=10,peak=20,high=20s,low=40s
      sine:mean=50,amplitude=30,period=1h
      gaussian:base=0,peak=100,center=30m,sigma=8m
      ramp:from=10,to=100,over=10m
      spike:base=10,peak=70,at=300s,width=300s
      csv:PATH or parquet:PATH, with columns timestamp and count or rate; also csv:PATH,time=ts,count=n,repair=yes
      levels:PATH, with lines of seconds, level
      trace:NAME, a public trace; also trace:wc98,peak=500,from=2h,lasting=10m
      several of them: "csv:load.csv * 3 + spike:base=0,peak=70,at=2h,width=5m | clip 0..500 | shift 1h | noise 10%"

    [bold]Examples[/bold]
      [cyan]headgate load constant:50000 --seconds 1m --to kafka:orders[/cyan]
      [cyan]headgate load trace:wc98,peak=20,from=45d,lasting=12h --speed 1000 --to kafka:orders --skew 1[/cyan]
      [cyan]headgate load constant:100 --seconds 5m --to kafka:orders --records orders.jsonl --key-field user[/cyan]
      [cyan]headgate load constant:100 --seconds 5m --to kafka:orders \\
        --template '{"id": $number, "user": "$key", "amount": ${int:1..500}, "at": "$at"}'[/cyan]
      [cyan]headgate load ramp:from=10,to=1000,over=10m --seconds 10m --speed max --to kafka:orders --json[/cyan]
    """
    import headgate.apps.payloads  # noqa: F401 - which registers the payloads of all applications
    from headgate.cli.live_view import shown
    from headgate.cli.load_view import LoadView
    from headgate.runtime.loop import SystemClock
    from headgate.workloads.composed import notes_of
    from headgate.workloads.load import Load, parse_speed
    from headgate.workloads.payloads import DEFAULT
    from headgate.workloads.replay import Replay

    require("a load for topics", "confluent_kafka", "psutil")
    topic = _topic(to)
    lasting_s = None if seconds is None else duration_s("--seconds", seconds)
    requested = Load(workload, app or DEFAULT, lasting_s, parse_speed(speed), keys, skew, seed)
    payloads = _own_payloads(app, records, key_field, template, requested) or requested.make_payloads()
    total = requested.schedule.total
    given_ms = None if event_start is None else _moment_ms(event_start)
    sink, clock = _sink(bootstrap or own_broker(), topic), SystemClock()
    start_ms = round(clock.now() * 1000) if given_ms is None else given_ms
    replay = Replay(requested, payloads, sink, clock, start_ms=start_ms)
    # Where JSON goes to standard output, the view must not.
    console = make_console(stderr=json_file == "-")
    sent = str(records) if records is not None else "a template" if template is not None else requested.app
    title = f"[bold]headgate load[/bold] · {workload} · {sent} → {topic}"
    view = LoadView(console, title, total=total, lasting_s=requested.lasting_s)
    with stopped_by_signals() as stop, shown(view):
        result = replay.run(stop, view.standing)
    with Outputs() as outputs:
        if json_file is not None:
            described: dict[str, Any] = {"to": to, "event_start_ms": start_ms, **requested.to_json()}
            if records is not None or template is not None:
                described |= {"app": None, "records": None if records is None else str(records), "template": template}
            outputs.write(write_json, described | _as_json(result), json_file)
        if json_file != "-":
            for sentence in (*notes_of(requested.offered), *_sentences(result, topic)):
                say(sentence)
    if result.answers.failed or result.unanswered:
        raise typer.Exit(1)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


# -------------------------------------------------------------------------------------------------------------- input


def _own_payloads(
    app: str | None, records: Path | None, key_field: str | None, template: str | None, requested: Load
) -> Payloads | None:
    """Return the records of the user, where there are any."""
    from headgate.workloads.draws import Keys
    from headgate.workloads.own_payloads import FilePayloads, TemplatePayloads, read_template

    given = {"--app": app, "--records": records, "--template": template}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise InputError(f"{' and '.join(chosen)} do not go together; one of them says what is sent.")
    if key_field is not None and records is None:
        raise InputError(f"--key-field {key_field!r} goes with --records only.")
    if records is not None:
        return FilePayloads(records, key_field)
    if template is None:
        return None
    return TemplatePayloads(
        read_template(template), requested.seed, Keys(requested.keys, requested.skew, requested.seed)
    )


def _topic(to: str) -> str:
    kind, _, topic = to.partition(":")
    if kind == "embedded":
        raise InputError(
            "--to embedded is not possible: an embedded source lives in the job that reads it; run one with: "
            "headgate app run NAME --source embedded --workload WORKLOAD, or write kafka:TOPIC."
        )
    if kind != "kafka" or not topic:
        raise InputError(f"--to {to!r} is not understood; write kafka:TOPIC.")
    return topic


def _moment_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"--event-start {text!r} is not understood; write for example 2024-05-01T12:00.") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _sink(bootstrap: str, topic: str) -> TopicSink:
    from headgate.local.records import TopicSink

    try:
        return TopicSink(bootstrap, topic)
    except EngineError as error:  # Before anything was sent, a broker that is not there is a wrong address.
        raise InputError(str(error)) from error


# ------------------------------------------------------------------------------------------------------------- output


def _as_json(result: ReplayProgress) -> dict[str, Any]:
    lateness = result.lateness
    return {
        "due": result.due,
        "sent": result.sent,
        "acknowledged": result.answers.acknowledged,
        "failed": result.answers.failed,
        "failures": dict(result.answers.reasons),
        "unanswered": result.unanswered,
        "interrupted": result.interrupted,
        "elapsed_s": result.elapsed_s,
        "rate_per_s": result.rate_per_s,
        "schedule_error": lateness
        and {
            "p50_s": lateness.percentile_s(50),
            "p99_s": lateness.percentile_s(99),
            "max_s": lateness.max_s,
            "share": lateness.moved_share,
        },
    }


def _sentences(result: ReplayProgress, topic: str) -> Iterator[str]:
    from headgate.cli.load_view import lateness_in_words

    answers = result.answers
    stopped = "stopped early: " if result.interrupted else ""
    yield (
        f"{stopped}{result.due:,} records were due; sent {result.sent:,} to {topic} in {result.elapsed_s:.1f} s "
        f"({result.rate_per_s:,.0f}/s): {answers.acknowledged:,} acknowledged, {answers.failed:,} failed"
    )
    for reason, count in answers.reasons.items():
        yield f"failed: {count:,} × {reason}"
    if result.unanswered:
        yield f"not known: whether {result.unanswered:,} more arrived"
    if result.lateness is not None:
        share = f"{100 * result.lateness.moved_share:.2g} %"
        yield f"schedule error: late by {lateness_in_words(result.lateness)}; {share} in another second than due"
