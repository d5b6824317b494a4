"""Has the loops compiled before they are needed."""

from __future__ import annotations

from functools import cache

import numpy as np

from headgate.forecast.compiled import has_compiler
from headgate.policies.pilot.experts import EXPERTS, combined, extrapolated, followed, last_season
from headgate.policies.pilot.quantiles import quantiles
from headgate.policies.pilot.rollout import Future, Now, Rollout, Service
from headgate.policies.pilot.service import ServiceModel


@cache
def compile_loops() -> None:
    """Have all loops compiled now, once per process: the first decision is not the time for it."""
    if not has_compiler():
        return
    now = Now(np.ones(2), 1.0, 0.0, 0.0, 1, 1, 1.0, 1.0, 1.0, 1.0)
    future = Future(np.ones((1, 2)), np.ones((1, 1)), np.ones(1))
    Rollout(now, Service(1.0, 1.0, 1.0, 1.0), future, 1.0).rolled(np.ones(1))
    combined(extrapolated(np.ones(2)), np.ones(EXPERTS))
    followed(np.ones(EXPERTS), np.ones(EXPERTS), 1.0, 0.5)
    last_season(np.ones(2), 1, 6, 1.0)
    quantiles(np.ones(2), np.ones(2))
    quantiles(np.ones((2, 2))[:, 0], np.ones(2))
    service = ServiceModel()
    for records in (1.0, 2.0):
        service.learn(records, 1, 1.0)
