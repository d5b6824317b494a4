"""A tuning as a page: how the search went, cost against what was missed, which settings mattered, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headgate.core.types import JSON
from headgate.lab.experiments.report import COLOURS, SYMBOLS
from headgate.lab.scenario import ScenarioOutcome, write_scenario_report
from headgate.lab.tuning.trial import TrialStatus, TuningTrial, importances
from headgate.lab.tuning.tune import TuningResult
from headgate.render.page import Plot, axes, line

HOURS, MISSED = "instance-hours", "missed, %"


def write_tuning_report(path: Path, tuned: TuningResult) -> Path:
    plan = tuned.plan
    load = f"{plan.space.policy} on {plan.workload}, {plan.objective_part.name}"
    summary = f"{load}; all figures simulated. {tuned.verdict.sentence}"
    return write_scenario_report(path, f"Tuning of {plan.space.policy}", summary, outcome_of(tuned))


def outcome_of(tuned: TuningResult) -> ScenarioOutcome:
    return ScenarioOutcome(rows=front_rows(tuned), notes=notes_on(tuned), plots=_plots(tuned))


def front_rows(tuned: TuningResult) -> list[dict[str, JSON]]:
    """The default, what was chosen, and those that no other beats in both; with the settings that differ."""
    shown = {trial.number: trial for trial in (tuned.trials[0], *tuned.front, tuned.found)}
    default = tuned.plan.space.defaults()
    rows: list[dict[str, JSON]] = []
    for trial in sorted(shown.values(), key=lambda trial: (trial.number != 0, trial.seen.total_hours, trial.number)):
        changed = {name: value for name, value in trial.values.items() if value != default.get(name)}
        rows.append(
            {
                "trial": "default" if trial.number == 0 else str(trial.number),
                HOURS: trial.seen.total_hours,
                MISSED: trial.seen.mean_missed_pct,
                "": "chosen" if trial.number == tuned.found.number else "",
                "settings": changed,
            }
        )
    return rows


def notes_on(tuned: TuningResult) -> list[str]:
    """Return notes that explain the table."""
    plan = tuned.plan
    stopped = sum(trial.status is TrialStatus.STOPPED for trial in tuned.trials)
    failed = [trial for trial in tuned.trials if trial.status is TrialStatus.FAILED]
    notes = [
        tuned.verdict.sentence,
        *tuned.verdict.lines(),
        f"Table: totals over {len(plan.training)} parts of the search's load with {len(plan.seeds)} seeds; "
        f"{plan.allowed_pct:.3g} % may be missed. Chosen is the cheapest that keeps this.",
        f"{len(tuned.trials) - 1} trials took {tuned.runs} runs; {stopped} were stopped early, which saved "
        f"{tuned.saved_pct:.0f} % of the runs.",
    ]
    if tuned.verdict.hours is not None:
        notes.append("Differences are of runs on load held back: found less default, with the 95 % interval.")
    if tuned.refused:
        notes.append(f"{tuned.refused} draws were of settings that do not go together, and were not run.")
    if failed:
        notes.append(f"{len(failed)} trials failed: {failed[0].why}")
    if plan.space.left_out:
        reasons = "; ".join(f"{name}: {why}" for name, why in plan.space.left_out.items())
        notes.append(f"Not searched: {reasons}.")
    return notes


def _plots(tuned: TuningResult) -> list[Plot]:
    plots = [_pareto(tuned), _history(tuned)]
    found = importances(tuned.plan.space, tuned.trials)
    if found:
        names = list(reversed(found))
        bars: list[dict[str, JSON]] = [
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": names,
                "x": [100 * found[setting][which] for setting in names],
            }
            for which, name in enumerate(("of cost", "of what was missed"))
        ]
        for place, bar in enumerate(bars):
            bar["marker"] = {"color": COLOURS[place], "pattern": {"shape": ("", "/")[place]}}
        axis: dict[str, JSON] = {"title": {"text": "variation explained, %"}, "range": [0, 100]}
        key = "How much of the differences between trials each setting explains by itself."
        plots.append(Plot("Which settings mattered", bars, {"xaxis": axis, "yaxis": {"automargin": True}}, key))
    return plots


def _pareto(tuned: TuningResult) -> Plot:
    groups = {
        "trials": [trial for trial in tuned.trials if trial.is_done],
        "not beaten in both": tuned.front,
        "default": [tuned.trials[0]],
        "chosen": [tuned.found],
    }
    data: list[dict[str, JSON]] = [
        {
            "type": "scatter",
            "mode": "lines+markers" if name == "not beaten in both" else "markers",
            "name": name,
            "x": [trial.seen.total_hours for trial in trials],
            "y": [trial.seen.mean_missed_pct for trial in trials],
            "text": [f"trial {trial.number}" for trial in trials],
            "marker": {"symbol": SYMBOLS[place], "color": COLOURS[place], "size": 7 if place == 0 else 11},
        }
        for place, (name, trials) in enumerate(groups.items())
    ]
    allowed = tuned.plan.allowed_pct
    layout: dict[str, JSON] = {
        "xaxis": {"title": {"text": HOURS}},
        "yaxis": {"title": {"text": MISSED}, "rangemode": "tozero"},
        "shapes": [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": allowed, "y1": allowed, "line": {"dash": "dot"}}
        ],
    }
    return Plot("Cost against what was missed", data, layout, "A point is a trial. Dotted: what may be missed.")


def _history(tuned: TuningResult) -> Plot:
    done = [trial for trial in tuned.trials if trial.is_done]
    allowed = tuned.plan.allowed_pct
    keeping = [trial for trial in done if trial.seen.mean_missed_pct <= allowed]
    other = [trial for trial in done if trial.seen.mean_missed_pct > allowed]
    best: list[float] = []
    for trial in keeping:
        best.append(min(best[-1], trial.seen.total_hours) if best else trial.seen.total_hours)
    data = [
        _points("keeps the objective", keeping, 0),
        _points("misses it", other, 1),
        line("best so far", [trial.number for trial in keeping], best, line={"shape": "hv", "color": COLOURS[2]}),
    ]
    return Plot(
        "The course of the search",
        data,
        axes("trial", HOURS),
        "A point is a trial, in the order in which they were made.",
    )


def _points(name: str, trials: Sequence[TuningTrial], place: int) -> dict[str, JSON]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [trial.number for trial in trials],
        "y": [trial.seen.total_hours for trial in trials],
        "marker": {"symbol": SYMBOLS[place], "color": COLOURS[place], "size": 8},
    }
