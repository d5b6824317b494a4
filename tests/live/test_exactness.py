"""Nothing lost and nothing doubled: applications that grow and shrink with their load while an executor is killed with
-9, and their driver is and starts again. What comes out is what a batch computation finds in the same records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

import headgate.apps.payloads  # noqa: F401 - registers them
from headgate.apps.registry import APPLICATIONS
from headgate.core.errors import InputError
from headgate.local.kafka import LocalKafka
from headgate.local.spark.cluster import LocalCluster
from headgate.workloads.payloads import make_payloads
from tests.live.app_runs import AppRun, kill_driver
from tests.live.support import eventually, executors_except


@dataclass(frozen=True)
class Trial:
    """How an application is loaded: a low rate and a high one by turns, by the clock."""

    application: str
    low_per_s: float = 20.0
    high_per_s: float = 250.0
    speed: float = 1.0
    """Times the clock, so that long windows close too."""
    keys: int = 50
    kafka: bool = False
    trigger_s: float = 1.0

    def often(self) -> tuple[str, ...]:
        """High for 12 s and low for 20 s by turns, five times.

        Two of them pass before a job that was killed is back; each is long enough for a slow machine to catch up in.
        """
        turns = f"high={12 * self.speed:g}s,low={20 * self.speed:g}s"
        return ("--workload", f"periodic:{self._rates},{turns}", *self._seconds(180))

    def once(self) -> tuple[str, ...]:
        """High at first, and low for long enough to be killed in."""
        return (
            "--workload",
            f"spike:{self._rates},at=0s,width={8 * self.speed:g}s",
            *self._seconds(24),
        )

    @property
    def _rates(self) -> str:
        return f"base={self.low_per_s / self.speed:g},peak={self.high_per_s / self.speed:g}"

    def _seconds(self, by_the_clock: float) -> tuple[str, ...]:
        return ("--seconds", f"{by_the_clock * self.speed:g}s", "--speed", f"{self.speed:g}")


TRIALS = {
    trial.application: trial
    for trial in (
        Trial("click-fraud", speed=10.0),
        Trial("cluster-tasks", low_per_s=1800.0, high_per_s=7000.0),
        Trial("data-clean", kafka=True),
        Trial("flight-distances", speed=5.0),
        Trial("grep", kafka=True),
        Trial("hoeffding-tree", trigger_s=3.0),
        Trial("page-view", kafka=True),
        Trial("rolling-hashtag-count", speed=5.0),
        Trial("nexmark-5", kafka=True),
        Trial("nexmark-11", kafka=True),
    )
}
DIFFERENT = ("grep", "click-fraud")
"""From a topic and without state; windows that close, in two aggregations."""


def trial_of(name: str) -> Trial:
    return TRIALS.get(name, Trial(name))


def run_and_kill(
    trial: Trial, load: tuple[str, ...], cluster: LocalCluster, kafka: LocalKafka, folder: Path
) -> list[int]:
    """Kill an executor when the job has grown, and then its driver; start it again, and see what comes out.

    Gives by how much its size was changed each time.
    """
    try:
        make_payloads(trial.application)
    except InputError as error:  # The real data is not on this machine.
        pytest.skip(str(error))
    source = ("--source", "kafka", "--bootstrap", kafka.bootstrap) if trial.kafka else ("--source", "embedded")
    records = ("--keys", str(trial.keys), "--state-partitions", "2..2", "--trigger", f"{trial.trigger_s}s", "--check")
    run = AppRun.on(cluster, folder / "run", trial.application, *source, *load, *records)
    run = run.ruled(trial.low_per_s + trial.high_per_s / 2)
    others = executors_except()  # Of the session that other tests use.
    with run.started() as process:
        eventually("two executors", lambda: len(executors_except(others)) == 2)
        eventually("word of how long the second took to start", lambda: bool(run.startups()))
        victim = max(executors_except(others), key=psutil.Process.create_time)
        victim.kill()
        eventually("the executor to be gone", lambda: victim not in executors_except(others))
        done = run.batches
        eventually("another batch", lambda: run.batches > done)
        assert process.poll() is None, "it has ended before it could be killed"
        kill_driver(process)
        process.wait(30)
    eventually("the executors of the killed driver to be gone", lambda: not executors_except(others))
    with run.started() as process:
        reported = run.ended(process)
    assert reported["records"]["read"] == reported["records"]["available"] > 1000
    assert reported["records"]["late"] == reported["records"]["malformed"] == 0
    assert reported["check"]["is_exact"], reported["check"]
    assert reported["check"]["expected"] > 0
    assert all(0 < startup.registered_after_s < 90 for startup in run.startups())
    return run.changes()


@pytest.mark.parametrize("name", DIFFERENT)
def test_nothing_is_lost_or_doubled_when_an_executor_and_the_driver_are_killed(
    name: str, cluster: LocalCluster, kafka: LocalKafka, tmp_path: Path
) -> None:
    trial = trial_of(name)
    run_and_kill(trial, trial.once(), cluster, kafka, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [each.name for each in APPLICATIONS])
def test_nothing_is_lost_or_doubled_by_three_times_out_and_in_and_two_kills(
    name: str, cluster: LocalCluster, kafka: LocalKafka, tmp_path: Path
) -> None:
    trial = trial_of(name)
    changes = run_and_kill(trial, trial.often(), cluster, kafka, tmp_path)
    assert min(changes.count(1), changes.count(-1)) >= 3, changes
