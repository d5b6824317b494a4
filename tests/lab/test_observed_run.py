"""What a live run came to, from its sink's files and the processes of the machine; here both are made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.objective import parse_objective
from headgate.lab.observed_run import Executors, course_of_files
from headgate.runtime.summary import summarise
from headgate.workloads import parse_workload
from headgate.workloads.composed import Placed
from tests.apps.test_sink_files import commit, write

START_S = 1000.0
"""On the clock of the files, when the run began."""


def test_latency_and_backlog_come_from_files_and_what_is_paid_from_processes(tmp_path: Path) -> None:
    # Ten records arrive from 5.1 s to 6 s. The first five are done in one batch, the others in the next.
    load = Placed(parse_workload("constant:10"), begins_s=5.0, lasting_s=1.0)
    commit(tmp_path, "0", [write(tmp_path, "a", range(5), START_S + 6.5)], START_S + 7.0)
    commit(tmp_path, "1", [write(tmp_path, "b", range(5, 10), START_S + 7.5)], START_S + 8.0)
    executors = Executors()
    # When, processes, ready, paid: the second is requested at 2 s, works from 4 s on, and is gone at 9 s.
    executors.seen = [(START_S + at_s, *sizes) for at_s, sizes in ((0, (1, 1, 1)), (2, (1, 1, 1)), (4, (2, 1, 2)))]
    executors.seen += [(START_S + 8, 2, 2, 2), (START_S + 9, 1, 1, 1)]
    course = course_of_files(tmp_path, load, START_S, 9.0, executors)
    summary = summarise(course, [], parse_objective("latency < 1900ms"))
    assert summary.latency_p50_s == pytest.approx(2.0 - 0.2, abs=0.15)
    assert summary.late_records_pct == pytest.approx(50.0, abs=10.0)
    assert summary.max_backlog == 10
    assert summary.instance_seconds == pytest.approx(2 + 2 * 2 + 4 * 2 + 1)
    assert executors.gone_after_s(START_S + 8.5, 1) == 0.5
