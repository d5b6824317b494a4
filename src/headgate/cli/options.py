"""Options that several commands share, and what their values mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from headgate.cli.common import argument, checked, duration_s, option
from headgate.core.errors import InputError, StateError, cause_of
from headgate.core.objective import Objective
from headgate.core.plugins import DEFAULT_POLICY

if TYPE_CHECKING:
    from headgate.client import Client
    from headgate.workloads.contract import Workload


Json = Annotated[
    str | None,
    option(
        "[FILE]",
        "Write the result as JSON to FILE, or to standard output where no file is given.",
        "--json",
        callback=checked,
    ),
]
Policy = Annotated[
    str | None,
    option("NAME", "The policy: one that headgate policies lists, or FILE.py:CLASS.", show_default=DEFAULT_POLICY),
]
Set = Annotated[list[str] | None, option("KEY=VALUE", "A setting of the policy; may be repeated.", "--set")]
Guard = Annotated[list[str] | None, option("KEY=VALUE", "A setting of the guards; may be repeated.")]
SettingsFile = Annotated[
    Path | None, option("FILE", "A policy with its settings and guards, as headgate lab tune writes them.")
]
Rules = Annotated[Path | None, option("FILE", "A rule file that decides instead of a policy.")]
Constraints = Annotated[Path | None, option("FILE", "A rule file of constraints, for any policy.")]
Shadow = Annotated[list[str] | None, option("NAME", "A policy that decides too and never acts; may be repeated.")]

Report = Annotated[Path | None, option("FILE", "Write an HTML report with plots.", callback=checked)]
Price = Annotated[float | None, option("PRICE", "What an instance costs for an hour.")]
Min = Annotated[int | None, option("N", "Never fewer instances.", "--min", show_default="1")]
Max = Annotated[int | None, option("N", "Never more instances.", "--max", show_default="10")]
Keys = Annotated[int, option("N", "How many different keys.", min=1)]
RecordsSeed = Annotated[int, option("K", "Makes the records repeatable.", min=0)]
Readings = Annotated[str, option("HOW", "What is seen of micro-batches: spark, kafka or perfect.")]


Service = Annotated[
    str | None,
    option(
        "URL[,URL]", "The service, or several of which one leads; HEADGATE_SERVICE, or port 8420 here, where not given."
    ),
]
TokenFile = Annotated[
    Path | None,
    option(
        "FILE", "A file with the token; HEADGATE_TOKEN where not given. Reading on the service's machine needs none."
    ),
]
Certificate = Annotated[Path | None, option("FILE", "The certificate to trust, where it is not generally trusted.")]
Why = Annotated[str, option("TEXT", "The reason, stored in the audit trail.")]
Job = Annotated[str, argument("JOB", "The name of the job.")]

Journal = Annotated[Path, argument("JOURNAL", "The journal's file.")]
Run = Annotated[int | None, option("NUMBER", "Which run; the newest where not given.", "--run")]
JobOfJournal = Annotated[
    str | None,
    option("NAME", "Which job, in a journal of several; the one that began a run last where not given.", "--job"),
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
