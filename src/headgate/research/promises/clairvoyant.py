"""The clairvoyant of ``lab/measures/clairvoyant.py`` on the loads and the job of the promises."""

from __future__ import annotations

from headgate.forecast.base import FloatArray
from headgate.lab.measures.clairvoyant import needed_instances, paid_instances
from headgate.research.promises.loads import SERVICE_RATE_PER_S, Load
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads.day_load import STEP_S


def clairvoyant_sizes(
    load: Load, *, job: MicroBatch, bound_s: float, startup_s: float, bounds: tuple[int, int]
) -> FloatArray:
    """The instances that are paid for, one value per ``STEP_S``."""
    needed = needed_instances(
        load.rates_per_s, STEP_S, service_rate_per_s=SERVICE_RATE_PER_S, job=job, bound_s=bound_s, bounds=bounds
    )
    return paid_instances(needed, STEP_S, startup_s)
