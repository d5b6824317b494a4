"""A replay as tables of text, and as one HTML file in which what was measured and what is simulated are kept apart."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from headgate.core.objective import Objective
from headgate.core.types import JSON
from headgate.core.units import plain
from headgate.lab.journal_replay import CHECKED, JournalReplay
from headgate.render.figures import figure
from headgate.render.page import write_page
from headgate.render.report import UNKNOWN
from headgate.render.story import story_of
from headgate.render.tables import html_table
from headgate.runtime.summary import Summary

_WORDS = {
    "instance_seconds": ("instance-seconds", ""),
    "late_records_pct": ("late records", " %"),
    "latency_p50_s": ("latency p50", " s"),
    "latency_p95_s": ("latency p95", " s"),
}


def found_rows(replay: JournalReplay) -> list[dict[str, str]]:
    """What was found out about the job, with nine in ten of what drawing anew gives."""
    return [
        {
            "": one.name,
            "value": f"{plain(one.value)} {one.unit}",
            "9 in 10": UNKNOWN if one.low is None or one.high is None else f"{plain(one.low)} to {plain(one.high)}",
            "from": one.seen,
        }
        for one in replay.found
    ]


def check_rows(replay: JournalReplay) -> list[dict[str, str]]:
    """What was measured, and what the simulated job comes to with the recorded sizes: held up just as the recorded one
    was, and as other policies are simulated; each with by how much it is off."""
    rows = []
    for name in CHECKED:
        words, unit = _WORDS[name]
        live, again, foretold = (getattr(one, name) for one in (replay.measured, replay.again, replay.foretold))
        rows.append(
            {
                "": words,
                "measured": _told(live, unit),
                "held up as recorded": _told(again, unit),
                "off": _off(name, live, again),
                "as policies are": _told(foretold, unit),
                "off by": _off(name, live, foretold),
            }
        )
    return rows


def _off(name: str, live: float | None, again: float | None) -> str:
    if live is None or again is None:
        return UNKNOWN
    if name == "late_records_pct" and live < 1:
        # A share of next to nothing says nothing.
        return f"{again - live:+.1f} points"
    return f"{100 * (again / live - 1):+.1f} %" if live else UNKNOWN


def outcome_rows(replay: JournalReplay) -> list[dict[str, str]]:
    """What was measured, and below it what each policy comes to, simulated."""
    named = {"measured": replay.measured} | {f"{name}, simulated": one for name, one in replay.outcomes.items()}
    return [_outcome_row(name, one) for name, one in named.items()]


def _outcome_row(name: str, summary: Summary) -> dict[str, str]:
    return {
        "": name,
        "late records": _told(summary.late_records_pct, " %"),
        "latency p50": _told(summary.latency_p50_s, " s"),
        "latency p95": _told(summary.latency_p95_s, " s"),
        "mean instances": f"{summary.mean_instances:.2f}",
        "instance hours": f"{summary.instance_seconds / 3600:.3f}",
        "changes": str(summary.rescales),
        **({} if summary.cost is None else {"cost": plain(summary.cost)}),
    }


def write_replay_report(path: Path, replay: JournalReplay, about: Mapping[str, JSON], objective: Objective) -> Path:
    """Write the report and give its path; a file that exists is replaced."""
    job = replay.job
    figures = [figure(job.observations, story_of(job.decisions, job.observations), objective, job.operator)]
    headings = ["Measured: what happened"]
    for name, run in replay.runs.items():
        figures.append(figure(run.observations, story_of(run.decisions, run.observations), objective, "job"))
        headings.append(f"Simulated: {name}")
    sections = [
        "<h2>Found out about the job</h2>" + html_table(found_rows(replay)),
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
        f"Objective: {about['objective']}. {about['policy']} acted on {about['operator']}; what it came to was "
        "measured, all else is simulated on a job that was calibrated to that run."
    )


def _told(value: float | None, unit: str = "") -> str:
    return UNKNOWN if value is None else f"{plain(value)}{unit}"
