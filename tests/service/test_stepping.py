"""Stepping many jobs on one thread: when, how evenly, and that one does not harm the others."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.service.api.about import OVERDUE_S
from headgate.service.config import read_config
from headgate.service.scheduler import next_step_s
from headgate.service.service import Service
from headgate.service.serving import ConfigWatch
from headgate.service.store import open_store
from headgate.testing.clock import FakeClock
from tests.service.services import CLICKS, START_S, Served, served

FILE = """\
version: 1
store: sqlite://
jobs:
  clicks:
    objective: latency p95 < 10s
    policy: static
    settings: {instances: 2}
    operators: {count: {instances: [1, 4]}}
"""


def test_jobs_are_spread_over_their_interval_and_each_is_stepped_once_in_it() -> None:
    jobs = [replace(CLICKS, name=f"job-{number}") for number in range(20)]
    with served(*jobs) as here:
        stepped = []
        for _ in range(20):
            stepped.append(here.service.scheduler.step())
            here.clock.advance(0.5)
        assert sum(stepped) == 20
        assert max(stepped) <= 4
        assert all(job.ticks == 1 for job in here.service.fleet)


def test_steps_that_were_missed_are_not_made_up_for() -> None:
    with served() as here:
        first_s = next_step_s("clicks", CLICKS.interval_s, START_S)
        here.clock.advance(95.0)
        assert here.service.scheduler.step() == 1
        assert here.service.scheduler.late_s == pytest.approx(START_S + 95 - first_s)
        next_s = next_step_s("clicks", CLICKS.interval_s, here.clock.now())
        here.clock.wait_until(next_s - 0.01, threading.Event())
        assert here.service.scheduler.step() == 0
        here.clock.advance(0.01)
        assert here.service.scheduler.step() == 1, "at its regular time"


def test_the_times_of_steps_follow_from_the_name_of_a_job() -> None:
    with served() as here, served() as other:
        other.clock.advance(1234.5)
        at_s = []
        for service in (here, other):
            service.service.scheduler.step()  # One of them is late by now.
            while not service.service.scheduler.step():
                service.clock.advance(0.25)
            at_s.append(service.clock.now())
        intervals = (at_s[1] - at_s[0]) / CLICKS.interval_s
        assert intervals == pytest.approx(round(intervals), abs=0.05)


def test_a_job_that_cannot_be_stepped_does_not_keep_others_from_it(caplog: pytest.LogCaptureFixture) -> None:
    with served(CLICKS, replace(CLICKS, name="broken")) as here:
        here.service.fleet.job("broken").loop.clock = None  # type: ignore[assignment]
        here.clock.advance(10.0)
        assert here.service.scheduler.step() == 2
        assert here.service.fleet.job("clicks").decision is not None
        assert "job broken could not be stepped" in caplog.text
        here.service.fleet.job("broken").loop.clock = here.clock


def health(here: Served) -> tuple[int, str]:
    answer = here.client().get("/healthz")
    return answer.status_code, answer.text


def test_a_loop_that_does_nothing_is_not_healthy() -> None:
    with served() as here:
        assert health(here) == (503, "nothing steps the jobs.")
        idle = threading.Event()
        thread = threading.Thread(target=idle.wait)
        here.service.scheduler._thread = thread
        thread.start()
        try:
            assert health(here) == (200, "ok")
            here.clock.wait_until(next_step_s("clicks", CLICKS.interval_s, START_S) + OVERDUE_S + 1, threading.Event())
            assert health(here)[0] == 503
            assert "has waited 31 s for its decision" in health(here)[1]
        finally:
            idle.set()
            thread.join()


def test_the_thread_steps_jobs_and_ends() -> None:
    with served(replace(CLICKS, interval_s=0.05)) as here:
        here.service.run()
        job, until = here.service.fleet.job("clicks"), threading.Event()
        job.loop.watchers.append(lambda seen, decided: until.set())
        assert until.wait(30.0)
        assert here.client().get("/readyz").status_code == 200
    assert not here.service.scheduler.is_alive


def test_a_changed_file_is_applied_and_a_wrong_one_is_reported(tmp_path: Path) -> None:
    path, clock = tmp_path / "headgate.yaml", FakeClock(START_S)
    path.write_text(FILE.replace("sqlite://", "sqlite:///headgate.db"))
    config = read_config(path)
    with Service(config, open_store(config.store, now=clock.now), clock) as service:
        watch = ConfigWatch(service)
        text = path.read_text()
        path.write_text(
            text.replace("instances: 2", "instances: 3") + text[text.index("  clicks") :].replace("clicks", "words")
        )
        watch()
        assert [job.name for job in service.fleet] == ["clicks", "words"]
        assert service.fleet.job("clicks").spec.settings["instances"] == "3"
        here = Served(service, clock)
        path.write_text(text.replace("policy: static", "policy: statik"))
        watch()
        assert "did you mean 'static'" in here.client().get("/v1/service").json()["file_problem"]
        assert [job.name for job in service.fleet] == ["clicks", "words"]
        path.write_text(text.replace("count:", "sum:"))
        watch()
        assert here.client().get("/v1/service").json()["file_problem"] is None
        assert [job.name for job in service.fleet] == ["clicks"]
        assert service.fleet.job("clicks").operators == ("sum",)
        changes = [entry.after for entry in service.store.audit.entries()]
        assert changes[0] == {"added": ["words"], "changed": ["clicks"], "gone": []}


def test_a_changed_file_of_rules_is_taken_up_too(tmp_path: Path) -> None:
    path, rules, clock = tmp_path / "headgate.yaml", tmp_path / "rules.yaml", FakeClock(START_S)
    rules.write_text("version: 1\nconstraints: [{name: few, at_most: 3}]\n")
    path.write_text(FILE.replace("sqlite://", "sqlite:///headgate.db") + "    constraints: rules.yaml\n")
    config = read_config(path)
    with Service(config, open_store(config.store, now=clock.now), clock) as service:
        watch = ConfigWatch(service)
        rules.write_text("version: 1\nconstraints: [{name: none at all, forbid: any scaling}]\n")
        watch()
        assert [constraint.name for constraint in service.fleet.job("clicks").spec.constraints] == ["none at all"]
        watch()
        assert len(service.store.audit.entries()) == 1
