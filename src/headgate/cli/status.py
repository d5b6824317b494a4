"""headgate status"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated

import typer

from headgate.cli import options
from headgate.cli.common import argument, make_console, option, print_table, say, write_json
from headgate.core.types import JSON
from headgate.core.units import format_duration


def status(
    job: Annotated[str | None, argument("[JOB]", "One job; all of them where not given.")] = None,
    *,
    service: options.Service = None,
    token_file: options.TokenFile = None,
    certificate: options.Certificate = None,
    json_file: options.Json = None,
) -> None:
    """Show the jobs of a service: sizes, load, the last decision with its reason, and pauses.

    [bold]Examples[/bold]
      [cyan]headgate status[/cyan]
      [cyan]headgate status clicks --service https://headgate.example.org:8420 --token-file ana.token[/cyan]
    """
    with options.client_of(service, token_file, certificate) as client:
        found = client.jobs() if job is None else [client.job(job)]
        changes = [] if job is None else client.changes(job)
        problem = client.service()["file_problem"]
    if json_file is not None:
        write_json(found if job is None else {**found[0], "changes": changes}, json_file)
        return
    console = make_console()
    rows = (
        [_job_row(entry) for entry in found]
        if job is None
        else [_operator_row(operator) for operator in found[0]["operators"]]
    )
    if not rows:
        say("the service looks after no jobs.")
    else:
        print_table(rows, console)
    if job is not None:
        say(f"{found[0]['name']} is {found[0]['state']}: {found[0]['objective']}, by {found[0]['policy']}.")
    for change in changes:
        say(change_in_words(change))
    if problem:
        say(f"headgate: the service's file is refused, and the one before is in force: {problem}", stderr=True)


def change_in_words(change: dict[str, JSON]) -> str:
    """A change in force in one sentence."""
    named = "" if change["name"] in ("", "*") else f" of {change['name']}"
    what = ", ".join(f"{name} {value}" for name, value in change["body"].items() if value not in (None, {}, []))
    left = "" if change["until_s"] is None else f", {format_duration(max(0.0, change['until_s'] - time.time()))} left"
    return f"{change['kind']}{named}: {what} ({change['who']}: {change['why']}{left})"


def _job_row(job: dict[str, JSON]) -> dict[str, JSON]:
    sizes = [operator["instances"] for operator in job["operators"] if operator["instances"] is not None]
    paused = ", ".join(direction if name == "*" else f"{name} {direction}" for name, direction in job["paused"].items())
    return {
        "job": job["name"],
        "state": job["state"] if job["mode"] == "act" else f"{job['state']}, recommending only",
        "operators": len(job["operators"]),
        "ready": sum(operator["ready"] for operator in sizes) if sizes else None,
        "planned": sum(operator["planned"] for operator in sizes) if sizes else None,
        "policy": job["policy"],
        "objective": job["objective"],
        "paused": paused or None,
    }


def _operator_row(operator: dict[str, JSON]) -> dict[str, JSON]:
    sizes, reading, decided = operator["instances"] or {}, operator["reading"] or {}, operator["decided"] or {}
    fewest, most = operator["bounds"]
    return {
        "operator": operator["name"],
        "agent": "joined" if operator["joined"] else "lost" if operator["heard_s"] is not None else "awaited",
        "ready": sizes.get("ready"),
        "planned": sizes.get("planned"),
        "bounds": f"{fewest} to {most}",
        "backlog": reading.get("backlog"),
        "latency_s": reading.get("latency_s"),
        "records_per_s": reading.get("input_rate_per_s"),
        "reason": decided.get("reason"),
    }


def history(
    job: options.Job,
    *,
    last: Annotated[int, option("N", "So many of each, the newest.", min=1, max=5000)] = 20,
    holds: Annotated[bool, typer.Option("--holds", help="With decisions that changed nothing.")] = False,
    service: options.Service = None,
    token_file: options.TokenFile = None,
    certificate: options.Certificate = None,
    json_file: options.Json = None,
) -> None:
    """Show the decisions, events and changes of a job with their reasons, oldest first.

    [bold]Examples[/bold]
      [cyan]headgate history clicks[/cyan]
      [cyan]headgate history clicks --last 200 --holds --json history.json[/cyan]
    """
    with options.client_of(service, token_file, certificate) as client:
        decisions = client.decisions(job, last=last, holds=holds)
        events = client.events(job, last=last)
        changes = client.audit(job, last=last)
    if json_file is not None:
        write_json({"decisions": decisions, "events": events, "changes": changes}, json_file)
        return
    lines = [
        *((entry["at_s"], line) for entry in decisions for line in _decided(entry)),
        *((entry["at_s"], f"{entry['kind']}: {entry['detail']}") for entry in events),
        *((entry["at_s"], f"{entry['who']} changed {entry['what']}: {entry['why']}") for entry in changes),
    ]
    for at_s, line in sorted(lines):
        say(f"{_moment(at_s)}  {line}")
    if not lines:
        say(f"nothing has happened to {job} yet.")


def _decided(decision: dict[str, JSON]) -> list[str]:
    lines = []
    for name, verdict in decision["verdicts"].items():
        change = (
            f"stays at {verdict['current']}"
            if verdict["target"] == verdict["current"]
            else f"{verdict['current']} -> {verdict['target']}"
        )
        altered = [note["why"] for note in verdict["notes"] if note["before"] != note["after"]]
        guarded = f" (wanted {verdict['proposed']}; {'; '.join(altered)})" if altered else ""
        lines.append(f"{name} {change}: {verdict['reason']}{guarded}")
    return lines


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s).astimezone().strftime("%Y-%m-%d %H:%M:%S")
