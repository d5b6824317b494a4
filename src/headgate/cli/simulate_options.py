"""What the options of headgate simulate mean, and what is said when a run cannot go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.cli.common import duration_s
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
    from headgate.runtime.service_rate import parse_service_rate
    from headgate.simulation.service_models import ServiceModel

    speed = parse_service_rate(rate, model, startup)
    if isinstance(speed, ServiceModel):
        found = {"service_rate_per_s": speed.rate_per_s, "model": speed.micro_batch(max_instances)}
        return found if speed.startup_s is None else {**found, "startup_s": speed.startup_s}
    single, works = speed if isinstance(speed, tuple) else (speed, model or "queue")
    return {"service_rate_per_s": single, "model": works}


def kept_in(journal: Path | None) -> str:
    """What is kept of a run that is interrupted."""
    return "nothing is kept; --journal FILE would keep it" if journal is None else f"what was done is in {journal}"


@contextmanager
def told_with_file(state: Path | None) -> Iterator[None]:
    """Say which file has state that does not fit."""
    try:
        yield
    except StateError as error:
        if state is None:
            raise
        raise StateError(f"--state {state} cannot be used: {error}") from error
