"""The demonstration as a stranger runs it: by its command, in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

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
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


def test_it_scales_out_for_the_peak_and_in_afterwards_and_loses_nothing(tmp_path: Path) -> None:
    result = tmp_path / "demo.json"
    with demo("--seconds", "90s", "--output", str(tmp_path), "--json", str(result)) as process:
        await_line(process, "running")
        processes = spark_processes(process)
        assert process.stdout is not None
        told = process.stdout.read()
        assert process.wait() == 0, told
    told_json = json.loads(result.read_text())
    sizes = [point["ready"] for point in told_json["series"]]
    assert sizes[0] == 1
    assert max(sizes) >= 2
    assert sizes[-1] < max(sizes)
    assert {decision["code"] for decision in told_json["decisions"]} >= {"slo-violated", "idle"}
    assert told_json["output"]["records"] > 500
    assert told_json["output"]["missing"] == told_json["output"]["doubled"] == 0
    assert set(told_json["fixed_sizes_simulated"]) == {"1", "2", "3", "4"}
    assert told_json["summary"]["rescales"] >= 2
    page = (tmp_path / "report.html").read_text()
    assert "0 missing, 0 doubled" in page
    assert "slo-violated" in page or "is over the 8s bound" in page
    assert "report:" in told
    assert "headgate explain" in told
    assert processes
    assert all_gone(processes)


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    with demo("--output", str(tmp_path)) as process:
        await_line(process, "running")
        processes = spark_processes(process)
        assert len(processes) >= 4
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    eventually("all of Spark to be gone", lambda: all_gone(processes), 30.0)
