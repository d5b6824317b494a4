"""headgate mst: what it refuses before it starts anything, and how it goes on. The measuring itself is tested live."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from headgate.cli.mst_view import MstView
from headgate.core.errors import EngineError, HeadgateError
from headgate.lab import mst_measuring
from headgate.lab.mst import Measurement, MstPlan, MstResult, fitted, measurable
from headgate.lab.mst_measuring import Watcher
from headgate.lab.own_job import OwnJob, find_own_job
from headgate.testing import FakeClock
from tests.cli.commands import headgate, refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("steady-jb",), "unknown application 'steady-jb', did you mean 'steady-job'?"),
        (("steady-job", "--executors", "1,x"), "--executors '1,x' is not understood; write whole numbers with commas"),
        (("steady-job", "--executors", "3"), "executors 3 are too few; a curve needs at least 2 sizes."),
        (
            ("steady-job", "--validate", "2"),
            "executors 1,2,4,2 are not allowed; each must be at least 1 and",
        ),
        (
            ("steady-job", "--executors", "1," + "9" * 20),
            f"executors {'9' * 20} are not allowed; at most 1000 fit a machine.",
        ),
        ((), "either one APP or --all is needed; write for example headgate mst steady-job."),
        (("grep", "--all"), "either one APP or --all is needed"),
        (("my_job.py",), "there is no file my_job.py; give a Python file with a function that builds the query."),
        (("my_job.py:start",), "there is no file my_job.py; "),
        (("steady-job", "--cost", "soon"), "--cost: duration 'soon' is not understood"),
        (("steady-job", "--save", "no/such/folder.json"), "there is no folder no/such"),
    ],
)
def test_what_cannot_be_measured_is_reported_before_a_cluster_starts(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refused("mst", *arguments)


@pytest.mark.parametrize(
    ("file", "text", "requested", "message"),
    [
        ("my_job.py", "def make(spark, plan): ...", "my_job.py", "unknown function of my_job.py 'build'. Known: make."),
        ("my_job.py", "def build(spark, plan): ...", "my_job.py:bild", "did you mean 'build'? Known: build."),
        ("my_job.py", "def build(", "my_job.py", "my_job.py cannot be used: "),
        ("my-job.py", "def build(spark, plan): ...", "my-job.py", "its name must be one of a Python module"),
    ],
)
def test_a_file_without_the_function_is_reported_before_a_cluster_starts(
    file: str, text: str, requested: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text(text)
    assert message in refused("mst", requested)


def test_a_job_of_ones_own_is_planned_by_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_job.py").write_text("def build(spark, plan): ...")
    assert find_own_job("my_job.py") == find_own_job("my_job.py:build") == OwnJob(Path("my_job.py"))
    plan = MstPlan(executors=(1, 2), app="my_job", own=find_own_job("my_job.py"))
    assert plan.rows_per_batch(100.0) == 200


ALL = ("mst", "--all", "--executors", "1,2", "--save", "models")


class Measuring:
    """In place of a cluster: every size of a job gets through as much as its executors allow."""

    def __init__(self, *, stopped_at: str = "", failing: str = "") -> None:
        self.requested: list[str] = []
        self._stopped_at, self._failing = stopped_at, failing

    def __call__(
        self, plans: Sequence[MstPlan], watch: Callable[[MstPlan], Watcher]
    ) -> Iterator[MstResult | HeadgateError]:
        for plan in plans:
            watch(plan).stage("measuring")
            if plan.app == self._stopped_at:
                raise KeyboardInterrupt
            self.requested.append(plan.app)
            if plan.app == self._failing:
                yield EngineError("the job ended by itself: no more disk.")
                continue
            found = [Measurement(size, (90.0 * size,) * 5, (90.0 * size,) * 4, settled=size > 1) for size in plan.sizes]
            for measurement in found:
                watch(plan).settled(measurement)
            yield fitted(plan, found, "4.0")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "models"


def test_a_measurement_of_all_that_was_stopped_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, rest = Measuring(stopped_at="grep"), Measuring()
    monkeypatch.setattr(mst_measuring, "measure_all", stopped)
    first = headgate(*ALL)
    assert first.exit_code == 130
    assert "headgate: stopped; saved: models/steady-job.json, " in first.stderr
    assert "; the same command continues with the others." in first.stderr
    assert sorted(file.stem for file in folder.iterdir()) == sorted(stopped.requested)
    monkeypatch.setattr(mst_measuring, "measure_all", rest)
    second = headgate(*ALL, "--plot", "mst.html", "--json", "found.json")
    assert second.exit_code == 0, second.output
    assert f"{len(stopped.requested)} of {len(measurable())} are measured already: steady-job, " in second.stdout
    assert [*stopped.requested, *rest.requested] == measurable()
    found = json.loads(Path("found.json").read_text())
    assert [measurement["app"]["name"] for measurement in found] == measurable()
    assert found[0] == json.loads((folder / "steady-job.json").read_text()), "the same models are fitted again"
    assert Path("mst.html").exists()


def test_other_options_lead_to_new_measurements(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Measuring(failing="grep"), Measuring()
    monkeypatch.setattr(mst_measuring, "measure_all", first)
    failed = headgate(*ALL)
    assert failed.exit_code == 1
    assert "grep was not measured: the job ended by itself: no more disk." in failed.stderr
    monkeypatch.setattr(mst_measuring, "measure_all", second)
    again = headgate(*ALL, "--batch", "1s")
    assert again.exit_code == 0
    assert second.requested == measurable()
    assert "nexmark-5 was measured with other options, and is measured again" in again.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "model file 'models/grep.json' is no JSON: "),
        ('{"version": 9}', "model file 'models/grep.json' has version 9; version 1 is needed."),
        (
            '{"version": 1, "measurements": [{"executors": 1, "agreeing_per_s": [1], "use": "training"}]}',
            "model file 'models/grep.json' is damaged: KeyError('app'); delete it to measure again.",
        ),
    ],
)
def test_a_file_in_the_way_is_reported_and_not_replaced(folder: Path, content: str, message: str) -> None:
    folder.mkdir()
    (folder / "grep.json").write_text(content)
    assert message in refused(*ALL)
    assert (folder / "grep.json").read_text() == content


def shown(view: MstView) -> str:
    """What a terminal shows now."""
    output = StringIO()
    Console(file=output, width=200).print(view)
    return output.getvalue()


def test_the_time_left_is_estimated_from_the_options_at_first() -> None:
    clock, output = FakeClock(), StringIO()
    plan = MstPlan((1, 2, 4), batch_s=3.0)
    view = MstView(Console(file=output, width=200), [plan], clock.now)
    view.begin(plan).stage("starting a Spark cluster on this machine")
    assert output.getvalue().splitlines()[0] == "steady-job, about 100s left"
    clock.advance(20)
    assert "headgate mst steady-job, about 80s left" in shown(view)
    clock.advance(60)
    assert "about 60s left" in shown(view), "two sizes are not even begun"
    view.settled(Measurement(1, (9.0,) * 12, (9.0,), settled=False))
    assert "about 110s left" in shown(view), "it takes longer than was expected"


def test_the_time_left_follows_the_time_that_sizes_have_taken() -> None:
    output, clock = StringIO(), FakeClock()
    plans = [MstPlan((1, 2), app=name) for name in ("grep", "nexmark-1", "nexmark-2")]
    view = MstView(Console(file=output, width=200), plans, clock.now)
    for plan in plans:
        view.begin(plan).stage("measuring")
        clock.advance(60)
        if plan.app == "grep":
            view.settled(Measurement(1, (9.0,) * 12, (9.0,), settled=False))
            view.settled(Measurement(2, (9.0,), (9.0,)))
    lines = output.getvalue().splitlines()
    assert lines[0] == "grep (1 of 3), about 2m left"
    assert "1 executor: about 9.0 records/s, did not settle in time (12 batches)" in lines
    assert "nexmark-1 (2 of 3), about 90s left" in lines, "two of six sizes and the start took a minute"
    assert "nexmark-2 (3 of 3), about 50s left" in lines, "one that could not be measured counts as done"
