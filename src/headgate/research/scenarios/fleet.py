"""fleet: a thousand jobs, or fewer, on a cluster that is too small for all of them at their busiest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headgate.core.arbiter import Arbiter, Arbitration, Pace
from headgate.core.quotas import Quota
from headgate.core.types import JSON
from headgate.lab.scenario import Outcome, Progress, scenario
from headgate.render.plots import Plot
from headgate.research.fleet import GROUPS, LATE_AFTER_S, SPAN_S, FirstCome, Fleet, FleetRun, groups_of, run_fleet

ALLOWED_SHARE = 0.05
CLUSTER_SHARE = 0.8
"""Of what all would have together at their busiest."""
SMALL = 150
PACED_SHARE = 0.1
"""Of the jobs may change their size within 10 s."""
NOTES = (
    "Simulated jobs of three groups, whose loads rise once and fall again within an hour, most in the middle of it; a "
    "decision of each every 10 s by reactive, 30 s until an instance is ready, asked for is latency p95 < "
    f"{LATE_AFTER_S:g} s. The cluster has {100 * CLUSTER_SHARE:.0f} % of the instances that all have at their busiest "
    "where nothing limits them; no group may take all of it.",
    "first come: whoever asks gets what is free just then. arbitrated: what loads need before any reserve, by "
    "the priorities of the groups (orders before reports before archive), and within one the objective with the most "
    "budget left gives way first. paced: at most a tenth of the jobs change their size in any 10 s.",
    "kept % is the share of jobs with at most 5 % of their records late, late % the mean share of late records, "
    "worst % that of the worst job; cut counts decisions that got less than they wanted or had to wait for others; "
    "rescales 10s is the largest number of jobs that changed their size within 10 s.",
)


@scenario(
    "fleet",
    "1,000 jobs on 80 % of the cluster they want: first come, arbitrated, and paced (takes minutes).",
    takes_s=600.0,
)
def run(progress: Progress) -> Outcome:
    return run_variants(Fleet(), progress)


@scenario("fleet-small", "The same with 150 jobs, which takes a minute.")
def run_small(progress: Progress) -> Outcome:
    return run_variants(Fleet(jobs=SMALL), progress)


def run_variants(fleet: Fleet, progress: Progress) -> Outcome:
    def part(number: int, share: float) -> None:
        progress((number + share) / 4)

    free = run_fleet(fleet, None, partial(part, 0))
    cluster = round(CLUSTER_SHARE * free.most_instances)
    pace = pace_of(fleet)
    limited: Sequence[tuple[str, Arbitration]] = (
        ("first come", FirstCome(cluster)),
        ("arbitrated", Arbiter(groups_of(cluster), Quota(instances=cluster))),
        ("arbitrated, paced", Arbiter(groups_of(cluster), Quota(instances=cluster), pace)),
    )
    runs = {"without limits": free}
    for number, (name, arbitration) in enumerate(limited, 1):
        runs[name] = run_fleet(fleet, arbitration, partial(part, number))
    progress(1.0)
    rows = [row for name, one in runs.items() for row in _rows(name, one)]
    return Outcome(rows, NOTES, [_plot(runs, cluster)])


def pace_of(fleet: Fleet) -> Pace:
    return Pace(max(1, round(PACED_SHARE * fleet.jobs)), SPAN_S)


def _rows(name: str, run: FleetRun) -> list[dict[str, JSON]]:
    every = [share for shares in run.late.values() for share in shares]
    told = {
        "most_instances": run.most_instances,
        "instance_hours": round(run.instance_hours),
        "rescales": run.rescales,
        "rescales_10s": run.most_rescales,
        "cut": run.cut,
    }
    rows: list[dict[str, JSON]] = [{"variant": name, "group": "all", **_shares(every), **told}]
    return [*rows, *({"variant": name, "group": group, **_shares(run.late[group])} for group, _, _ in GROUPS)]


def _shares(late: Sequence[float]) -> dict[str, JSON]:
    return {
        "jobs": len(late),
        "kept_pct": round(100 * sum(share <= ALLOWED_SHARE for share in late) / len(late), 1),
        "late_pct": round(100 * sum(late) / len(late), 2),
        "worst_pct": round(100 * max(late), 1),
    }


def _plot(runs: dict[str, FleetRun], cluster: int) -> Plot:
    lines = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": [at_s / 60 for at_s, _ in run.sizes],
            "y": [size for _, size in run.sizes],
        }
        for name, run in runs.items()
    ]
    return Plot(
        f"Instances of all jobs; the cluster has {cluster}",
        lines,
        {"xaxis": {"title": {"text": "minutes"}}, "yaxis": {"title": {"text": "instances"}}},
        "Lines: instances that all jobs have asked for, by who says what they may have.",
    )
