"""headgate pause and resume"""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli.common import JsonOption, check_target, say, write_json
from headgate.cli.service_options import (
    CertificateOption,
    JobArgument,
    ServiceOption,
    TokenFileOption,
    WhyOption,
    client_of,
)
from headgate.core.errors import InputError

ForOption = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="How long, such as 30m.", show_default=False)
]
OperatorOption = Annotated[str, typer.Option(metavar="NAME", help="One operator; * for all.")]


def pause(  # noqa: PLR0913 - one for each thing that can be said
    job: JobArgument,
    *,
    why: WhyOption,
    only: Annotated[
        str | None, typer.Option(metavar="in|out", help="Only this way; both ways where not given.", show_default=False)
    ] = None,
    operator: OperatorOption = "*",
    lasts: ForOption = None,
    service: ServiceOption = None,
    token_file: TokenFileOption = None,
    certificate: CertificateOption = None,
    json_file: JsonOption = None,
) -> None:
    """Pause the scaling of a job: both ways, only in or only out; for a time, or until headgate resume.

    [bold]Examples[/bold]
      [cyan]headgate pause clicks --for 30m --why "a migration"[/cyan]
      [cyan]headgate pause clicks --only in --operator count --why "a sale"[/cyan]
    """
    check_target(json_file)
    if only not in (None, "in", "out"):
        raise InputError(f"--only {only!r} is not allowed; in or out is.")
    with client_of(service, token_file, certificate) as client:
        change = client.pause(job, why=why, direction=only or "both", operator=operator, lasts=lasts)
    if json_file is not None:
        write_json(change, json_file)
        return
    which = "" if operator == "*" else f" of {operator}"
    ways = f"scaling {only}" if only else "scaling"
    say(f"{ways}{which} of {job} is paused{f' for {lasts}' if lasts else ''}.")


def resume(
    job: JobArgument,
    *,
    why: WhyOption,
    operator: OperatorOption = "*",
    service: ServiceOption = None,
    token_file: TokenFileOption = None,
    certificate: CertificateOption = None,
    json_file: JsonOption = None,
) -> None:
    """End the pauses of a job, or of one operator.

    [bold]Example[/bold]
      [cyan]headgate resume clicks --why "the migration is over"[/cyan]
    """
    check_target(json_file)
    with client_of(service, token_file, certificate) as client:
        ended = client.resume(job, why=why, operator=operator)
    if json_file is not None:
        write_json(ended, json_file)
    else:
        say(f"{job} is scaled again." if ended else f"nothing of {job} was paused.")
