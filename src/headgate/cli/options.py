"""Options that several commands share, and what their values mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.common import duration_s
from headgate.core.errors import InputError, StateError, cause_of
from headgate.core.objective import Objective
from headgate.core.plugins import DEFAULT_POLICY

if TYPE_CHECKING:
    from headgate.client import Client
    from headgate.workloads.contract import Workload


PolicyOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The policy; headgate policies lists them.", show_default=DEFAULT_POLICY),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the policy; may be repeated.", show_default=False),
]
GuardOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A setting of the guards; may be repeated.", show_default=False),
]
SettingsFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A policy with its settings and guards, as headgate lab tune writes them.",
        show_default=False,
    ),
]
RulesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A rule file that decides instead of a policy.", show_default=False),
]
ConstraintsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A rule file of constraints, for any policy.", show_default=False),
]
ShadowOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A policy that decides too and never acts; may be repeated.", show_default=False),
]


ServiceOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL[,URL]",
        help="The service, or several of which one leads; HEADGATE_SERVICE, or port 8420 here, where not given.",
        show_default=False,
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file with the token; HEADGATE_TOKEN where not given. Reading on the service's machine needs none.",
        show_default=False,
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The certificate to trust, where it is not generally trusted.", show_default=False
    ),
]
WhyOption = Annotated[str, typer.Option(metavar="TEXT", help="The reason, stored in the audit trail.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The name of the job.", show_default=False)]

JournalArgument = Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal's file.", show_default=False)]
RunOption = Annotated[
    int | None,
    typer.Option("--run", metavar="NUMBER", help="Which run; the newest where not given.", show_default=False),
]
JobOption = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="NAME",
        help="Which job, in a journal of several; the one that began a run last where not given.",
        show_default=False,
    ),
]


def client_of(service: str | None, token_file: Path | None, certificate: Path | None) -> Client:
    """Return a client from the options of the command line."""
    from headgate.client import Client

    token = None if token_file is None else read_token(token_file)
    return Client(service, token, certificate=None if certificate is None else str(certificate))


def read_token(path: Path) -> str:
    """Return the token in a file."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file {path} cannot be read: {cause_of(error)}.") from error
    if not text or len(text.split()) != 1:
        raise InputError(f"--token-file {path} does not hold a token: one word is needed.")
    return text


def run_seconds(text: str | None, offered: Workload) -> float:
    """Return the length of a run: as given, or that of a recorded load."""
    from headgate.workloads.composed import end_of

    if text is not None:
        return duration_s("--seconds", text)
    end_s = end_of(offered)
    if end_s is None:
        raise InputError(f"--seconds is missing: the workload {offered.describe()} has no end of its own.")
    return end_s


def bounded_objective(objective: Objective, fewest: int | None, most: int | None) -> Objective:
    """Return the objective within the bounds of the command line, where given."""
    return objective.within(
        objective.min_instances if fewest is None else fewest, objective.max_instances if most is None else most
    )


def service_rate_options(rate: str, model: str | None, startup: str | None, max_instances: int) -> dict[str, Any]:
    """Return the service rate and model: a number, a service model, or measured."""
    from headgate.runtime.model_file import parse_service_rate
    from headgate.simulation.micro_batch import ServiceModel

    speed = parse_service_rate(rate, model, startup)
    if isinstance(speed, ServiceModel):
        found = {"service_rate_per_s": speed.rate_per_s, "model": speed.micro_batch(max_instances)}
        return found if speed.startup_s is None else {**found, "startup_s": speed.startup_s}
    single, works = speed if isinstance(speed, tuple) else (speed, model or "queue")
    return {"service_rate_per_s": single, "model": works}


def stop_message(journal: Path | None) -> str:
    """Return what remains of a run that is interrupted."""
    return "nothing is saved; --journal FILE would save it" if journal is None else f"what was done is in {journal}"


@contextmanager
def naming_state_file(state: Path | None) -> Iterator[None]:
    """Name the state file in an error about state that does not fit."""
    try:
        yield
    except StateError as error:
        if state is None:
            raise
        raise StateError(f"--state {state} cannot be used: {error}") from error
