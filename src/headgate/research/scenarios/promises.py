"""promises: does a policy deliver what is asked of it, and what does that cost?"""

from __future__ import annotations

from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.research.promises.goals import goal_rows
from headgate.research.promises.matrix import Matrix, run_matrix
from headgate.research.promises.runs import load_names, make_load
from headgate.research.promises.tables import notes_of, plots_of, rows_of

ALL = Matrix(
    loads=load_names(),
    levels=[(percentile, bound_s) for bound_s in (10.0, 30.0) for percentile in (90.0, 95.0, 99.0, 99.9)],
    startups_s=(30.0, 90.0),
)
ALL_S = 6000.0
"""About what all of it takes."""
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
    "A day of each load on a simulated job with a batch every 2 s, 0.4 s of overhead, noise of 8 % and a first batch "
    "after growth that takes half as long again; a decision every 10 s, readings as Spark gives them, 1 to 40 "
    "instances. Every load is scaled so that its busiest half per cent of minutes needs 12.",
    "late_pct is the share of records whose result came later than the bound; kept counts the days on which that is at "
    "most what was asked, and a point (of a p95) more. cost is in instance-seconds, from the request for an instance "
    "to its end, over those of somebody who knew the load and makes nothing late; of_best_fixed is over the smallest "
    "fixed size that keeps what is asked, known afterwards. undone counts changes that were taken back within two "
    "minutes under the same load. better_on_both counts the days on which a policy was cheaper than autopilot and less "
    "late.",
)
GOAL_NOTES = (
    "Of autopilot, over a day of every load, both bounds and both start-up times. points off is the share of late "
    "records less the one that was asked, in points: below 0, fewer were late than may be. cost is over that of "
    "somebody who knew the load and makes nothing late, of best fixed over the smallest fixed size that keeps what is "
    "asked (where one does), known afterwards.",
    "within counts the days on which the goal is met, above those that are beyond it at the upper end; the last two "
    "columns are of loads on which no constant was chosen.",
)


@scenario(
    "promises",
    "A day of every load: what was asked, what was delivered, and at what cost (takes hours).",
    resumes=True,
    takes_s=ALL_S,
)
def run(progress: Progress) -> ScenarioOutcome:
    return _run(ALL, progress)


@scenario(
    "promises-goals",
    "The runs of promises against the goals that were set for autopilot (takes hours).",
    resumes=True,
    takes_s=ALL_S,
)
def run_goals(progress: Progress) -> ScenarioOutcome:
    return ScenarioOutcome(goal_rows(run_matrix(ALL, progress)), GOAL_NOTES)


@scenario(
    "promises-loads",
    "Two days of every load at two levels: asked, delivered, and at what cost (takes long).",
    resumes=True,
    takes_s=3600.0,
)
def run_loads(progress: Progress) -> ScenarioOutcome:
    return _run(LOADS, progress)


@scenario(
    "promises-short",
    "A day of seven loads on which no constant was chosen: asked, delivered, and at what cost.",
    resumes=True,
    takes_s=400.0,
)
def run_short(progress: Progress) -> ScenarioOutcome:
    return _run(SHORT, progress)


def _run(matrix: Matrix, progress: Progress) -> ScenarioOutcome:
    chosen = [name for name in matrix.loads if make_load(name).chosen_on]
    cells = run_matrix(matrix, progress)
    told = (
        f"The constants of autopilot were chosen on {', '.join(chosen)}."
        if chosen
        else ("The constants of autopilot were chosen on none of these loads.")
    )
    others = f"The others have the defaults of their sources: {', '.join(matrix.contenders)}."
    return ScenarioOutcome(
        rows_of(cells),
        (*NOTES, told, others, *notes_of(cells)),
        plots_of(cells),
        details=[cell.to_json() for cell in cells],
    )
