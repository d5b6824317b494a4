"""headgate pause and resume"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from headgate.cli.common import JsonOption, check_target, key_values, say, write_json
from headgate.cli.options import (
    CertificateOption,
    JobArgument,
    ServiceOption,
    TokenFileOption,
    WhyOption,
    client_of,
)
from headgate.core.errors import InputError

if TYPE_CHECKING:
    from headgate.client import Client

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


Act: TypeAlias = "Callable[[Client], dict[str, Any]]"


def set_job(  # noqa: PLR0913 - one for each thing that can be set
    job: JobArgument,
    *,
    why: WhyOption,
    policy: Annotated[str | None, typer.Option(metavar="NAME", help="The policy.", show_default=False)] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the policy.", show_default=False),
    ] = None,
    guard: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the guards.", show_default=False)
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Decide by the rules of a file.", show_default=False)
    ] = None,
    objective: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Another objective.", show_default=False)
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(metavar="OPERATOR=1..8", help="The fewest and the most instances.", show_default=False),
    ] = None,
    size: Annotated[
        str | None, typer.Option(metavar="OPERATOR=N", help="Force a size, with --for.", show_default=False)
    ] = None,
    mode: Annotated[
        str | None, typer.Option(metavar="act|recommend", help="Whether decisions are carried out.", show_default=False)
    ] = None,
    period: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A period of the week, with --during, and --forbid, --at-least or --at-most.",
            show_default=False,
        ),
    ] = None,
    forbid: Annotated[
        str | None, typer.Option(metavar="TEXT", help="'scale in' or 'any scaling'.", show_default=False)
    ] = None,
    at_least: Annotated[int | None, typer.Option(metavar="N", help="Never fewer.", show_default=False)] = None,
    at_most: Annotated[int | None, typer.Option(metavar="N", help="Never more.", show_default=False)] = None,
    during: Annotated[
        list[str] | None,
        typer.Option(metavar="CRON", help="Such as '* 8-17 * * mon-fri'.", show_default=False),
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Of --during; UTC where not given.", show_default=False)
    ] = None,
    operator: OperatorOption = "*",
    lasts: ForOption = None,
    revert: Annotated[
        str | None,
        typer.Option(
            metavar="KIND[:NAME]",
            help="Take a change back: policy, objective, mode, bounds:OPERATOR, size:OPERATOR or period:NAME.",
            show_default=False,
        ),
    ] = None,
    service: ServiceOption = None,
    token_file: TokenFileOption = None,
    certificate: CertificateOption = None,
    json_file: JsonOption = None,
) -> None:
    """Change one setting of a running job; it overrides the service's file.

    [bold]Examples[/bold]
      [cyan]headgate set clicks --policy reactive --why "to compare"[/cyan]
      [cyan]headgate set clicks --set scale_in_window_s=2m --why "it shrinks too soon"[/cyan]
      [cyan]headgate set clicks --bounds count=2..6 --why "a smaller cluster"[/cyan]
      [cyan]headgate set clicks --size count=4 --for 1h --why "a load test"[/cyan]
      [cyan]headgate set clicks --period payroll --forbid "any scaling" --during "* 2-4 1 * *" --why "payroll"[/cyan]
      [cyan]headgate set clicks --revert policy --why "compared"[/cyan]
    """
    check_target(json_file)
    settings, guards = key_values("--set", setting or []), key_values("--guard", guard or [])
    what = {
        "operator": operator,
        "forbid": forbid,
        "at_least": at_least,
        "at_most": at_most,
        "during": during,
        "time_zone": time_zone,
    }
    acts: dict[str, Act | None] = {
        "--policy": None
        if policy is None
        else lambda client: client.set_policy(job, policy, settings=settings, guards=guards, why=why),
        "--set or --guard": None
        if policy is not None or not (settings or guards)
        else lambda client: client.set_settings(job, settings=settings, guards=guards, why=why),
        "--rules": None if rules is None else _rules(job, rules, why),
        "--objective": None if objective is None else lambda client: client.set_objective(job, objective, why=why),
        "--bounds": None if bounds is None else _bounds(job, bounds, why),
        "--size": None if size is None else _size(job, size, lasts, why),
        "--mode": None if mode is None else lambda client: client.set_mode(job, mode, lasts=lasts, why=why),
        "--period": None
        if period is None
        else lambda client: client.set_period(
            job, period, why=why, **{name: value for name, value in what.items() if value is not None}
        ),
        "--revert": None
        if revert is None
        else lambda client: client.revert(job, revert.partition(":")[0], revert.partition(":")[2], why=why),
    }
    act = _only(acts)
    with client_of(service, token_file, certificate) as client:
        change = act(client)
    if json_file is not None:
        write_json(change, json_file)
        return
    named = "" if change["name"] in ("", "*") else f" of {change['name']}"
    done = "is as the service's file says" if revert else "is changed"
    say(f"{change['kind']}{named} of {job} {done}.")


def _only(acts: dict[str, Act | None]) -> Act:
    """The one thing that is to be changed."""
    chosen = [(name, act) for name, act in acts.items() if act is not None]
    if len(chosen) != 1:
        found = "nothing" if not chosen else " and ".join(name for name, _ in chosen)
        raise InputError(f"{found} is to be set; one of {', '.join(acts)} is needed.")
    return chosen[0][1]


def _rules(job: str, path: Path, why: str) -> Act:
    from headgate.rules.rules_policy import read_text

    text = read_text(path)
    return lambda client: client.set_rules(job, text, why=why)


def _bounds(job: str, given: str, why: str) -> Act:
    ((operator, text),) = key_values("--bounds", [given]).items()
    fewest, dots, most = text.partition("..")
    if not (dots and fewest.isdecimal() and most.isdecimal()):
        raise InputError(f"--bounds {given!r} is not understood; the fewest and the most are, as {operator}=1..8.")
    return lambda client: client.set_bounds(job, operator, int(fewest), int(most), why=why)


def _size(job: str, given: str, lasts: str | None, why: str) -> Act:
    ((operator, text),) = key_values("--size", [given]).items()
    if not text.isdecimal():
        raise InputError(f"--size {given!r} is not understood; a whole number is, as {operator}=4.")
    if lasts is None:
        raise InputError(f"--size {given} needs --for: a size is forced for a time only.")
    return lambda client: client.force_size(job, operator, int(text), lasts=lasts, why=why)
