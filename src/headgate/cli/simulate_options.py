"""What the options of headgate simulate mean, and what is said when a run cannot go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headgate.cli.common import duration_s, say
from headgate.cli.interrupts import INTERRUPTED
from headgate.core.errors import InputError, StateError
from headgate.core.objective import Objective

if TYPE_CHECKING:
    from headgate.workloads.contract import Workload


def seconds_of(told: str | None, offered: Workload) -> float:
    """How long the run is: as long as was told, or as a recorded load lasts."""
    from headgate.workloads.composed import end_of

    if told is not None:
        return duration_s("--seconds", told)
    end_s = end_of(offered)
    if end_s is None:
        raise InputError(f"--seconds is missing: the workload {offered.describe()} has no end of its own.")
    return end_s


def asked_of(objective: Objective, fewest: int | None, most: int | None) -> Objective:
    """What is asked for, with the bounds of the command line where they are given."""
    return objective.within(
        objective.min_instances if fewest is None else fewest, objective.max_instances if most is None else most
    )


def service_of(rate: str, model: str | None, startup: str | None, max_instances: int) -> dict[str, Any]:
    """How fast the job is: by a number, by a service model, or as it was measured."""
    from headgate.runtime.model_file import measured_job

    try:
        return {"service_rate_per_s": float(rate), "model": model or "queue"}
    except ValueError:
        pass
    is_file = Path(rate).exists()
    if not is_file and ":" not in rate:
        raise InputError(
            f"--service-rate {rate!r} is neither a number nor a file; write for example 10, "
            "saturating:rate=10,contention=0.05, or the model file that headgate mst has written."
        )
    if model not in (None, "micro-batch"):
        kind = "model file" if is_file else "service model"
        raise InputError(f"--model {model} does not go with the {kind} {rate}; it is of a micro-batch job.")
    if not is_file:
        return _modelled(rate, startup, max_instances)
    single, batches = measured_job(Path(rate))
    return {"service_rate_per_s": single, "model": batches}


def _modelled(text: str, startup: str | None, max_instances: int) -> dict[str, Any]:
    from headgate.simulation.service_models import parse_service_model

    service = parse_service_model(text)
    found = {"service_rate_per_s": service.rate_per_s, "model": service.micro_batch(max_instances)}
    if service.startup_s is None:
        return found
    if startup is not None:
        raise InputError(f"--startup {startup} does not go with startup= in the service model {text}; one is enough.")
    return {**found, "startup_s": service.startup_s}


@contextmanager
def told_when_stopped(journal: Path | None) -> Iterator[None]:
    """Say what is kept of a run that is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        kept = "nothing is kept; --journal FILE would keep it" if journal is None else f"what was done is in {journal}"
        say(f"headgate: stopped; {kept}.", stderr=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def told_with_file(state: Path | None) -> Iterator[None]:
    """Say which file has state that does not fit."""
    try:
        yield
    except StateError as error:
        if state is None:
            raise
        raise StateError(f"--state {state} cannot be used: {error}") from error
