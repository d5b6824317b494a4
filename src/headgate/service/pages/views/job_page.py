"""The page of one job, with the fixed sizes that its run is compared with.

Simulating them takes seconds, so it is done on a thread of its own, for a job at most every ten minutes, and a page
shows the newest result there is.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from urllib.parse import quote, urlencode

from markupsafe import Markup

from headgate.core.errors import HeadgateError, UnknownNameError
from headgate.core.objective import DAY_S, LatencySlo
from headgate.core.types import Decision, Event, Instances, Instant, Observation, Receipt
from headgate.core.units import format_duration
from headgate.journal.contract import ReadableJournal
from headgate.journal.findings import Standing, burn_in_words, left_in_words
from headgate.lab.what_if import fixed_sizes_of
from headgate.render.story import HEADINGS, Hold, Item, Row, ladder_cells, row_of, story_of
from headgate.render.verdict import FixedSizes, RunVerdict, find_limit, verdict_on
from headgate.runtime.loop import Mode
from headgate.service.jobs import ServedJob
from headgate.service.pages.plots import Node, Panel, TimeAxis, end_to_end, graph, panels, times
from headgate.service.pages.rendering import UNKNOWN, Link, Tile, clock, count, iso, latency, rate, sizes
from headgate.service.pages.views.overview import (
    Badge,
    ChangeRow,
    PredictionRow,
    RuleRow,
    ShadowRow,
    badges_of,
    budget_left,
    budget_meter,
    change_rows,
    cost_of,
    cost_span,
    job_latency,
    job_load,
    now_facts,
    objective_of,
    operator_states,
    prediction_rows,
    rule_rows,
    shadow_rows,
    total,
    worst_budget,
)
from headgate.service.store.changes import ChangeKind


@dataclass(frozen=True, slots=True)
class Entries:
    """Journal entries of a job, the oldest first."""

    observations: list[Observation] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def entries_since(journal: ReadableJournal, job: str, since_s: Instant) -> Entries:
    """Return the entries of a job since a time, of all its runs: a restarted service begins another run."""
    runs = journal.runs(job)
    ends_s = [after.started_s for (_, _), (_, after) in pairwise(runs)] + [float("inf")]
    found = Entries()
    for (number, _), end_s in zip(runs, ends_s, strict=True):
        if end_s < since_s:
            continue
        found.observations.extend(journal.observations(run=number, since_s=since_s))
        found.decisions.extend(journal.decisions(run=number, since_s=since_s))
        found.receipts.extend(journal.receipts(run=number, since_s=since_s))
        found.events.extend(journal.events(run=number, since_s=since_s))
    return found


SPANS = {"5m": 300.0, "15m": 900.0, "1h": 3600.0, "6h": 21600.0, "24h": 86400.0}
INTERVALS_SHOWN = 90
"""By default the shortest span with this many decisions is shown."""
AHEAD_SHARE = 0.075
"""The share of the time axis that lies ahead, for predictions."""
MOST_AHEAD_S = 60.0


MOST_ROWS = 60
SIGNS = {
    "out": "▲",
    "in": "▼",
    "stopped": "⊘",
    "capped": "⤒",
    "advice": "◇",
    "event": "·",
    "warning": "!",
    "failed": "✕",
}


@dataclass(frozen=True, slots=True)
class StoryRow:
    """A row with what only a web page needs: its id, and its time by the clock."""

    row: Row
    key: str
    clock: str
    iso: str
    sign: str
    reason: str
    """With the operator's name, in a job of several."""


@dataclass(frozen=True, slots=True)
class JobPage:
    name: str
    href: str
    badges: Sequence[Badge]
    policy: str
    objective: str
    interval: str
    group: str | None
    tiles: Sequence[Tile]
    graph: Markup
    operators: Sequence[str]
    operator: str
    spans: Sequence[Link]
    panels: Sequence[Panel]
    times: Markup
    story: Sequence[StoryRow]
    story_span: str
    verdict: RunVerdict
    links: Mapping[str, str]
    is_paused: bool
    now: Sequence[tuple[str, str]]
    predictions: Sequence[PredictionRow]
    ladder: Sequence[Sequence[str]]
    """A table of the sizes that the newest decision compared, with its headings; empty if it compared none."""
    shadows: Sequence[ShadowRow]
    rules: Sequence[RuleRow]
    changes: Sequence[ChangeRow]


def job_page(
    job: ServedJob, operator: str | None = None, span: str | None = None, fixed: FixedSizes | None = None
) -> JobPage:
    """Return the page of a job, with the plots of one of its operators over a span of time."""
    if span is None:
        least_s = INTERVALS_SHOWN * job.spec.interval_s
        span = next((name for name, span_s in SPANS.items() if span_s >= least_s), "24h")
    if span not in SPANS:
        raise UnknownNameError("span", span, SPANS)
    chosen = job.operators[0] if operator is None else operator
    job.require_operator(chosen)
    now, span_s = job.clock.now(), SPANS[span]
    time = TimeAxis(now, span_s, min(MOST_AHEAD_S, AHEAD_SHARE * span_s))
    found = entries_since(job.journal, job.name, time.from_s)
    items = story_of(found.decisions, found.observations, found.receipts, found.events)
    base = f"/jobs/{quote(job.name)}"
    story = story_rows(items, named=len(job.operators) > 1)
    return JobPage(
        name=job.name,
        href=base,
        badges=badges_of(job),
        policy=job.loop.policy.name,
        objective=str(objective_of(job)),
        interval=format_duration(job.spec.interval_s),
        group=job.spec.group,
        tiles=_tiles(job, chosen),
        graph=graph(job.spec.topology, lambda name: _node(job, name, chosen, _href(base, name, span))),
        operators=job.operators,
        operator=chosen,
        spans=[Link(name, _href(base, chosen, name), name == span) for name in SPANS],
        panels=[
            *([end_to_end(time, found.observations, job.spec)] if len(job.operators) > 1 else []),
            *panels(time, found.observations, found.decisions, items, objective_of(job), chosen),
        ],
        times=times(time),
        story=story,
        verdict=_verdict(job, found, span_s, fixed),
        links=job.spec.links,
        is_paused=any(change.kind is ChangeKind.PAUSE for change in job.changes),
        story_span=f"the last {format_duration(span_s)}, newest first" if story else "",
        now=now_facts(job, chosen),
        predictions=prediction_rows(found.decisions, found.observations, chosen),
        ladder=_ladder(job, chosen),
        shadows=shadow_rows(job, found.decisions),
        rules=rule_rows(job),
        changes=change_rows(job.changes),
    )


def _ladder(job: ServedJob, operator: str) -> list[tuple[str, ...]]:
    verdict = None if job.decision is None else job.decision.verdicts.get(operator)
    cells = [] if verdict is None else ladder_cells(verdict)
    return [HEADINGS, *cells] if cells else []


def _verdict(job: ServedJob, found: Entries, span_s: float, fixed: FixedSizes | None) -> RunVerdict:
    """Return the verdict on what is known of the job, and on what limited it in the time shown."""
    with job.at_rest() as loop:
        history = loop.history
        budgets = {name: budget for name in job.operators if (budget := history.budget(name)) is not None}
        spending = history.spending()
    objective = objective_of(job)
    return verdict_on(
        objective,
        max((budget.covered_s for budget in budgets.values()), default=span_s),
        standing=Standing(budgets, spending),
        fixed=fixed,
        limit=find_limit(
            found.observations,
            found.decisions,
            objective,
            job.operators,
            {operator.name: operator.max_instances for operator in job.spec.operators},
        ),
        recommends=job.loop.mode is Mode.RECOMMEND,
    )


def _href(base: str, operator: str, span: str) -> str:
    return f"{base}?{urlencode({'operator': operator, 'span': span})}"


def _tiles(job: ServedJob, operator: str) -> list[Tile]:
    seen, budget, slo = job.observation, worst_budget(job), objective_of(job).slo_of(operator)
    size = None if seen is None else total(seen)
    waited_s = job_latency(job)
    is_late = isinstance(slo, LatencySlo) and waited_s is not None and waited_s > slo.bound_s
    cost, cost_more = cost_of(job, job.clock.now())
    return [
        Tile("Load", rate(job_load(job)), "at the sources"),
        Tile(
            "Latency",
            latency(waited_s),
            f"{format_duration(slo.bound_s)} allowed" if isinstance(slo, LatencySlo) else str(slo),
            kind="bad" if is_late else "",
        ),
        Tile("Instances", sizes(size), _sizes_in_words(size), "ready"),
        Tile(
            "Error budget",
            budget_left(budget),
            "" if budget is None else f"{left_in_words(budget)}; {burn_in_words(budget)}",
            kind="bad" if budget is not None and budget.is_exceeded else "",
            meter=None if budget is None else budget_meter(budget),
        ),
        Tile(f"Cost in {cost_span(job)}", cost, cost_more),
    ]


def _sizes_in_words(size: Instances | None) -> str:
    return "" if size is None else f"{size.planned} planned, {size.requested} requested"


def _node(job: ServedJob, name: str, chosen: str, href: str) -> Node:
    seen, state = job.observation, operator_states(job)[name]
    sample = None if seen is None else seen.samples.get(name)
    instances = None if seen is None else seen.instances.get(name)
    load = UNKNOWN if sample is None else rate(sample.input_rate_per_s)
    backlog = UNKNOWN if sample is None else count(sample.backlog)
    waits = UNKNOWN if sample is None else latency(sample.worst_latency_s)
    return Node(
        operator=name,
        ready=0 if instances is None else instances.ready,
        planned=0 if instances is None else instances.planned,
        first=f"{load} in, waits {waits}",
        second=f"backlog {backlog}",
        state=state.kind,
        word=state.word,
        href=href,
        is_chosen=name == chosen and len(job.operators) > 1,
    )


def story_rows(items: Sequence[Item], *, named: bool) -> list[StoryRow]:
    """Return the newest rows; ``named``: with the names of operators. Holds without a stopped change are left out."""
    rows: list[StoryRow] = []
    uses: Counter[str] = Counter()
    for item in reversed(items):
        if isinstance(item, Hold) and not item.is_stopped:
            continue
        if len(rows) == MOST_ROWS:
            break
        shown = _shown(row_of(item), named=named)
        # Several events may coincide; decisions on one operator cannot, and keep the key that markers refer to.
        uses[shown.key] += 1
        rows.append(shown if uses[shown.key] == 1 else replace(shown, key=f"{shown.key}-{uses[shown.key]}"))
    return rows


def _shown(row: Row, *, named: bool) -> StoryRow:
    reason = f"{row.operator}: {row.reason}" if row.operator and named else row.reason
    return StoryRow(row, row.key, clock(row.at_s), iso(row.at_s), SIGNS[row.kind], reason)


logger = logging.getLogger("headgate")

RENEWED_S = 600.0
MOST_OBSERVATIONS = 20_000
"""Of a job that decides more often, less than a day is simulated."""
NOT_YET = FixedSizes(missing="they are being simulated.")


@dataclass(slots=True)
class _Entry:
    begun_s: Instant
    found: FixedSizes = NOT_YET
    thread: threading.Thread | None = None


class FixedSizesOfJobs:
    """Holds the newest result for each job whose page was requested."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    def of(self, job: ServedJob) -> FixedSizes:
        """Return the newest result, and begin another one where it is old."""
        now_s = job.clock.now()
        with self._lock:
            entry = self._entries.get(job.name)
            if entry is not None and (now_s - entry.begun_s < RENEWED_S or _is_running(entry)):
                return entry.found
            entry = _Entry(now_s, NOT_YET if entry is None else entry.found)
            entry.thread = threading.Thread(
                target=self._simulate, args=(job, entry), name="headgate-fixed-sizes", daemon=True
            )
            self._entries[job.name] = entry
            entry.thread.start()
            return entry.found

    def wait(self) -> None:
        """Wait until nothing is being simulated."""
        with self._lock:
            threads = [entry.thread for entry in self._entries.values() if entry.thread is not None]
        for thread in threads:
            thread.join()

    def _simulate(self, job: ServedJob, entry: _Entry) -> None:
        since_s = entry.begun_s - min(DAY_S, MOST_OBSERVATIONS * job.spec.interval_s)
        try:
            runs = [number for number, _ in job.journal.runs(job.name)]
            observations = job.journal.observations(run=runs[-1], since_s=since_s) if runs else []
            decisions = job.journal.decisions(run=runs[-1], since_s=since_s) if runs else []
            objective = objective_of(job)
            if len(job.operators) == 1:
                only = job.spec.operators[0]
                objective = objective.within(only.min_instances, only.max_instances).priced(only.price)
            found = fixed_sizes_of(observations, decisions, objective, job.operators)
        except HeadgateError as error:
            found = FixedSizes(missing=str(error))
        except Exception:
            logger.exception("the fixed sizes of job %s could not be simulated", job.name)
            found = FixedSizes(missing="the simulation failed; the log says why.")
        with self._lock:
            entry.found = found


def _is_running(entry: _Entry) -> bool:
    return entry.thread is not None and entry.thread.is_alive()
