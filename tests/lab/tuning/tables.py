"""A plan without Spark, and evaluators that look their rows up, for the tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headgate.core.objective import objective_from, objective_to_data
from headgate.lab.experiments.run_case import FIGURES, Case, JobPart, LoadPart, ObjectivePart, Row
from headgate.lab.tuning.plan import Stretch, TunePlan
from headgate.lab.tuning.space import search_space
from headgate.lab.tuning.trial import Minimise

OBJECTIVE = ObjectivePart("p95 < 10s", objective_to_data(objective_from("latency p95 < 10s").within(1, 8)))
TRAINING = [Stretch(LoadPart(f"part {place}", "constant:20", 3600.0), 2) for place in range(3)]
HELD_BACK = [Stretch(LoadPart(f"held back {place}", "constant:30", 3600.0), 3) for place in range(3)]

Figures = Callable[[Mapping[str, str], str, int], tuple[float, float]]
"""Instance-hours and missed percent of settings, on a part, with a seed."""


def plan_for(
    policy: str = "hpa", *, only: Sequence[str] = ("target", "scale_in_window_s"), **changes: object
) -> TunePlan:
    given: dict[str, object] = {
        "space": search_space(policy, only=only),
        "workload": "constant:20",
        "training": TRAINING,
        "held_back": HELD_BACK,
        "job": JobPart("queue", 10.0),
        "objective_part": OBJECTIVE,
        "seeds": (0, 1),
        "search": "recursive-random",
        "minimise": Minimise.COST,
        "trials": 40,
    }
    return TunePlan(**{**given, **changes})  # type: ignore[arg-type]


class Table:
    """Evaluates by a function, and counts the requested cases."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self.requested: list[str] = []

    def __call__(self, cases: Sequence[Case]) -> list[Row]:
        self.requested += [case.key for case in cases]
        return [self._row(case) for case in cases]

    def _row(self, case: Case) -> Row:
        hours, missed_pct = self._figures(case.settings, case.workload, case.seed)
        figures = dict.fromkeys(FIGURES) | {"instance_hours": hours, "late_records_pct": missed_pct}
        return {"key": case.key, "error": None, **figures}


def near_a_target(settings: Mapping[str, str], part: str, seed: int) -> tuple[float, float]:
    """Cheapest at a target of 0.5 and a window of 200 s, where the default has 0.7 and 300 s."""
    off = (
        abs(float(settings.get("target", 0.7)) - 0.5) + abs(float(settings.get("scale_in_window_s", 300)) - 200) / 1000
    )
    noise = 0.02 * ((seed * 7 + len(part)) % 3)
    return 4 + 5 * off + noise, 1.0
