"""promises: do policies meet their objectives, and at what cost?"""

from __future__ import annotations

from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.research.promises.matrix import Matrix, run_matrix
from headgate.research.promises.runs import load_names, make_load
from headgate.research.promises.tables import goal_rows, notes_of, plots_of, rows_of

ALL = Matrix(
    loads=load_names(),
    levels=[(percentile, bound_s) for bound_s in (10.0, 30.0) for percentile in (90.0, 95.0, 99.0, 99.9)],
    startups_s=(30.0, 90.0),
)
ALL_S = 6000.0
"""The approximate duration of the whole matrix."""
LOADS = Matrix(
    loads=load_names(), levels=((95.0, 10.0), (99.0, 30.0)), startups_s=(30.0,), seeds=(0, 1), with_fixed=False
)
SHORT = Matrix(
    loads=("stairs", "walk", "demeter-cars", "dsp-avazu", "nasa", "tweets-amzn", "wc98"),
    levels=((95.0, 10.0), (99.0, 30.0)),
    startups_s=(30.0,),
    contenders=("reactive", "hpa", "ds2", "flink-autoscaler"),
)
NOTES = (
    "A day of each load on a simulated job with a batch every 2 s, 0.4 s of overhead, 8 % noise and a first batch "
    "after growth that takes half as long again; a decision every 10 s, readings like Spark's, 1 to 40 instances. "
    "Every load is scaled so that its busiest half per cent of minutes needs 12.",
    "late_pct is the share of records whose result came later than the bound; the column after worst_late_pct counts "
    "the days on which late_pct exceeds the allowed share by at most a point (of a p95). cost is in instance-seconds, "
    "from the request for an instance to its end, relative to a scaler that knows the load and has no late records; "
    "of_best_fixed is relative to the smallest fixed size that meets the objective, known only afterwards. undone "
    "counts changes that were reversed within two minutes at the same load. better_on_both counts the days on which a "
    "policy was cheaper than autopilot and had fewer late records.",
)
GOAL_NOTES = (
    "Figures of autopilot over a day of every load, both bounds and both start-up times. points off is the share of "
    "late records minus the allowed share, in percentage points. cost is relative to a scaler that knows the load and "
    "has no late records, of best fixed relative to the smallest fixed size that meets the objective (if any does).",
    "within counts the days on which the goal is met, above the days beyond its upper end; the last two columns are of "
    "loads on which no constant was chosen.",
)


@scenario(
    "promises",
    "A day of every load: objective, late records and cost of each policy (takes hours).",
    resumes=True,
    takes_s=ALL_S,
)
def run(progress: Progress) -> ScenarioOutcome:
    return _run(ALL, progress)


@scenario(
    "promises-goals",
    "The runs of promises against the goals of autopilot (takes hours).",
    resumes=True,
    takes_s=ALL_S,
)
def run_goals(progress: Progress) -> ScenarioOutcome:
    return ScenarioOutcome(goal_rows(run_matrix(ALL, progress)), GOAL_NOTES)


@scenario(
    "promises-loads",
    "Two days of every load at two levels: objective, late records and cost (takes long).",
    resumes=True,
    takes_s=3600.0,
)
def run_loads(progress: Progress) -> ScenarioOutcome:
    return _run(LOADS, progress)


@scenario(
    "promises-short",
    "A day of seven loads on which no constant was chosen: objective, late records and cost.",
    resumes=True,
    takes_s=400.0,
)
def run_short(progress: Progress) -> ScenarioOutcome:
    return _run(SHORT, progress)


def _run(matrix: Matrix, progress: Progress) -> ScenarioOutcome:
    chosen = [name for name in matrix.loads if make_load(name).chosen_on]
    cells = run_matrix(matrix, progress)
    constants = f"The constants of autopilot were chosen on {', '.join(chosen) or 'none of these loads'}."
    others = f"The others have the defaults of their sources: {', '.join(matrix.contenders)}."
    return ScenarioOutcome(
        rows_of(cells),
        (*NOTES, constants, others, *notes_of(cells)),
        plots_of(cells),
        details=[cell.to_json() for cell in cells],
    )
