"""How fast forecasts are made: a refit of ARMA by order, a choice of the order, and a step of each forecaster."""

from __future__ import annotations

import numpy as np
from benchmarks.common import Row, best_s, reference_s, report

from headgate.forecast import forecaster_names, make_forecaster
from headgate.forecast.arma_fit import fit_arma, select_order
from headgate.forecast.base import FloatArray

WINDOW = 100
ROUNDS = 50
ORDERS = ((1, 0), (1, 1), (1, 2), (2, 2), (3, 3))


def load(steps: int = 2000) -> FloatArray:
    """A daily cycle in minutes with noise that lasts a while, seeded."""
    random = np.random.default_rng(0)
    noise = np.zeros(steps)
    for step in range(1, steps):
        noise[step] = 0.9 * noise[step - 1] + random.normal(0, 3)
    return 100 + 40 * np.sin(2 * np.pi * np.arange(steps) / 1440) + noise


def bench_arma_refit() -> None:
    """Milliseconds per refit on a window of 100 values."""
    yardstick_s = reference_s()
    values = load()
    windows = [values[20 * index : 20 * index + WINDOW] for index in range(ROUNDS)]
    rows: list[Row] = []
    for order in ORDERS:
        fit_arma(windows[0], order)
        refit_s = best_s(lambda o=order: [fit_arma(window, o) for window in windows], repeats=3) / ROUNDS  # type: ignore[misc]
        name = f"refit ARMA{order}"
        rows.append(
            {"what": name, "milliseconds": 1000 * refit_s, "per_million_reference_loops": refit_s / yardstick_s}
        )
    choice_s = best_s(lambda: select_order(windows[0]), repeats=3)
    rows.append(
        {
            "what": "choose p, q ≤ 3",
            "milliseconds": 1000 * choice_s,
            "per_million_reference_loops": choice_s / yardstick_s,
        }
    )
    report("forecast-arma", rows)


def bench_forecasters() -> None:
    """Milliseconds to take in one value and forecast twelve steps."""
    values = load()
    rows: list[Row] = []
    for name in forecaster_names():
        forecaster = make_forecaster(name, {"period": 60} if name in {"fourier", "seasonal-naive"} else None)
        for value in values[:300]:
            forecaster.observe(float(value))

        def step(candidate: object = forecaster) -> None:
            for value in values[300:400]:
                candidate.observe(float(value))  # type: ignore[attr-defined]
                candidate.forecast(12)  # type: ignore[attr-defined]

        rows.append({"what": name, "milliseconds": 10 * best_s(step, repeats=2)})
    report("forecast-step", rows)


if __name__ == "__main__":
    bench_arma_refit()
    bench_forecasters()
