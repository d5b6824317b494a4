"""giannakopoulos §5.4: both modes from the first record on, under a load made from the World Cup 98 trace."""

from __future__ import annotations

from datetime import UTC, datetime
from statistics import fmean

import numpy as np

from headgate.core.types import JSON
from headgate.lab.scenario import Outcome, Progress, scenario
from headgate.research.giannakopoulos import NOTES, Played, play
from headgate.workloads.steps import Steps
from headgate.workloads.traces import read_trace

SECONDS = 3 * 3600.0
FROM = datetime(1998, 6, 30, 14, 30, tzinfo=UTC)
UNTIL = datetime(1998, 6, 30, 20, 30, tzinfo=UTC)
PEAK_PER_S = 1600.0
SEEDS = (1, 2, 3)
DOCUMENT = {
    "reactive": {"mean_instances": 1.59, "optimal_control_from_sample": None, "optimal_control_until_sample": None},
    "proactive": {"mean_instances": 1.56, "optimal_control_from_sample": 800, "optimal_control_until_sample": 1700},
}


def world_cup() -> Steps:
    """Six hours with two matches, played in three, with its peak at about two instances."""
    rates = read_trace("wc98").between(FROM, UNTIL)
    scaled = rates * PEAK_PER_S / rates.max()
    times_s = np.linspace(0.0, SECONDS, len(scaled) + 1)
    return Steps([float(at_s) for at_s in times_s], [float(rate) for rate in scaled], "World Cup 98")


@scenario(
    "giannakopoulos-5.4",
    "Three hours made from the World Cup 98 trace: exploration, optimal control, and reactive.",
    takes_s=50.0,
)
def run(progress: Progress) -> Outcome:
    workload = world_cup()
    rows: list[dict[str, JSON]] = []
    plots = []
    for policy, settings in (("reactive", None), ("proactive", {"check_every_s": 1500.0})):
        runs = [play(policy, workload, seconds=SECONDS, settings=settings, seed=seed) for seed in SEEDS]
        rows.append(_row(policy, runs))
        plots.append(runs[0].plot(policy))
        progress(0.5 * len(rows))
    notes = (
        *NOTES,
        "The document generated its load from a part of the trace that it does not name. This is 30 June 1998 from "
        "14:30 to 20:30 GMT, every minute of it played in 30 s, and the peak scaled to what two instances can just "
        "carry. Stability is checked every 300 samples of 5 s; a sample is a look at the job. Means over three "
        "seeds, and the switches of the first.",
        "The document left optimal control when the share of slow records rose under a steady load, which it takes for "
        "a fault of its infrastructure; nothing of the kind happens here.",
    )
    return Outcome(rows, notes, plots)


def _row(policy: str, runs: list[Played]) -> dict[str, JSON]:
    summaries = [played.result.summary for played in runs]
    switches = runs[0].switches
    return {
        "policy": policy,
        "violations": round(fmean(played.violations() for played in runs), 2),
        "slo_violation_pct": round(fmean(summary.slo_violation_pct or 0.0 for summary in summaries), 3),
        "mean_instances": round(fmean(summary.mean_instances for summary in summaries), 3),
        "rescales": round(fmean(summary.rescales for summary in summaries), 1),
        "optimal_control_from_sample": round(switches[0].at_s / 5) if switches else None,
        "optimal_control_until_sample": round(switches[1].at_s / 5) if len(switches) > 1 else None,
        "document": DOCUMENT[policy],
    }
