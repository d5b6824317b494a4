"""How long proactive takes: a decision, the fit of its model, and the stability check with 250 refits."""

from __future__ import annotations

import numpy as np
from benchmarks.common import best_s, reference_s, report

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Instances, Observation, Sample
from headgate.core.window import History
from headgate.policies.capacity.performance import Point, Polynomial, as_arrays, fit_performance
from headgate.policies.capacity.stability import check_stability, prediction_spread
from headgate.policies.frame.base import Context, make_policy

READINGS = 3000
RESAMPLES = 250


def points() -> list[Point]:
    random = np.random.default_rng(1)
    sizes = random.integers(1, 9, READINGS)
    rates = sizes * random.uniform(2.0, 45.0, READINGS)
    pressures = 0.05 + 0.8 * (rates / sizes / 45) ** 3 + 0.05 * random.normal(size=READINGS)
    return [
        Point(float(rate), int(size), max(0.0, float(pressure)))
        for rate, size, pressure in zip(rates, sizes, pressures, strict=True)
    ]


def bench_proactive() -> None:
    """Seconds for each of the parts, with as many readings as are ever retained."""
    measured = points()
    model, retained = fit_performance(measured, 45.0)
    rates, sizes, pressures = as_arrays(retained)
    highest = Polynomial(8, 7, model.polynomial.loads, model.polynomial.sizes).design(rates, sizes)
    topology = Topology.single()
    objective = parse_objective("latency p95 < 4s").within(1, 50)
    policy = make_policy("proactive", Context(objective, topology))
    window = History(topology)
    for at_s in range(0, 1200, 5):
        sample = Sample("job", at_s, 180.0, 250.0, 0.0, 2.0, 2.0, 0.0, 5.0)
        window.observe(Observation(at_s, {"job": sample}, {"job": Instances(6, 6, 6)}))
        policy.decide(at_s, window)
    policy.restore(with_model(dict(policy.snapshot()), model.to_json()))
    work = {
        "decision in optimal control": lambda: policy.decide(1195.0, window),
        "fit, degrees 1 to 8": lambda: fit_performance(measured, 45.0),
        "stability check": lambda: check_stability(model, retained, 180.0, 6, threshold=0.5, resamples=RESAMPLES),
        "stability check, degree 8": lambda: prediction_spread(highest, pressures, highest, resamples=RESAMPLES),
    }
    yardstick_s = reference_s()
    report(
        "proactive",
        [
            {"what": what, "seconds": (took_s := best_s(run)), "times_reference_loop": took_s / yardstick_s}
            for what, run in work.items()
        ],
    )


def with_model(state: dict[str, object], model: dict[str, object]) -> dict[str, object]:
    """A policy's state with a model put in, as if exploration had ended."""
    operators = state["operators"]
    assert isinstance(operators, dict)
    operators["job"] |= {"model": model, "detector": {"residuals": [], "beyond": 0}, "points": []}
    return state


if __name__ == "__main__":
    bench_proactive()
