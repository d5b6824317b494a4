"""headgate history"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from headgate.cli.common import JsonOption, check_target, say, write_json
from headgate.cli.service_options import CertificateOption, JobArgument, ServiceOption, TokenFileOption, client_of
from headgate.core.types import JSON


def history(
    job: JobArgument,
    *,
    last: Annotated[int, typer.Option(metavar="N", min=1, max=5000, help="So many of each, the newest.")] = 20,
    holds: Annotated[bool, typer.Option("--holds", help="With decisions that changed nothing.")] = False,
    service: ServiceOption = None,
    token_file: TokenFileOption = None,
    certificate: CertificateOption = None,
    json_file: JsonOption = None,
) -> None:
    """Tell what was decided for a job and why, what happened to it, and who changed what; oldest first.

    [bold]Examples[/bold]
      [cyan]headgate history clicks[/cyan]
      [cyan]headgate history clicks --last 200 --holds --json history.json[/cyan]
    """
    check_target(json_file)
    with client_of(service, token_file, certificate) as client:
        decisions = client.decisions(job, last=last, holds=holds)
        events = client.events(job, last=last)
        changes = client.audit(job, last=last)
    if json_file is not None:
        write_json({"decisions": decisions, "events": events, "changes": changes}, json_file)
        return
    lines = [
        *((one["at_s"], line) for one in decisions for line in _decided(one)),
        *((one["at_s"], f"{one['kind']}: {one['detail']}") for one in events),
        *((one["at_s"], f"{one['who']} changed {one['what']}: {one['why']}") for one in changes),
    ]
    for at_s, line in sorted(lines):
        say(f"{_moment(at_s)}  {line}")
    if not lines:
        say(f"nothing has happened to {job} yet.")


def _decided(decision: dict[str, JSON]) -> list[str]:
    told = []
    for name, verdict in decision["verdicts"].items():
        change = (
            f"stays at {verdict['current']}"
            if verdict["target"] == verdict["current"]
            else f"{verdict['current']} -> {verdict['target']}"
        )
        altered = [note["why"] for note in verdict["notes"] if note["before"] != note["after"]]
        guarded = f" (wanted {verdict['proposed']}; {'; '.join(altered)})" if altered else ""
        told.append(f"{name} {change}: {verdict['reason']}{guarded}")
    return told


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s).astimezone().strftime("%Y-%m-%d %H:%M:%S")
