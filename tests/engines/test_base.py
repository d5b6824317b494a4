"""Engines of other packages: found by name, listed with their package, and scaled like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from headgate.core.contracts import Engine
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.plugins import plugins
from headgate.engines.base import engine_class
from headgate.testing import check_engine
from tests.cli.commands import headgate as command

EXAMPLE = Path(__file__).parents[2] / "examples/size_file"
ENTRIES = """
[headgate.engines]
size-file = size_file:SizeFile
no-class = size_file:json
"""


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example, as pip would leave it."""
    info = tmp_path / "size_file-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: size-file\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.syspath_prepend(tmp_path)
    plugins.cache_clear()
    yield
    plugins.cache_clear()


class Job:
    """What follows the number in the file: 10 records a second arrive, an instance gets through 5."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.now_s = 0.0
        self.ready = 1
        self.arrived = self.done = 0.0
        self._tell()

    def now(self) -> float:
        return self.now_s

    def work(self, seconds: float = 10.0) -> None:
        wanted = self.folder / "size.json"
        self.ready = json.loads(wanted.read_text())["size"] if wanted.exists() else self.ready
        self.now_s += seconds
        self.arrived += 10 * seconds
        self.done = min(self.arrived, self.done + 5 * self.ready * seconds)
        self._tell()

    def _tell(self) -> None:
        status = {"ready": self.ready, "arrived": self.arrived, "done": self.done}
        status["latency_s"] = (self.arrived - self.done) / 10
        # All at once, for the autoscaler reads it from a thread of its own.
        new = self.folder / "status.new"
        new.write_text(json.dumps(status))
        new.replace(self.folder / "status.json")


@pytest.mark.usefixtures("_installed")
def test_the_example_keeps_the_contract_of_engines(tmp_path: Path) -> None:
    jobs: dict[Engine, Job] = {}

    def make() -> Engine:
        job = Job(tmp_path / f"job-{len(jobs)}")
        engine = engine_class("size-file")(str(job.folder), job.now)
        jobs[engine] = job
        return engine

    check_engine(make, lambda engine: jobs[engine].work())


@pytest.mark.usefixtures("_installed")
def test_an_engine_is_scaled_by_its_name(tmp_path: Path) -> None:
    job = Job(tmp_path / "orders")
    journal = tmp_path / "run.db"
    running = headgate.autoscale_engine(
        "size-file", str(job.folder), "latency p95 < 10s", "reactive", (1, 8), journal=journal, interval="1h"
    )
    with running:
        for _ in range(60):
            job.work()
            running.loop.tick()
    assert job.ready > 1
    explanation = command("explain", str(journal)).stdout
    assert "policy reactive" in explanation
    assert "1 → " in explanation


@pytest.mark.usefixtures("_installed")
def test_engines_are_listed_with_their_package_and_what_is_wrong_with_some() -> None:
    result = command("engines")
    assert result.exit_code == 0
    assert "A job that follows a number in a file. (size-file 0.1.0)" in result.stdout
    assert result.stderr.startswith("headgate: engine 'no-class' of size-file 0.1.0 cannot be used: ")
    assert [engine["package"] for engine in json.loads(command("engines", "--json").stdout)] == [
        None,
        None,
        "size-file 0.1.0",
    ]


@pytest.mark.usefixtures("_installed")
def test_a_misspelt_engine_is_an_error_of_one_sentence() -> None:
    with pytest.raises(UnknownNameError, match="unknown engine 'size-fil', did you mean 'size-file'"):
        headgate.autoscale_engine("size-fil", "orders")
    with pytest.raises(InputError, match="is not a class that extends EngineBase"):
        headgate.autoscale_engine("no-class", "orders")
