"""A scenario's outcome as one HTML file that needs no network: its table, its plots, and how it is to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from headgate.core.types import JSON
from headgate.lab.scenario import Outcome, Scenario
from headgate.render.page import write_page
from headgate.render.plots import Plot
from headgate.render.tables import columns_of

MANY_PLOTS = 4


def write_scenario_report(path: Path, scenario: Scenario, outcome: Outcome) -> Path:
    """Write the report and give its path; a file that exists is replaced."""
    return write_page(
        path,
        title=scenario.name,
        head=f'<p class="sub">{escape(scenario.summary)}</p>',
        sections=_sections(outcome),
        figures=[{"data": list(plot.data), "layout": plot.layout} for plot in outcome.plots],
    )


def _sections(outcome: Outcome) -> list[str]:
    """Plots, table and notes; where there are many plots, the table is not to be looked for below all of them."""
    plots, table, notes = _plots(outcome), _table(outcome.rows), _notes(outcome.notes)
    ahead = 1 if len(plots) > MANY_PLOTS else len(plots)
    return [*plots[:ahead], table, notes, *plots[ahead:]]


def _plots(outcome: Outcome) -> list[str]:
    return [
        f'<h2>{escape(plot.title)}</h2><div class="panel"><div id="figure-{index}"></div>{_key(plot)}</div>'
        for index, plot in enumerate(outcome.plots)
    ]


def _key(plot: Plot) -> str:
    return f'<p class="key">{escape(plot.key)}</p>' if plot.key else ""


def _table(rows: Sequence[Mapping[str, JSON]]) -> str:
    columns = columns_of(rows)
    kinds = [' class="number"' if one.is_number else "" for one in columns]
    head = "".join(f"<th{kind}>{escape(one.heading)}</th>" for kind, one in zip(kinds, columns, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(told)}</td>" for kind, told in zip(kinds, row, strict=True)) + "</tr>"
        for row in zip(*(one.cells for one in columns), strict=True)
    )
    return f'<h2>Table</h2><div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _notes(notes: Sequence[str]) -> str:
    return '<ul class="notes">' + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>" if notes else ""
