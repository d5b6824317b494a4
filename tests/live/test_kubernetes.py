"""Jobs on a real Kubernetes: they grow and shrink, survive faults, and say what the cluster does not give them.

One cluster serves all tests. Its first start on a machine builds Kubernetes from source, which takes a while.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from headgate.core.errors import HeadgateError
from headgate.local.spark.kubernetes.cluster import NAMESPACE, LocalKubernetes
from headgate.local.spark.kubernetes.node import NodeNetwork
from headgate.local.spark.kubernetes.tools import kubernetes_tools, version
from tests.live.cluster_job import TIMES_OUT_S, Course, RunningJob, start_here, write_course
from tests.live.proved_runs import finish_and_note

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

QUICK = {"idle_for_s": 6.0, "drain_within_s": 15.0}
"""Settings of the policy, so that a test need not wait for minutes."""
EXECUTOR = "KubernetesExecutorBackend"
PLAN_BACK_WITHIN_S, GROWS_WITHIN_S = 120.0, 60.0
"""What ``docs/guides/clusters.md`` promises of a plan that the cluster does not fulfil."""
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all containers see."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def kubernetes(shared: Path) -> Iterator[LocalKubernetes]:
    try:
        kubernetes_tools()
    except HeadgateError as error:
        pytest.skip(str(error))
    with LocalKubernetes(folders=[shared]) as running:
        directory, cable = running.directory, cable_of(running)
        yield running
    assert left_over(directory, cable) == []
    assert executors() == []


def cable_of(kubernetes: LocalKubernetes) -> str:
    return NodeNetwork(int(kubernetes.url.split(".")[2])).cable


def left_over(directory: Path, cable: str) -> list[str]:
    """What is left of a cluster that has ended."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{directory.name}")]
    cables = [cable] if Path("/sys/class/net", cable).exists() else []
    processes = [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline"])
        if any(str(directory) in part for part in process.info["cmdline"] or ())
    ]
    inside = [path for path in (str(directory), *mounts) if path.startswith(str(directory)) and Path(path).exists()]
    return [*inside, *processes, *groups, *cables]


def executors() -> list[psutil.Process]:
    """The executors in containers of this machine."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if command and command[0].endswith("java") and any(EXECUTOR in part for part in command):
            found.append(process)
    return found


Start = Callable[..., RunningJob]


@pytest.fixture
def start(kubernetes: LocalKubernetes, shared: Path, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Start a job in client mode; what is left of it and of limits goes with the test."""
    jobs: list[RunningJob] = []

    def start_job(
        *,
        workload: str = "constant:15",
        seconds: float = 30.0,
        most: int = 4,
        policy: str = "static",
        settings: dict[str, float] | None = None,
        session: dict[str, str] | None = None,
        **more: str,
    ) -> RunningJob:
        folder = shared / f"{request.node.name}-{len(jobs)}"
        folder.mkdir()
        chosen = kubernetes.settings() | {"spark.sql.shuffle.partitions": "2"} | (session or {})
        course = Course(workload, seconds, most, policy, settings or {}, **more)
        jobs.append(start_here(folder, course, master, chosen, os.environ))
        return jobs[-1]

    master = f"k8s://{kubernetes.url}"
    yield start_job
    for job in jobs:
        job.kill()
    kubernetes.limit()
    kubernetes.accept_pods(accept=True)
    for pod in kubernetes.pods():
        kubernetes.api("DELETE", f"{PODS}/{pod}?gracePeriodSeconds=0")
    wait_until(lambda: not kubernetes.pods())


def finished(job: RunningJob, course: str) -> dict[str, Any]:
    return finish_and_note(job, f"Kubernetes {version()}", course)


def wait_until(is_so: Callable[[], bool]) -> None:
    until_s = time.monotonic() + TIMES_OUT_S
    while not is_so():
        assert time.monotonic() < until_s, "it did not get there"
        time.sleep(0.2)


def test_a_job_grows_survives_a_kill_and_a_deleted_pod_and_shrinks(kubernetes: LocalKubernetes, start: Start) -> None:
    job = start(
        workload="spike:base=15,peak=90,at=5s,width=80s", seconds=120.0, most=3, policy="reactive", settings=QUICK
    )
    job.until_ready(3)
    executors()[0].kill()
    job.until(lambda sizes: sizes[-1].ready < 3, "a killed executor is noticed")
    job.until_ready(3)
    running = [name for name, phase in kubernetes.pods().items() if phase == "Running"]
    kubernetes.api("DELETE", f"{PODS}/{running[0]}")
    job.until(lambda sizes: sizes[-1].ready < 3, "a deleted pod is noticed")
    job.until_ready(1)
    finished(job, "it grows to 3; an executor is killed by SIGKILL, the pod of another is deleted; it shrinks to 1")


def test_executors_drain_without_a_failed_task(start: Start) -> None:
    job = start(
        workload="spike:base=15,peak=90,at=5s,width=20s", seconds=45.0, most=3, policy="reactive", settings=QUICK
    )
    job.until_ready(3)
    job.until_ready(1)
    assert finished(job, "it grows to 3 and drains to 1 without a failed task")["failed_tasks"] == 0


def test_a_quota_gives_what_there_is_and_the_plan_follows_it_down_and_up(
    kubernetes: LocalKubernetes, start: Start
) -> None:
    kubernetes.limit(pods=2)
    job = start(settings={"instances": 4})
    at_limit = job.until(lambda sizes: sizes[-1].ready == 2 and sizes[-1].planned == 4, "two of four")[-1].at_s
    back = job.until(lambda sizes: (sizes[-1].planned, sizes[-1].ready) == (2, 2), "the plan comes back")[-1].at_s
    assert back - at_limit < PLAN_BACK_WITHIN_S
    assert any("exceeded quota" in size.missing_why for size in job.sizes)
    assert "exceeded quota" in job.reasons()[0]
    assert "exceeded quota" in dict(job.events())["executors-missing"]
    assert "exceeded quota" in job.explained()
    kubernetes.limit(pods=8)
    raised_s = time.monotonic()
    job.until_ready(4)
    assert time.monotonic() - raised_s < GROWS_WITHIN_S
    finished(job, "a quota has room for 2 of 4; later for all")


def test_a_node_that_takes_no_pods_is_named_and_used_again_later(kubernetes: LocalKubernetes, start: Start) -> None:
    job = start(settings={"instances": 3}, mode="act")
    job.until_ready(3)
    kubernetes.accept_pods(accept=False)
    executors()[0].kill()
    job.until(lambda sizes: "cannot be scheduled" in sizes[-1].missing_why, "the reason is known")
    job.until_ready(2)
    assert "cannot be scheduled" in job.reasons()[0]
    kubernetes.accept_pods(accept=True)
    job.until_ready(3)
    finished(job, "an executor is killed while the node takes no pods; later it does")


def test_an_image_that_is_not_there_is_named(start: Start) -> None:
    job = start(session={"spark.kubernetes.executor.container.image": "headgate.local/absent:1"})
    job.until(lambda sizes: "ErrImageNeverPull" in sizes[-1].missing_why, "the reason is known")
    assert "headgate.local/absent:1" in job.sizes[-1].missing_why


def test_pods_that_come_one_at_a_time_are_waited_for(start: Start) -> None:
    batches = {"spark.kubernetes.allocation.batch.size": "1", "spark.kubernetes.allocation.batch.delay": "5s"}
    job = start(settings={"instances": 4}, session=batches)
    sizes = job.until_ready(4)
    assert {size.ready for size in sizes} >= {1, 2, 3, 4}
    assert not job.reasons(), "a cluster that gives what was requested, slowly, is not full"
    finished(job, "pods are created one by one, 5 s apart (`spark.kubernetes.allocation.batch`)")


def test_recommendations_change_nothing(kubernetes: LocalKubernetes, start: Start) -> None:
    job = start(settings={"instances": 3}, mode="recommend")
    job.until(lambda sizes: sizes[-1].ready == 1, "one ready")
    finished(job, "recommendations only: nothing changes")
    assert {size.planned for size in job.sizes} == {1}


def test_a_driver_in_a_pod_scales_and_is_started_again(kubernetes: LocalKubernetes, shared: Path, start: Start) -> None:
    folder = shared / "in-a-pod"
    folder.mkdir()
    course = Course("constant:15", 60.0, most=3, settings={"instances": 3})
    job = submitted(kubernetes, folder, course)
    job.until_ready(3)
    kubernetes.api("DELETE", f"{PODS}/job-driver?gracePeriodSeconds=0")
    wait_until(lambda: not kubernetes.pods())
    (folder / "sizes.jsonl").unlink()
    job = submitted(kubernetes, folder, course)
    job.until_ready(3)
    finished(job, "cluster mode; the pod of the driver is deleted, and a new one has the journal")
    wait_until(lambda: kubernetes.pods().get("job-driver") == "Succeeded")


def test_nothing_is_left_of_a_cluster_whose_warden_was_killed() -> None:
    with LocalKubernetes() as kubernetes:
        directory, cable = kubernetes.directory, cable_of(kubernetes)
        (warden,) = [
            process
            for process in psutil.Process().children()
            if "headgate.local.warden" in process.cmdline() and str(directory) in process.cmdline()[-1]
        ]
        assert left_over(directory, cable)
        warden.kill()
        wait_until(lambda: left_over(directory, cable) == [])


def submitted(kubernetes: LocalKubernetes, folder: Path, course: Course) -> RunningJob:
    """Submit the job in cluster mode: its driver is a pod, with the rights of the account of the namespace."""
    program = folder / "job.py"
    shutil.copy(Path(__file__).with_name("cluster_job.py"), program)
    kubernetes.submit(program, [str(write_course(folder, course))])
    return RunningJob(folder, None)
