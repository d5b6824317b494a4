"""A program that is scaled by its job file: edits take effect while it runs, and wrong ones change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.core.types import JSON, Answer, Decision, Instances, Observation, Outcome, Receipt, Sample
from headgate.journal.writer import SqliteJournal
from headgate.policies.frame.base import PolicyBase
from headgate.runtime.attachment import Attachment
from headgate.runtime.autoscaler import Autoscaler, autoscale_engine
from headgate.runtime.job_file import JobFile, read_job_file
from headgate.runtime.loop import SystemClock

JOB = """\
script: job.py
objective: latency p95 < 10s
executors: [1, 3]
policy: reactive
"""


class SteadyEngine:
    """An engine whose readings are always the same."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock

    def topology(self) -> Topology:
        return Topology.single()

    def observe(self) -> Observation:
        now = self._clock.now()
        return Observation(now, {"job": Sample("job", now, latency_s=1.0)}, {"job": Instances(1, 1, 1)})

    def apply(self, decision: Decision) -> Receipt:
        return Receipt(self._clock.now(), {"job": Answer(Outcome.UNCHANGED, 1)})

    def close(self) -> None:
        """Nothing is held."""


class Program:
    """A program whose first stream has started, with the messages that its user sees."""

    def __init__(self, folder: Path, text: str = JOB) -> None:
        (folder / "job.py").touch()
        self.path = folder / "job.yaml"
        if text:
            self.path.write_text(text)
        self.messages: list[str] = []
        self.opened: list[tuple[JobFile, Mapping[str, JSON] | None, Autoscaler]] = []
        self.attachment = Attachment(self.path, read_job_file(self.path), self.messages.append, self._open)
        self.attachment("the stream")

    def _open(self, stream: Any, job: JobFile, state: Mapping[str, JSON] | None) -> Autoscaler:
        if job.options.get("queries") == ["nobody"]:
            raise InputError("no query has the name 'nobody'.")
        options: dict[str, Any] = {name: job.options[name] for name in ("journal", "mode") if name in job.options}
        engine_clock = SystemClock()
        running = autoscale_engine(
            SteadyEngine(engine_clock),
            "clicks",
            job.objective,
            job.policy,
            settings=job.options.get("settings"),  # type: ignore[arg-type]
            interval=3600.0,
            state=state,
            clock=engine_clock,
            **options,
        )
        self.opened.append((job, state, running))
        return running

    @property
    def running(self) -> Autoscaler:
        return self.opened[-1][2]

    @property
    def objective(self) -> str:
        policy = self.running.loop.policy
        assert isinstance(policy, PolicyBase)
        return str(policy.objective)

    def edit(self, before: str, after: str) -> None:
        text = self.path.read_text().replace(before, after)
        # As editors do it, and Kubernetes with a ConfigMap: another file takes the name.
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)
        self.attachment.check()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    started = Program(tmp_path)
    yield started
    started.attachment.stop()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("p95 < 10s", "p99 < 5s", "objective latency p99 < 5s instead of latency p95 < 10s"),
        ("[1, 3]", "[2, 6]", "executors [2, 6] instead of [1, 3]"),
        ("policy: reactive", "policy: hpa", "policy hpa"),
        ("policy: reactive", "policy: reactive\nsettings: {headroom: 0.5}", "settings {'headroom': '0.5'}"),
        ("policy: reactive", "policy: reactive\nmode: recommend", "mode recommend"),
    ],
)
def test_an_edit_takes_effect_while_the_program_runs(program: Program, before: str, after: str, message: str) -> None:
    first = program.running
    program.edit(before, after)
    assert program.messages[1:] == [f"headgate: job.yaml has changed: {message}"]
    assert not first.is_alive
    assert program.running.is_alive
    wanted = read_job_file(program.path)
    assert program.objective == str(wanted.objective)
    assert program.running.loop.policy.name == wanted.policy
    assert str(program.running.loop.mode) == wanted.options["mode"]


def test_what_was_learned_stays_unless_another_policy_decides(program: Program) -> None:
    program.edit("[1, 3]", "[1, 4]")
    assert program.opened[1][1] == program.opened[0][2].loop.policy.snapshot()
    program.edit("policy: reactive", "policy: hpa")
    assert program.opened[2][1] is None


@pytest.mark.parametrize("wrong", ["latency p95 ~ 10s", "latency p95 < 10s\nqueries: [nobody]"])
def test_an_edit_that_cannot_be_used_changes_nothing(program: Program, wrong: str) -> None:
    program.edit("latency p95 < 10s", wrong)
    assert program.running.is_alive
    assert program.objective == "latency p95 < 10s"
    assert any("is refused, and what was in force stays" in text or "as before" in text for text in program.messages)
    program.edit(wrong, "latency p95 < 9s")
    assert program.objective == "latency p95 < 9s"


def test_what_a_running_program_cannot_change_waits_for_its_next_start(program: Program) -> None:
    program.edit("script: job.py", "script: job.py\nmaster: local\narguments: [1]\njournal: run.db")
    assert program.messages[1:] == [
        "headgate: arguments, master, journal of job.yaml take effect when the program starts again"
    ]
    assert len(program.opened) == 1


def test_a_file_that_is_gone_for_a_moment_and_one_that_says_the_same_change_nothing(program: Program) -> None:
    text = program.path.read_text()
    program.path.unlink()
    program.attachment.check()
    program.path.write_text(f"# as before\n{text}")
    program.attachment.check()
    assert len(program.messages) == len(program.opened) == 1


def test_a_mounted_config_map_is_followed(tmp_path: Path) -> None:
    """Kubernetes writes a folder of its own for each version, and points a link at the newest."""
    for version, bound in (("v1", 10), ("v2", 7)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "job.yaml").write_text(JOB.replace("10s", f"{bound}s"))
    (tmp_path / "job.yaml").symlink_to("..data/job.yaml")
    (tmp_path / "..data").symlink_to("v1")
    program = Program(tmp_path, text="")
    (tmp_path / "..new").symlink_to("v2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    program.attachment.check()
    assert program.objective == "latency p95 < 7s"
    program.attachment.stop()


def test_the_journal_goes_on_with_a_run_that_says_what_has_changed(tmp_path: Path) -> None:
    program = Program(tmp_path, f"{JOB}journal: run.db\n")
    program.edit("p95 < 10s", "p90 < 20s")
    program.edit("p90 < 20s", "p90 ~ 20s")
    program.attachment.stop()
    with closing(SqliteJournal.read(tmp_path / "run.db")) as journal:
        assert [run.objective for _, run in journal.runs("clicks")] == ["latency p95 < 10s", "latency p90 < 20s"]
        kinds = [event.kind for event in journal.events(run=2)]
    assert {"job-file-changed", "job-file-refused"} <= set(kinds)
