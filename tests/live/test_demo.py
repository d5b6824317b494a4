"""The demonstration as a stranger runs it: by its command, in a process of its own."""

from __future__ import annotations

import html
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.live.replays import assert_it_can_be_replayed
from tests.live.support import eventually


@contextmanager
def demo(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "headgate", "demo", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def await_line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"the demo ended before it said {text!r}")


def spark_processes(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The JVMs of driver, master, worker and executors, and the Python workers."""
    children: list[psutil.Process] = psutil.Process(process.pid).children(recursive=True)
    return children


def all_gone(processes: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def run_demo(folder: Path, seconds: str) -> tuple[dict[str, Any], str, list[psutil.Process]]:
    """A demonstration to its end: what it wrote as data, what it said, and the processes that it had."""
    result = folder / "demo.json"
    with demo("--seconds", seconds, "--output", str(folder), "--json", str(result)) as process:
        await_line(process, "running")
        processes = spark_processes(process)
        assert process.stdout is not None
        message = process.stdout.read()
        assert process.wait() == 0, message
    return json.loads(result.read_text()), message, processes


@pytest.mark.soak
def test_it_scales_out_for_the_peak_loses_nothing_and_leaves_a_report(tmp_path: Path) -> None:
    """As short as it may be: on a slow machine that is over before the queue of the peak is worked off."""
    reported, message, processes = run_demo(tmp_path, "40s")
    sizes = [point["ready"] for point in reported["series"]]
    assert sizes[0] == 1
    assert max(point["planned"] for point in reported["series"]) >= 2
    grown = next(decision for decision in reported["decisions"] if decision["to"] > decision["from"])
    assert grown["reason"]
    assert reported["output"]["records"] > 300
    assert reported["output"]["missing"] == reported["output"]["doubled"] == 0
    assert set(reported["fixed_sizes_simulated"]) == {"1", "2", "3", "4"}
    page = (tmp_path / "report.html").read_text()
    assert "0 missing, 0 doubled" in page
    assert grown["code"] in page or grown["reason"] in html.unescape(page)
    assert "report:" in message
    assert "headgate explain" in message
    assert processes
    assert all_gone(processes)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_it_keeps_its_objective_for_less_than_the_smallest_fixed_size_that_does(tmp_path: Path) -> None:
    reported, _, _ = run_demo(tmp_path, "240s")
    sizes = [point["ready"] for point in reported["series"]]
    assert sizes[0] == 1
    assert max(sizes) >= 2
    assert sizes[-1] < max(sizes)
    changes = {
        (decision["to"] > decision["from"]) for decision in reported["decisions"] if decision["to"] != decision["from"]
    }
    assert changes == {True, False}
    assert reported["output"]["missing"] == reported["output"]["doubled"] == 0
    assert reported["summary"]["rescales"] >= 2
    assert reported["summary"]["late_records_pct"] <= 5
    fixed = reported["fixed_sizes_simulated"].values()
    as_good = [run["instance_seconds"] for run in fixed if run["late_records_pct"] <= 5]
    assert reported["summary"]["instance_seconds"] < min(as_good)
    assert_it_can_be_replayed(tmp_path / "journal.db")


@pytest.mark.soak
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    with demo("--output", str(tmp_path)) as process:
        await_line(process, "running")
        processes = spark_processes(process)
        assert len(processes) >= 4
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    eventually("all of Spark to be gone", lambda: all_gone(processes), 30.0)
