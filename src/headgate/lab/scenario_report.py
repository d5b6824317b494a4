"""The results of an experiment as one HTML file that needs no network: its table, its plots, and how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from headgate.lab.scenario import ScenarioOutcome
from headgate.render.page import write_page
from headgate.render.plots import Plot
from headgate.render.tables import html_table

MANY_PLOTS = 4


def write_scenario_report(path: Path, title: str, summary: str, outcome: ScenarioOutcome) -> Path:
    """Write the report and return its path; an existing file is replaced."""
    return write_page(
        path,
        title=title,
        head=f'<p class="sub">{escape(summary)}</p>',
        sections=_sections(outcome),
        figures=[{"data": list(plot.data), "layout": plot.layout} for plot in outcome.plots],
    )


def _sections(outcome: ScenarioOutcome) -> list[str]:
    """Return plots, table and notes; of many plots all but the first follow the table."""
    plots = [_plot(index, plot) for index, plot in enumerate(outcome.plots)]
    first = 1 if len(plots) > MANY_PLOTS else len(plots)
    table = f"<h2>Table</h2>{html_table(outcome.rows)}"
    return [*plots[:first], table, _notes(outcome.notes), *plots[first:]]


def _plot(index: int, plot: Plot) -> str:
    key = f'<p class="key">{escape(plot.key)}</p>' if plot.key else ""
    return f'<h2>{escape(plot.title)}</h2><div class="panel"><div id="figure-{index}"></div>{key}</div>'


def _notes(notes: Sequence[str]) -> str:
    return '<ul class="notes">' + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>" if notes else ""
