"""One view and one report for all jobs of a pipeline."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping

import pytest
from rich.console import Console

from headgate.cli.operators_view import PipelineView, print_result
from headgate.core.types import JSON
from headgate.journal.codec import decision_to_dict, observation_to_dict, to_json
from headgate.journal.writer import SqliteJournal
from headgate.pipelines.controller import pipeline_job
from headgate.pipelines.meter import Meter
from headgate.pipelines.report import PipelineRun, write_pipeline_report
from headgate.pipelines.run import PipelineResult, PipelineRunPlan
from tests.engines.agents.inprocess import Cluster
from tests.pipelines.test_loop import CHAIN

END = {"records": 990.0, "late": 9.9, "late_share": 0.01, "distinct": 990, "doubled": 0, "p50_s": 4.0, "p95_s": 9.0}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[PipelineRun, list[Mapping[str, JSON]]]:
    folder = tmp_path_factory.mktemp("run")
    plan = PipelineRunPlan(CHAIN, (), folder)
    cluster, states = Cluster(CHAIN.topology), list[Mapping[str, JSON]]()
    # The controller was started again half-way: two runs of one job in one journal.
    for _ in range(2):
        journal = SqliteJournal(plan.journal)
        loop = pipeline_job(CHAIN, Meter(30.0), cluster.clock, journal, cluster.mailbox).loop
        for _ in range(30):
            decision = loop.tick()
            assert decision is not None
            state = {
                "observation": observation_to_dict(loop.history.observations[-1]),
                "decision": decision_to_dict(decision),
                "end_to_end": END,
            }
            states.append(json.loads(to_json(state)))
            cluster.pass_time(5)
        journal.close()
        cluster.with_new_controller().tick()
    return write_pipeline_report(plan, PipelineResult(END, 1000, {"parse": 1})), states


def test_the_report_has_every_job_and_the_results(ran: tuple[PipelineRun, list[Mapping[str, JSON]]]) -> None:
    reported, _ = ran
    page = reported.report.read_text()
    for name in ("parse", "enrich", "sum"):
        assert f"What happened to {name}" in page
    assert "1,000 records were sent; 990 came out, 990 different ones, 0 of them again." in page
    assert "parse was started again once." in page
    assert reported.in_time_pct == pytest.approx(99.0)
    assert all(largest > 1 for largest in reported.largest.values())
    assert reported.whole.instance_seconds == pytest.approx(sum(job.instance_seconds for job in reported.jobs.values()))
    assert reported.to_json()["end_to_end"]["p95_s"] == 9.0


def test_the_report_spans_all_runs_of_the_controller(ran: tuple[PipelineRun, list[Mapping[str, JSON]]]) -> None:
    reported, _ = ran
    with_both = reported.jobs["parse"].instance_seconds
    assert with_both > 1.5 * 30 * 5


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "lines"])
def test_the_view_shows_every_job_and_latency_from_end_to_end(
    ran: tuple[PipelineRun, list[Mapping[str, JSON]]], is_terminal: bool
) -> None:
    reported, states = ran
    out = io.StringIO()
    console = Console(file=out, width=160, force_terminal=is_terminal, color_system=None, highlight=False)
    view = PipelineView(console, CHAIN)
    view.stage("running")
    for state in states:
        view.state(state, None)
    if is_terminal:
        console.print(view)
    print_result(reported, console)
    text = out.getvalue()
    for name in ("parse", "enrich", "sum"):
        assert name in text
    assert "99.0 % in time" in text
    # A terminal shows the newest changes, lines show all of them.
    assert re.search(r"\b[1-9] → [1-9]\b" if is_terminal else "1 → 2", text)
    assert "end to end: 99.0 % of the records in time (latency p95 < 30s); p50 4 s, p95 9 s" in text
