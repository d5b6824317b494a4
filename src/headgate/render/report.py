"""A run as one HTML file that needs no network: figures, plots, what was decided and why, and how fixed sizes would do.

It is made from core values only, so a simulated run, a live one and one read back from a journal look the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from headgate.core.budget import Spending
from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import JSON, Decision, Event, Instant, Observation, Receipt
from headgate.core.units import format_duration, format_elapsed, format_latency, instances_in_words, plain
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
from headgate.render.figures import figure, key_of
from headgate.render.page import write_page
from headgate.render.story import Hold, Item, Row, RowKind, coverage, coverage_in_words, row_of, story_of
from headgate.render.verdict import FixedSizes, RunVerdict, difference_in_words, judge_run
from headgate.runtime.summary import Summary

MAX_ROWS = 500
"""Rows of the story in the table; ``headgate explain`` lists all of them."""
OPEN_ROWS = 12
"""A longer table is closed until the reader opens it."""

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
    fixed: FixedSizes | None = None,
    operators: Mapping[str, Summary] | None = None,
    notes: Sequence[str] = (),
    journal: str = "",
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
        fixed: Fixed sizes under the same load.
        operators: The figures of each operator, where there are several and ``summary`` is of all of them.
        notes: Sentences under the figures: the workload, the settings, where numbers come from.
        journal: The journal's file, for the commands that the verdict names.
    """
    items = story_of(decisions, observations, receipts, events)
    start_s = observations[0].at_s if observations else 0.0
    run_s = observations[-1].at_s - start_s if observations else 0.0
    names = list(dict.fromkeys(name for observation in observations for name in observation.instances))
    figures = [figure(observations, items, objective, name) for name in names]
    standing = replayed_standing(observations, objective, names)
    notes = [*notes, *coverage_in_words(coverage(decisions, observations))]
    verdict = judge_run(
        observations, decisions, objective, summary, fixed=fixed, operators=tuple(operators or ()), journal=journal
    )
    sections = [
        _each(operators) if operators else "",
        _plots(names, figures),
        _comparison(summary, fixed, objective, verdict) if fixed is not None and fixed.summaries else "",
        _story(items, start_s, named=len(names) > 1),
    ]
    return write_page(
        Path(path),
        title=title,
        head=_lines([f"Objective: {objective}, for {format_duration(run_s)}."]),
        cards=_verdict(verdict) + _cards(summary, objective, standing) + _lines(notes),
        sections=sections,
        figures=figures,
    )


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(f'<p class="sub">{escape(line)}</p>' for line in lines)


# -------------------------------------------------------------------------------------------------------------- figures


def _verdict(verdict: RunVerdict) -> str:
    kind = {True: "good", False: "bad", None: ""}[verdict.is_met]
    first, *rest = verdict.sentences
    lines = "".join(f"<p>{escape(sentence)}</p>" for sentence in rest)
    return (
        f'<section class="verdict {kind}" aria-label="Verdict"><p class="outcome">{escape(first)}</p>{lines}</section>'
    )


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


def _plots(operators: Sequence[str], figures: Sequence[Mapping[str, JSON]]) -> str:
    if not operators:
        return "<h2>What happened</h2><p>Nothing was observed.</p>"
    parts = []
    for index, operator in enumerate(operators):
        of = f" to {escape(operator)}" if len(operators) > 1 else ""
        parts.append(f'<h2>What happened{of}</h2><div class="panel"><div id="figure-{index}"></div>')
        parts.append(f'<p class="key">{escape(key_of(figures[index]))}</p></div>')
    return "".join(parts)


def _each(operators: Mapping[str, Summary]) -> str:
    """The figures of each operator in a table."""
    headings = ("", "Latency p95", "Largest backlog", "Mean instances", "Instance hours", "Changes of size")
    rows = {
        name: (
            _seconds(summary.latency_p95_s),
            _count(summary.max_backlog),
            f"{summary.mean_instances:.2f}",
            f"{summary.instance_seconds / 3600:.2f}",
            str(summary.rescales),
        )
        for name, summary in operators.items()
    }
    return f"<h2>Each operator</h2>{_table(headings, rows)}"


def _table(headings: Sequence[str], rows: Mapping[str, Sequence[str]], marked: str = "") -> str:
    """Return a table of named rows with numbers; the marked row stands out."""
    head = "".join(f'<th class="{"number" if heading else ""}">{escape(heading)}</th>' for heading in headings)
    body = ""
    for name, cells in rows.items():
        numbers = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
        kind = "this" if name == marked else ""
        body += f'<tr class="{kind}"><td class="nowrap">{escape(name)}</td>{numbers}</tr>'
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


THIS_RUN = "this run"


def _comparison(summary: Summary, fixed: FixedSizes, objective: Objective, verdict: RunVerdict) -> str:
    """Every fixed size with what it would have cost, next to this run."""
    rows = {THIS_RUN: (summary, verdict.is_met)} | {
        instances_in_words(size): (found, size in verdict.met_sizes) for size, found in fixed.summaries.items()
    }
    is_priced = any(found.cost is not None for found, _ in rows.values())
    headings = ("", "Objective", "Late records", "Violated", "Latency p95", "Largest backlog", "Instance hours")
    cells = {
        name: (
            {True: "met", False: "not met", None: UNKNOWN}[is_met],
            _percent(found.late_records_pct),
            _percent(found.slo_violation_pct),
            _seconds(found.latency_p95_s),
            _count(found.max_backlog),
            f"{found.instance_seconds / 3600:.2f}",
            *([UNKNOWN if found.cost is None else money(found.cost)] if is_priced else []),
            "" if name == THIS_RUN else difference_in_words(found.instance_seconds, summary.instance_seconds),
        )
        for name, (found, is_met) in rows.items()
    }
    last = ("Cost", "Against this run") if is_priced else ("Against this run",)
    return f"<h2>Against fixed sizes</h2><p>{escape(verdict.fixed)}</p>{_table((*headings, *last), cells, THIS_RUN)}"


# ----------------------------------------------------------------------------------------------------- what was decided


def _story(items: Sequence[Item], start_s: Instant, *, named: bool) -> str:
    rows = [row_of(item) for item in items if not isinstance(item, Hold) or item.is_stopped or item.is_capped]
    if not rows:
        return "<h2>What was decided</h2><p>The size was never changed.</p>"
    left_out = ""
    if len(rows) > MAX_ROWS:
        left_out = f"<p>The last {MAX_ROWS} of {len(rows)} are shown; headgate explain lists them all.</p>"
    body = "".join(_story_row(row, start_s, named=named) for row in rows[-MAX_ROWS:])
    head = '<tr><th class="number">After</th><th>Change</th><th>Why</th></tr>'
    changes = sum(row.kind in (RowKind.OUT, RowKind.IN) for row in rows)
    counts = f"{changes} {'change' if changes == 1 else 'changes'} of size, {len(rows)} rows"
    is_open = " open" if len(rows) <= OPEN_ROWS else ""
    return (
        f"<h2>What was decided, and why</h2><details{is_open}><summary>{counts}</summary>{left_out}"
        f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div></details>'
    )


def _story_row(row: Row, start_s: Instant, *, named: bool) -> str:
    after = escape(format_elapsed(max(0.0, row.at_s - start_s)))
    reason = f"{row.operator}: {row.reason}" if row.operator and named else row.reason
    lines = [_line("", reason)]
    lines += [_line("note", note) for note in row.notes]
    lines += [_line("detail", effect) for effect in row.effects]
    if row.count > 1:
        lines.append(_line("detail", row.repetition()))
    if row.numbers:
        lines.append(f'<details class="detail"><summary>numbers</summary>{escape(row.numbers)}</details>')
    if row.ladder:
        lines.append(f'<details class="detail"><summary>sizes compared</summary>{escape(row.ladder)}</details>')
    change = f'<td class="change {row.kind}">{escape(row.change)}</td>'
    return f'<tr><td class="number">{after}</td>{change}<td>{"".join(lines)}</td></tr>'


def _line(kind: str, text: str) -> str:
    return f'<div class="{kind}">{escape(text)}</div>'


# ----------------------------------------------------------------------------------------------------- numbers in words


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}%"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else format_latency(value)


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"
