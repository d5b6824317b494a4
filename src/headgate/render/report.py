"""A run as one HTML file that needs no network: figures, plots, what was decided and why, and how fixed sizes would do.

It is made from core values only, so a simulated run, a live one and one read back from a journal look the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from headgate.core.objective import LatencySlo, Objective
from headgate.core.spending import Spending
from headgate.core.types import Decision, Event, Instant, Observation, Receipt
from headgate.core.units import format_duration, plain
from headgate.journal.findings import (
    Standing,
    burn_in_words,
    left_in_words,
    money,
    pace_in_words,
    replayed_standing,
    spent_in_words,
    total_spent,
)
from headgate.render.figures import KEY, figure
from headgate.render.page import write_page
from headgate.render.story import Hold, Item, Row, coverage, coverage_in_words, row_of, story_of
from headgate.runtime.summary import Summary

MAX_ROWS = 500
"""Rows of the story in the table; ``headgate explain`` lists all of them."""

UNKNOWN = "–"


def write_report(  # noqa: PLR0913 - one keyword per part of the report
    path: Path | str,
    *,
    title: str,
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    objective: Objective,
    summary: Summary,
    receipts: Sequence[Receipt] = (),
    events: Sequence[Event] = (),
    comparison: Mapping[str, Summary] | None = None,
    operators: Mapping[str, Summary] | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write the report of one run and give its path.

    Args:
        path: The file to write; one that exists is replaced.
        title: The heading.
        observations: The observations, oldest first.
        decisions: The decisions; holds may be left out.
        objective: The objective.
        summary: The figures of the run.
        receipts: The engine's answers.
        events: The events of the loop.
        comparison: The figures of other runs under the same load, such as fixed sizes, by name.
        operators: The figures of each operator, where there are several and ``summary`` is of all of them.
        notes: Sentences under the heading: the workload, the settings, where numbers come from.
    """
    items = story_of(decisions, observations, receipts, events)
    start_s = observations[0].at_s if observations else 0.0
    names = list(dict.fromkeys(name for observation in observations for name in observation.instances))
    figures = [figure(observations, items, objective, name) for name in names]
    standing = replayed_standing(observations, objective, names)
    notes = [*notes, *coverage_in_words(coverage(decisions, observations))]
    sections = [
        _each(operators) if operators else "",
        _plots(names),
        _comparison(summary, comparison) if comparison else "",
        _story(items, start_s, named=len(names) > 1),
    ]
    return write_page(
        Path(path),
        title=title,
        head=_head(observations, objective, notes),
        cards=_cards(summary, objective, standing),
        sections=sections,
        figures=figures,
    )


def _head(observations: Sequence[Observation], objective: Objective, notes: Sequence[str]) -> str:
    run_s = observations[-1].at_s - observations[0].at_s if observations else 0.0
    lines = [f"Objective: {objective}, for {format_duration(run_s)}.", *notes]
    return "\n".join(f'<p class="sub">{escape(line)}</p>' for line in lines)


# -------------------------------------------------------------------------------------------------------------- figures


def _cards(summary: Summary, objective: Objective, standing: Standing) -> str:
    cards = [
        *_met(summary, objective),
        *_spent(standing),
        ("Latency p95", _seconds(summary.latency_p95_s), f"of records; median {_seconds(summary.latency_p50_s)}", ""),
        ("Latency p99", _seconds(summary.latency_p99_s), "of records", ""),
        ("Largest backlog", _count(summary.max_backlog), "records", ""),
        ("Keeping up", _percent(summary.qos_pct), "of the time", ""),
        ("Instances", f"{summary.mean_instances:.2f}", "ready on average", ""),
        ("Paid for", f"{summary.instance_seconds / 3600:.2f}", "instance hours", ""),
        ("Changes of size", str(summary.rescales), "", ""),
        *_paid(standing.spending),
    ]
    return '<div class="cards">' + "".join(_card(*card) for card in cards) + "</div>"


def _met(summary: Summary, objective: Objective) -> list[tuple[str, str, str, str]]:
    """Return how well the objective was met, by records where they were counted, and by time."""
    met = ("Objective met", _percent(_rest(summary.slo_violation_pct)), "of the time", "")
    late_pct = summary.late_records_pct
    if late_pct is None or not isinstance(objective.slo, LatencySlo):
        return [met]
    required_pct = objective.slo.percentile
    verdict = "good" if 100 - late_pct >= required_pct else "bad"
    return [("In time", _percent(100 - late_pct), f"of the records; {plain(required_pct)}% is required", verdict), met]


def _spent(standing: Standing) -> list[tuple[str, str, str, str]]:
    """The error budget of each operator by what was read."""
    named = len(standing.budgets) > 1
    return [
        (
            f"Error budget{f' of {operator}' if named else ''}",
            spent_in_words(budget),
            f"{left_in_words(budget)}; {burn_in_words(budget)}",
            "bad" if budget.is_exceeded else "",
        )
        for operator, budget in standing.budgets.items()
    ]


def _paid(spending: Spending | None) -> list[tuple[str, str, str, str]]:
    if spending is None:
        return []
    is_over = spending.limit is not None and (spending.projected or 0.0) > spending.limit.amount
    amount, span_s = total_spent(spending)
    more = "; ".join(part for part in (f"in {format_duration(span_s)}", pace_in_words(spending)) if part)
    return [("Cost", money(amount), more, "bad" if is_over else "")]


def _rest(share_pct: float | None) -> float | None:
    return None if share_pct is None else 100 - share_pct


def _card(name: str, value: str, more: str, verdict: str) -> str:
    return (
        f'<div class="card {verdict}"><div class="name">{escape(name)}</div>'
        f'<div class="value">{escape(value)}</div><div class="more">{escape(more)}</div></div>'
    )


def _plots(operators: Sequence[str]) -> str:
    if not operators:
        return "<h2>What happened</h2><p>Nothing was observed.</p>"
    parts = []
    for index, operator in enumerate(operators):
        of = f" to {escape(operator)}" if len(operators) > 1 else ""
        parts.append(f'<h2>What happened{of}</h2><div class="panel"><div id="figure-{index}"></div>')
        parts.append(f'<p class="key">{KEY}</p></div>')
    return "".join(parts)


def _each(operators: Mapping[str, Summary]) -> str:
    """The figures of each operator in a table."""
    headings = ("", "Latency p95", "Largest backlog", "Mean instances", "Instance hours", "Changes of size")
    head = "".join(f'<th class="{"number" if heading else ""}">{escape(heading)}</th>' for heading in headings)
    rows = []
    for name, summary in operators.items():
        cells = (
            _seconds(summary.latency_p95_s),
            _count(summary.max_backlog),
            f"{summary.mean_instances:.2f}",
            f"{summary.instance_seconds / 3600:.2f}",
            str(summary.rescales),
        )
        numbers = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
        rows.append(f'<tr><td class="nowrap">{escape(name)}</td>{numbers}</tr>')
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<h2>Each operator</h2><div class="scroll">{table}</div>'


# ----------------------------------------------------------------------------------------------------------- comparison


def _comparison(summary: Summary, comparison: Mapping[str, Summary]) -> str:
    headings = (
        "",
        "Late records",
        "Violated",
        "Latency p95",
        "Largest backlog",
        "Mean instances",
        "Instance hours",
        "Against this run",
    )
    head = "".join(f'<th class="{"number" if heading else ""}">{escape(heading)}</th>' for heading in headings)
    rows = [_comparison_row("this run", summary, summary, "this")]
    rows += [_comparison_row(name, other, summary, "") for name, other in comparison.items()]
    return (
        f"<h2>Against fixed sizes</h2>{_comparison_in_words(summary, comparison)}"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _comparison_row(name: str, row: Summary, this: Summary, kind: str) -> str:
    cells = [
        _percent(row.late_records_pct),
        _percent(row.slo_violation_pct),
        _seconds(row.latency_p95_s),
        _count(row.max_backlog),
        f"{row.mean_instances:.2f}",
        f"{row.instance_seconds / 3600:.2f}",
        "" if row is this else _difference(row.instance_seconds, this.instance_seconds),
    ]
    numbers = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
    return f'<tr class="{kind}"><td class="nowrap">{escape(name)}</td>{numbers}</tr>'


def _comparison_in_words(summary: Summary, comparison: Mapping[str, Summary]) -> str:
    violated_pct = summary.slo_violation_pct
    if violated_pct is None:
        return ""
    as_good = {
        name: other
        for name, other in comparison.items()
        if other.slo_violation_pct is not None and other.slo_violation_pct <= violated_pct
    }
    if not as_good:
        return "<p>None of these sizes would have violated the objective as little as this run did.</p>"
    name, cheapest = min(as_good.items(), key=lambda found: found[1].instance_seconds)
    difference = _difference(cheapest.instance_seconds, summary.instance_seconds)
    return (
        f"<p>The cheapest of these that violates the objective as little as this run is {escape(name)}, "
        f"with {escape(difference)} instance hours.</p>"
    )


def _difference(value: float, base: float) -> str:
    if base <= 0:
        return UNKNOWN
    change_pct = 100 * (value / base - 1)
    return "as many" if abs(change_pct) < 0.5 else f"{abs(change_pct):.0f}% {'more' if change_pct > 0 else 'fewer'}"


# ----------------------------------------------------------------------------------------------------- what was decided


def _story(items: Sequence[Item], start_s: Instant, *, named: bool) -> str:
    rows = [row_of(item) for item in items if not isinstance(item, Hold) or item.is_stopped]
    if not rows:
        return "<h2>What was decided</h2><p>The size was never changed.</p>"
    left_out = ""
    if len(rows) > MAX_ROWS:
        left_out = f"<p>The last {MAX_ROWS} of {len(rows)} are shown; headgate explain lists them all.</p>"
    body = "".join(_story_row(row, start_s, named=named) for row in rows[-MAX_ROWS:])
    head = '<tr><th class="number">After</th><th>Change</th><th>Why</th></tr>'
    return (
        f"<h2>What was decided, and why</h2>{left_out}"
        f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'
    )


def _story_row(row: Row, start_s: Instant, *, named: bool) -> str:
    after = escape(format_duration(max(0.0, row.at_s - start_s)))
    reason = f"{row.operator}: {row.reason}" if row.operator and named else row.reason
    lines = [_line("", reason)]
    if row.numbers:
        lines.append(_line("detail", row.numbers))
    lines += [_line("note", note) for note in row.notes]
    lines += [_line("detail", effect) for effect in row.effects]
    if row.count > 1:
        lines.append(_line("detail", row.repetition()))
    change = f'<td class="change {row.kind}">{escape(row.change)}</td>'
    return f'<tr><td class="number">{after}</td>{change}<td>{"".join(lines)}</td></tr>'


def _line(kind: str, text: str) -> str:
    return f'<div class="{kind}">{escape(text)}</div>'


# ----------------------------------------------------------------------------------------------------- numbers in words


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}%"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{plain(value)} s"


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"
