"""An assessment as sentences and tables, in a terminal and on an HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from headgate.core.objective import HOUR_S
from headgate.core.types import JSON
from headgate.core.units import format_duration, plain
from headgate.journal.findings import money
from headgate.lab.assess import MEASURED, SPARKS_OWN, Assessment, Prospect
from headgate.lab.replay_report import found_rows
from headgate.render.figures import figure
from headgate.render.page import html_table, number, write_page
from headgate.render.report import UNKNOWN
from headgate.render.story import story_of
from headgate.runtime.summary import Summary

_NAMES = {SPARKS_OWN: "Spark's own allocation", MEASURED: "measured"}
MOST_FIGURES = 10
"""Applications on a page that are shown with plots."""


def objective_line(item: Assessment) -> str:
    """Return the objective, and whether it was given."""
    bounds = f"{item.objective.min_instances} to {item.objective.max_instances} executors"
    return f"Objective: {item.objective}, {bounds}" + (", which is what it met so far." if item.is_derived else ".")


def load_line(item: Assessment) -> str:
    """Return what the load was."""
    load = item.load
    return (
        f"Load: {number(round(load.records))} records in {format_duration(item.seconds)}, "
        f"{plain(load.mean_per_s)} per second on average, "
        f"{plain(load.peak_per_s)} at the highest (after {format_duration(round(load.peak_at_s))}), "
        f"below {plain(load.quiet_per_s)} a twentieth of the time."
    )


def so_far_line(item: Assessment) -> str:
    """Return what the job delivered so far, and at what size and cost; empty where that is not known."""
    measured = item.measured
    if measured is None:
        return ""
    latencies = ", ".join(
        f"{name} {plain(value)} s"
        for name, value in (
            ("p50", measured.latency_p50_s),
            ("p95", measured.latency_p95_s),
            ("p99", measured.latency_p99_s),
        )
        if value is not None
    )
    outcome = {True: "met", False: "not met", None: "not known to be met"}[item.is_met]
    late = "" if measured.late_records_pct is None else f", {plain(measured.late_records_pct)} % late"
    cost = "" if measured.cost is None else f" ({money(measured.cost)})"
    return (
        f"So far: latency {latencies}; objective {outcome}{late}, with an average size of "
        f"{plain(measured.mean_instances)} and {plain(measured.instance_seconds / HOUR_S)} executor hours{cost}."
    )


def prospect_rows(item: Assessment) -> list[dict[str, str]]:
    """Return what was measured, and below it what each way to size the job would have come to."""
    rows = [] if item.measured is None else [_measured_row(item, item.measured)]
    return rows + [_prospect_row(item, prospect) for prospect in item.prospects.values()]


def _measured_row(item: Assessment, measured: Summary) -> dict[str, str]:
    late = measured.late_records_pct
    return {
        "": _NAMES[MEASURED],
        "late records, %": UNKNOWN if late is None else plain(late),
        "executor hours": plain(measured.instance_seconds / HOUR_S),
        "against now": "",
        **({} if measured.cost is None else {"cost": plain(measured.cost)}),
        "objective": {True: "met", False: "not met", None: UNKNOWN}[item.is_met],
    }


def _prospect_row(item: Assessment, prospect: Prospect) -> dict[str, str]:
    late, (low, high) = prospect.late_range, prospect.hours_range
    price = item.objective.price_per_instance_hour
    paid_h = None if item.measured is None else item.measured.instance_seconds / HOUR_S
    met = f"met in {sum(prospect.met)} of {len(prospect.met)}"
    return {
        "": _NAMES.get(prospect.name, prospect.name),
        "late records, %": UNKNOWN if late is None else _span(*late),
        "executor hours": _span(low, high),
        "against now": _against(low, high, paid_h),
        **({} if price is None else {"cost": _span(low * price, high * price)}),
        "objective": "met" if prospect.is_met else "not met" if not any(prospect.met) else met,
    }


def _against(low: float, high: float, paid_h: float | None) -> str:
    if not paid_h:
        return ""
    first, last = (f"{100 * (hours / paid_h - 1):+.0f}" for hours in (low, high))
    return f"{first} %" if first == last else f"{first} to {last} %"


def _span(low: float, high: float) -> str:
    first, last = plain(low), plain(high)
    return first if first == last else f"{first} to {last}"


def overview_rows(found: Sequence[Assessment]) -> list[dict[str, str]]:
    """Return a line for each of several applications."""
    return [
        {
            "": item.name,
            "objective": f"{item.objective.slo}",
            "so far": {True: "met", False: "not met", None: UNKNOWN}[item.is_met],
            "late records, %": UNKNOWN
            if item.measured is None or item.measured.late_records_pct is None
            else plain(item.measured.late_records_pct),
            "executor hours": UNKNOWN if item.measured is None else plain(item.measured.instance_seconds / HOUR_S),
            "saves, %": UNKNOWN if item.saving is None else f"{100 * item.saving:.0f}",
            "recommended": item.recommendation.partition(":")[0],
        }
        for item in found
    ]


def write_assessment(path: Path, found: Sequence[Assessment], failed: Mapping[str, str]) -> Path:
    """Write a page of several assessments, in their order, and return its path; an existing file is replaced."""
    sections: list[str] = []
    figures: list[Mapping[str, JSON]] = []
    if len(found) > 1:
        sections.append(f"<h2>All applications</h2>{html_table(overview_rows(found))}")
    for place, item in enumerate(found):
        if len(found) > 1:
            sections.append(f"<h2>{escape(item.name)}</h2>{_paragraphs(item.about, objective_line(item))}")
        sections.append(_sections_of(item))
        if place < MOST_FIGURES:
            sections.append(_figures_of(item, figures))
    if failed:
        sections.append("<h2>Not assessed</h2>" + _list([f"{name}: {problem}" for name, problem in failed.items()]))
    alone = found[0] if len(found) == 1 else None
    head = f"{len(found)} applications" if alone is None else f"{alone.about}. {objective_line(alone)}"
    return write_page(
        path,
        title="Assessment" if alone is None else f"Assessment of {alone.name}",
        head=f'<p class="sub">{escape(head)}</p>',
        sections=sections,
        figures=figures,
    )


def _sections_of(item: Assessment) -> str:
    parts = [f"<h2>What to do</h2>{_paragraphs(item.recommendation)}"]
    if item.code:
        code = "\n".join(item.code)
        parts.append(_paragraphs("To see what autopilot would do, without letting it act:"))
        parts.append(f'<div class="scroll"><pre>{escape(code)}</pre></div>')
    parts.append(f"<h2>What it was so far</h2>{_paragraphs(load_line(item), so_far_line(item))}")
    if item.prospects:
        parts.append(
            f"<h2>What it would have been</h2>{html_table(prospect_rows(item))}"
            + _paragraphs("Each range spans simulations of jobs that the log allows: others of its batches were drawn.")
        )
    if item.found:
        parts.append(f"<h2>What the job can do</h2>{html_table(found_rows(item.found))}")
    parts.append("<h2>What this does not know</h2>" + _list(item.unknown))
    if item.left_out:
        parts.append("<h2>What was left out</h2>" + _list(item.left_out))
    return "".join(parts)


def _figures_of(item: Assessment, figures: list[Mapping[str, JSON]]) -> str:
    """Add the plots of an application to those of the page, and return their places."""
    shown: list[tuple[str, Mapping[str, JSON]]] = []
    if item.job is not None:
        story = story_of(item.job.decisions, item.job.observations)
        shown.append(("Measured", figure(item.job.observations, story, item.objective, item.job.operator)))
    for name, run in item.runs.items():
        story = story_of(run.decisions, run.observations)
        shown.append((f"Simulated: {_NAMES.get(name, name)}", figure(run.observations, story, item.objective, "job")))
    places = []
    for heading, plot in shown:
        places.append(f'<h2>{escape(heading)}</h2><div class="panel"><div id="figure-{len(figures)}"></div></div>')
        figures.append(plot)
    return "".join(places)


def _paragraphs(*texts: str) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in texts if text)


def _list(items: Sequence[str]) -> str:
    return '<ul class="notes">' + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
