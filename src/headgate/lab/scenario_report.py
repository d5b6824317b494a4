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
from headgate.lab.scenario import Outcome, Scenario
from headgate.policies.frame.readings import plain


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
        f'<h2>{escape(plot.title)}</h2><div class="panel"><div id="figure-{index}"></div></div>'
        for index, plot in enumerate(outcome.plots)
    ]


def _table(rows: Sequence[Mapping[str, JSON]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell(row.get(name)))}</td>" for name in names) + "</tr>" for row in rows
    )
    return f'<h2>Table</h2><div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def cell(value: JSON) -> str:
    """One value of a table in words: numbers are shortened, nested ones are listed."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {cell(part)}" for name, part in value.items())
    if isinstance(value, float):
        return plain(value)
    return "" if value is None else str(value)


def _notes(notes: Sequence[str]) -> str:
    return '<ul class="notes">' + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>" if notes else ""
