"""headgate pause, resume, release and set"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from headgate.cli import options
from headgate.cli.common import argument, key_values, option, say, write_json
from headgate.core.errors import InputError

if TYPE_CHECKING:
    from headgate.client import Client

ForOption = Annotated[str | None, option("DURATION", "How long, such as 30m.", "--for")]
OperatorOption = Annotated[str, option("NAME", "One operator; * for all.")]


def pause(  # noqa: PLR0913 - one for each thing that can be said
    job: options.Job,
    *,
    why: options.Why,
    only: Annotated[str | None, option("in|out", "Only this way; both ways where not given.")] = None,
    operator: OperatorOption = "*",
    lasts: ForOption = None,
    service: options.Service = None,
    token_file: options.TokenFile = None,
    certificate: options.Certificate = None,
    json_file: options.Json = None,
) -> None:
    """Pause the scaling of a job: both ways, only in or only out; for a time, or until headgate resume.

    [bold]Examples[/bold]
      [cyan]headgate pause clicks --for 30m --why "a migration"[/cyan]
      [cyan]headgate pause clicks --only in --operator count --why "a sale"[/cyan]
    """
    if only not in (None, "in", "out"):
        raise InputError(f"--only {only!r} is not allowed; in or out is.")
    with options.client_of(service, token_file, certificate) as client:
        change = client.pause(job, why=why, direction=only or "both", operator=operator, lasts=lasts)
    if json_file is not None:
        write_json(change, json_file)
        return
    which = "" if operator == "*" else f" of {operator}"
    ways = f"scaling {only}" if only else "scaling"
    say(f"{ways}{which} of {job} is paused{f' for {lasts}' if lasts else ''}.")


def resume(
    job: options.Job,
    *,
    why: options.Why,
    operator: OperatorOption = "*",
    service: options.Service = None,
    token_file: options.TokenFile = None,
    certificate: options.Certificate = None,
    json_file: options.Json = None,
) -> None:
    """End the pauses of a job, or of one operator.

    [bold]Example[/bold]
      [cyan]headgate resume clicks --why "the migration is over"[/cyan]
    """
    with options.client_of(service, token_file, certificate) as client:
        ended = client.resume(job, why=why, operator=operator)
    if json_file is not None:
        write_json(ended, json_file)
    else:
        say(f"{job} is scaled again." if ended else f"nothing of {job} was paused.")


def release(
    job: options.Job,
    operator: Annotated[str, argument("OPERATOR", "The operator whose agent is released.")],
    *,
    why: options.Why,
    service: options.Service = None,
    token_file: options.TokenFile = None,
    certificate: options.Certificate = None,
    json_file: options.Json = None,
) -> None:
    """Let another agent join for an operator at once, although the present one still reports.

    [bold]Example[/bold]
      [cyan]headgate release clicks count --why "its machine is replaced"[/cyan]
    """
    with options.client_of(service, token_file, certificate) as client:
        entry = client.release(job, operator, why=why)
    if json_file is not None:
        write_json(entry, json_file)
    else:
        say(f"another agent may join for {operator} of {job}.")


Act: TypeAlias = "Callable[[Client], dict[str, Any]]"


def set_job(  # noqa: PLR0913 - one for each thing that can be set
    job: options.Job,
    *,
    why: options.Why,
    policy: Annotated[str | None, option("NAME", "The policy.")] = None,
    setting: Annotated[list[str] | None, option("KEY=VALUE", "A setting of the policy.", "--set")] = None,
    guard: Annotated[list[str] | None, option("KEY=VALUE", "A setting of the guards.")] = None,
    rules: Annotated[Path | None, option("FILE", "Decide by the rules of a file.")] = None,
    objective: Annotated[str | None, option("TEXT", "Another objective.")] = None,
    bounds: Annotated[str | None, option("OPERATOR=1..8", "The fewest and the most instances.")] = None,
    size: Annotated[str | None, option("OPERATOR=N", "Force a size, with --for.")] = None,
    mode: Annotated[str | None, option("act|recommend", "Whether decisions are carried out.")] = None,
    period: Annotated[
        str | None, option("NAME", "A period of the week, with --during, and --forbid, --at-least or --at-most.")
    ] = None,
    forbid: Annotated[str | None, option("TEXT", "'scale in' or 'any scaling'.")] = None,
    at_least: Annotated[int | None, option("N", "Never fewer.")] = None,
    at_most: Annotated[int | None, option("N", "Never more.")] = None,
    during: Annotated[list[str] | None, option("CRON", "Such as '* 8-17 * * mon-fri'.")] = None,
    time_zone: Annotated[str | None, option("ZONE", "Of --during; UTC where not given.")] = None,
    operator: OperatorOption = "*",
    lasts: ForOption = None,
    revert: Annotated[
        str | None,
        option(
            "KIND[:NAME]", "Take a change back: policy, objective, mode, bounds:OPERATOR, size:OPERATOR or period:NAME."
        ),
    ] = None,
    service: options.Service = None,
    token_file: options.TokenFile = None,
    certificate: options.Certificate = None,
    json_file: options.Json = None,
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
    with options.client_of(service, token_file, certificate) as client:
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
