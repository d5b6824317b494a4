"""giannakopoulos §5.2: exploration under a load that follows a bell curve for five hours."""

from __future__ import annotations

from headgate.core.types import JSON
from headgate.lab.scenario import Outcome, Progress, scenario
from headgate.research.giannakopoulos import NOTES, Played, model_plot, play
from headgate.workloads.shapes import Gaussian

SECONDS = 5 * 3600.0
CHECK_EVERY_S = 6750.0
WORKLOAD = Gaussian(base=0.0, peak=4500.0, center_s=SECONDS / 2, sigma_s=45 * 60.0)


def explored() -> Played:
    """The experiment itself; what it learned is what §5.3 begins with."""
    return play("proactive", WORKLOAD, seconds=SECONDS, interval_s=15.0, settings={"check_every_s": CHECK_EVERY_S})


@scenario(
    "giannakopoulos-5.2",
    "Five hours of a bell-shaped load: how long exploration takes, and what it learns.",
    takes_s=10.0,
)
def run(progress: Progress) -> Outcome:
    played = explored()
    progress(0.8)
    reactive = play("reactive", WORKLOAD, seconds=SECONDS, interval_s=15.0)
    progress(1.0)
    first = next((event for event in played.switches), None)
    explored_s = SECONDS if first is None else first.at_s
    summary = played.result.summary
    numbers: dict[str, JSON] = {} if first is None else dict(first.numbers)
    rows: list[dict[str, JSON]] = [
        _row("exploration lasts, minutes", round(explored_s / 60, 1), "to the end of the experiment (300)"),
        _row("readings in the model", numbers.get("readings"), "not printed; checked every 450"),
        _row("outliers left out", numbers.get("outliers"), "none are looked for"),
        _row("degree", numbers.get("degree"), "not printed; 1 to 8 tried"),
        _row("error near the bound, share of the bound", _rounded(numbers.get("error")), "not printed"),
        _row("spread at the readings, share of the bound", _rounded(numbers.get("spread_at_readings")), "at most 0.5"),
        _row(
            "spread up to capacity, share of the bound", _rounded(numbers.get("spread_up_to_capacity")), "at most 0.5"
        ),
        _row("violations in exploration", played.violations(until_s=explored_s), "one before each scale-out"),
        _row("scale-outs in exploration", _scale_outs(played, explored_s), "one per violation"),
        _row("violations while the load falls", played.violations(from_s=SECONDS / 2), "0"),
        _row("mean instances", round(summary.mean_instances, 3), "not printed"),
        _row("mean instances of reactive", round(reactive.result.summary.mean_instances, 3), "not printed"),
        _row("violations, whole run", played.violations(), "not printed"),
        _row("violations of reactive, whole run", reactive.violations(), "not printed"),
    ]
    notes = (
        *NOTES,
        f"Stability is checked every {CHECK_EVERY_S:g} s, the time that 450 samples of 15 s take. The document's "
        "check, which measures the spread of predictions over inputs, passed at the end; the first one passes "
        "here, which measures the spread over refits. So the second half of this run is under optimal control.",
    )
    plots = [played.plot("Exploration, then optimal control")]
    if played.result.state["operators"]["job"]["model"] is not None:
        plots.append(model_plot(played.result.state))
    return Outcome(rows, notes, plots)


def _row(what: str, value: JSON, document: str) -> dict[str, JSON]:
    return {"what": what, "value": value, "document": document}


def _rounded(value: JSON) -> JSON:
    return round(value, 4) if isinstance(value, float) else value


def _scale_outs(played: Played, until_s: float) -> int:
    return sum(decision.verdicts["job"].change > 0 for decision in played.decisions if decision.at_s < until_s)
