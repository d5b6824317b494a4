"""A replay as tables of text, and as an HTML file that separates measured from simulated figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from headgate.core.objective import Objective
from headgate.core.types import JSON
from headgate.core.units import plain
from headgate.lab.journal_replay import CHECKED, JobEstimate, JournalReplay
from headgate.render.figures import figure
from headgate.render.page import html_table, write_page
from headgate.render.report import UNKNOWN
from headgate.render.story import story_of
from headgate.runtime.summary import Summary

_WORDS = {
    "instance_seconds": ("instance-seconds", ""),
    "late_records_pct": ("late records", " %"),
    "latency_p50_s": ("latency p50", " s"),
    "latency_p95_s": ("latency p95", " s"),
}


def found_rows(estimates: Sequence[JobEstimate]) -> list[dict[str, str]]:
    """Return the estimated properties of the job, with their 90 % bootstrap intervals."""
    return [
        {
            "": found.name,
            "value": f"{plain(found.value)} {found.unit}",
            "9 in 10": UNKNOWN
            if found.low is None or found.high is None
            else f"{plain(found.low)} to {plain(found.high)}",
            "from": found.seen,
        }
        for found in estimates
    ]


def check_rows(replay: JournalReplay) -> list[dict[str, str]]:
    """Return measured figures next to those of the simulated job with the recorded sizes, with the errors.

    The job is simulated with the recorded delays, and as other policies are simulated.
    """
    rows = []
    for name in CHECKED:
        words, unit = _WORDS[name]
        live, again, predicted = (
            getattr(summary, name) for summary in (replay.measured, replay.again, replay.predicted)
        )
        rows.append(
            {
                "": words,
                "measured": _figure(live, unit),
                "held up as recorded": _figure(again, unit),
                "off": _off(name, live, again),
                "as policies are": _figure(predicted, unit),
                "off by": _off(name, live, predicted),
            }
        )
    return rows


def _off(name: str, live: float | None, again: float | None) -> str:
    if live is None or again is None:
        return UNKNOWN
    if name == "late_records_pct" and live < 1:
        # A relative error of a share near 0 means nothing.
        return f"{again - live:+.1f} points"
    return f"{100 * (again / live - 1):+.1f} %" if live else UNKNOWN


def outcome_rows(replay: JournalReplay) -> list[dict[str, str]]:
    """Return the measured figures, and below them the simulated ones of each policy."""
    named = {"measured": replay.measured} | {f"{name}, simulated": summary for name, summary in replay.outcomes.items()}
    return [_outcome_row(name, summary) for name, summary in named.items()]


def _outcome_row(name: str, summary: Summary) -> dict[str, str]:
    return {
        "": name,
        "late records": _figure(summary.late_records_pct, " %"),
        "latency p50": _figure(summary.latency_p50_s, " s"),
        "latency p95": _figure(summary.latency_p95_s, " s"),
        "mean instances": f"{summary.mean_instances:.2f}",
        "instance hours": f"{summary.instance_seconds / 3600:.3f}",
        "changes": str(summary.rescales),
        **({} if summary.cost is None else {"cost": plain(summary.cost)}),
    }


def write_replay_report(path: Path, replay: JournalReplay, about: Mapping[str, JSON], objective: Objective) -> Path:
    """Write the report and return its path; an existing file is replaced."""
    job = replay.job
    figures = [figure(job.observations, story_of(job.decisions, job.observations), objective, job.operator)]
    headings = ["Measured: what happened"]
    for name, run in replay.runs.items():
        figures.append(figure(run.observations, story_of(run.decisions, run.observations), objective, "job"))
        headings.append(f"Simulated: {name}")
    sections = [
        "<h2>Found out about the job</h2>" + html_table(found_rows(replay.found)),
        "<h2>Measured, and simulated with the recorded sizes</h2>" + html_table(check_rows(replay)),
        "<h2>What each policy comes to under the recorded load</h2>" + html_table(outcome_rows(replay)),
        *(
            f'<h2>{escape(heading)}</h2><div class="panel"><div id="figure-{place}"></div></div>'
            for place, heading in enumerate(headings)
        ),
    ]
    return write_page(
        path,
        title=f"Replay of run {about['run']}",
        head=f'<p class="sub">{escape(_head(about))}</p>',
        sections=sections,
        figures=figures,
    )


def _head(about: Mapping[str, JSON]) -> str:
    return (
        f"Objective: {about['objective']}. {about['policy']} acted on {about['operator']}; its figures were "
        "measured, all others are simulated on a job calibrated to that run."
    )


def _figure(value: float | None, unit: str = "") -> str:
    return UNKNOWN if value is None else f"{plain(value)}{unit}"
