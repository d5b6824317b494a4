"""A scenario's outcome as one HTML file that needs no network: its table, its plots, and how it is to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from headgate._version import __version__
from headgate.core.types import JSON
from headgate.journal.codec import to_json
from headgate.lab.files import write_file
from headgate.lab.report import require_plotly
from headgate.lab.scenario import Outcome, Plot, Scenario
from headgate.lab.tables import columns_of


def write_scenario_report(path: Path, scenario: Scenario, outcome: Outcome) -> Path:
    """Write the report and give its path; a file that exists is replaced."""
    page = Template(files("headgate.lab").joinpath("report.html").read_text(encoding="utf-8")).substitute(
        title=escape(scenario.name),
        head=f'<p class="sub">{escape(scenario.summary)}</p>',
        cards="",
        sections="\n".join((*_plots(outcome), _table(outcome.rows), _notes(outcome.notes))),
        footer=f"Made by Headgate {escape(__version__)}.",
        plotly=require_plotly(),
        # Inside a script element nothing is unescaped, so its end must not be found in the data.
        figures=to_json([{"data": plot.data, "layout": plot.layout} for plot in outcome.plots]).replace("<", "\\u003c"),
    )
    write_file(path, page)
    return path


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
