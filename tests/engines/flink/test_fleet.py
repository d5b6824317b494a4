"""TaskManagers come when sizes need them, and go when nothing has run on them for a while."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.core.errors import EngineError, InputError, UnknownNameError
from headgate.engines.flink.kubernetes import DELETION_COST, KubernetesProvider
from headgate.engines.flink.responses import TaskManagerEntry
from headgate.engines.flink.task_managers import ProviderKind, TaskManagerFleet, open_provider, provider_kind
from headgate.local.taskmanager_server import TaskManagerRequests, TaskManagerServer
from tests.engines.flink.stand_in import StandIn, standing_in


def manager(name: str, used: int = 0, slots: int = 2) -> TaskManagerEntry:
    return TaskManagerEntry.model_validate({"id": name, "slotsNumber": slots, "freeSlots": slots - used})


class Recording:
    """A provider that carries out every call at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.gone: list[str] = []
        self.closed = False

    def wanted(self) -> int:
        return self.count

    def add(self, count: int) -> None:
        self.count += count

    def remove(self, free: Sequence[str], count: int) -> None:
        self.gone += free[:count]
        self.count -= count

    def close(self) -> None:
        self.closed = True


def test_as_many_are_started_as_the_sizes_need() -> None:
    provider = Recording(1)
    fleet = TaskManagerFleet(provider)
    assert fleet.grow(0.0, [manager("a", used=1)], slots=5, own_slots=1) == 0
    assert provider.count == 3
    # Called again before they have registered, nothing more is started.
    fleet.grow(1.0, [manager("a", used=1)], slots=5, own_slots=1)
    assert provider.count == 3
    assert [event.kind for event in fleet.take_events()] == ["taskmanagers-added"]


def test_slots_of_other_jobs_are_left_to_them() -> None:
    provider = Recording(2)
    TaskManagerFleet(provider).grow(0.0, [manager("a", used=2), manager("b", used=2)], slots=3, own_slots=2)
    assert provider.count == 3


def test_without_a_provider_what_is_missing_is_counted() -> None:
    fleet = TaskManagerFleet(None)
    assert not fleet.is_managed
    assert fleet.grow(0.0, [manager("a", used=1)], slots=5, own_slots=1) == 3
    fleet.shrink(0.0, [manager("a"), manager("b")], slots=1, own_slots=1)
    fleet.close()


def test_only_what_has_been_free_for_a_while_goes() -> None:
    provider = Recording(3)
    fleet = TaskManagerFleet(provider, free_for_s=15)
    managers = [manager("a", used=2), manager("b"), manager("c", used=1)]
    for at_s in (0.0, 10.0):
        fleet.shrink(at_s, managers, slots=3, own_slots=3)
    assert provider.gone == []
    fleet.shrink(16.0, managers, slots=3, own_slots=3)
    assert provider.gone == ["b"]
    assert provider.count == 2


def test_one_that_is_used_again_is_not_drained() -> None:
    provider = Recording(2)
    fleet = TaskManagerFleet(provider, free_for_s=15)
    for at_s, used in ((0.0, 0), (10.0, 1), (20.0, 0), (30.0, 0)):
        fleet.shrink(at_s, [manager("a", used=1), manager("b", used=used)], slots=1, own_slots=1)
    assert provider.gone == []
    fleet.shrink(36.0, [manager("a", used=1), manager("b")], slots=1, own_slots=1)
    assert provider.gone == ["b"]


def test_while_a_job_still_runs_at_its_old_size_nothing_goes() -> None:
    provider = Recording(3)
    fleet = TaskManagerFleet(provider, free_for_s=0)
    fleet.shrink(0.0, [manager("a", used=2), manager("b", used=2), manager("c")], slots=2, own_slots=6)
    assert provider.gone == []


def test_those_that_are_still_to_come_are_not_taken_for_spare() -> None:
    provider = Recording(4)
    fleet = TaskManagerFleet(provider, free_for_s=0)
    fleet.shrink(0.0, [manager("a", used=2)], slots=8, own_slots=2)
    assert provider.gone == []


def test_the_last_one_stays() -> None:
    provider = Recording(1)
    fleet = TaskManagerFleet(provider, free_for_s=0)
    fleet.shrink(0.0, [manager("a")], slots=0, own_slots=0)
    assert provider.gone == []


def test_a_standby_is_completed_when_a_job_takes_from_it_and_is_not_stopped() -> None:
    provider = Recording(1)
    fleet = TaskManagerFleet(provider, standby=2, free_for_s=0)
    fleet.shrink(0.0, [manager("a", used=2)], slots=2, own_slots=2)
    assert provider.count == 3
    managers = [manager("a", used=2), manager("b"), manager("c")]
    fleet.shrink(1.0, managers, slots=2, own_slots=2)
    assert (provider.count, provider.gone) == (3, [])
    # The job takes one of the standby at once, and another is started in its place.
    fleet.grow(2.0, managers, slots=4, own_slots=2)
    assert provider.count == 4
    # Back at its old size, one more than the standby is free.
    managers = [manager("a", used=2), manager("b"), manager("c"), manager("d")]
    fleet.shrink(3.0, managers, slots=2, own_slots=2)
    assert (provider.count, len(provider.gone)) == (3, 1)


@pytest.mark.parametrize(("provider", "standby"), [(None, 1), (Recording(1), -1)])
def test_a_standby_needs_a_provider_and_is_not_negative(provider: Recording | None, standby: int) -> None:
    with pytest.raises(InputError, match=rf"{standby} TaskManagers in standby"):
        TaskManagerFleet(provider, standby=standby)


# ----------------------------------------------------------------------------------------------------------- providers


def test_a_misspelt_provider_is_answered_with_the_closest() -> None:
    assert provider_kind("local") is ProviderKind.LOCAL
    with pytest.raises(UnknownNameError, match="unknown provider 'kubernets', did you mean 'kubernetes'"):
        provider_kind("kubernets")


def test_a_deployment_goes_with_kubernetes_only() -> None:
    assert open_provider(ProviderKind.NONE, "http://127.0.0.1:1") is None
    with pytest.raises(InputError, match="deployment 'flink/tm' goes with provider kubernetes; the provider is none"):
        open_provider(ProviderKind.NONE, "http://127.0.0.1:1", "flink/tm")
    with pytest.raises(InputError, match="needs the Deployment of the TaskManagers"):
        open_provider(ProviderKind.KUBERNETES, "http://127.0.0.1:1")


def test_a_cluster_that_was_not_started_here_is_not_scaled_here() -> None:
    with standing_in() as stand_in:
        stand_in.answers = {"/jobmanager/config": [{"key": "rest.port", "value": "8081"}]}
        with pytest.raises(InputError, match="was not started here by headgate flink up"):
            open_provider(ProviderKind.LOCAL, stand_in.url)


class Pool:
    """TaskManagers that are there as soon as they are started."""

    def __init__(self, *names: str) -> None:
        self.there = list(names)
        self.started = len(names)

    def names(self) -> list[str]:
        return list(self.there)

    def start(self) -> None:
        self.started += 1
        self.there.append(f"tm-{self.started}")

    def stop(self, name: str) -> None:
        self.there.remove(name)


@pytest.fixture
def pool() -> Pool:
    return Pool("tm-1", "tm-2")


@pytest.fixture
def server(pool: Pool) -> Iterator[TaskManagerServer]:
    with closing(TaskManagerServer(TaskManagerRequests(pool, most=4))) as server:
        yield server


def test_a_server_is_a_provider(pool: Pool, server: TaskManagerServer) -> None:
    provider = open_provider(server.url, "http://127.0.0.1:1")
    assert provider is not None
    with closing(provider):
        assert provider.wanted() == 2
        provider.add(1)
        assert pool.there == ["tm-1", "tm-2", "tm-3"]
        provider.add(5)
        assert pool.there == ["tm-1", "tm-2", "tm-3", "tm-4"]
        # Of the free ones only so many; one that the server does not know is none of them.
        provider.remove(["10.0.0.1:6122-4dae59", "tm-3", "tm-2"], 1)
        assert pool.there == ["tm-1", "tm-2", "tm-4"]


def test_the_server_does_what_the_document_describes(pool: Pool, server: TaskManagerServer) -> None:
    def request(method: str, body: object) -> tuple[int, Any]:
        answer = httpx.request(method, f"{server.url}/taskmanager", json=body)
        return answer.status_code, answer.json()

    assert request("POST", {"target": 2}) == (
        202,
        {"version": 1, "taskmanagers": ["tm-1", "tm-2", "tm-3", "tm-4"], "most": 4},
    )
    status, answer = request("DELETE", {"used": ["tm-2"], "free": 1})
    assert (status, answer["taskmanagers"]) == (202, ["tm-2", "tm-4"])
    for method, body, error in (
        ("POST", {"target": -1}, "target is -1; a whole number of at least 0 is needed."),
        ("POST", None, "target is None; a whole number of at least 0 is needed."),
        ("DELETE", {"used": "tm-2", "free": 0}, "used is 'tm-2'; a list of the names of TaskManagers is needed."),
    ):
        assert request(method, body) == (400, {"error": error})
    assert pool.there == ["tm-2", "tm-4"]


def test_what_is_wrong_with_a_server_is_one_sentence(server: TaskManagerServer) -> None:
    with pytest.raises(
        EngineError, match=r"^the provider at .* did not do GET /taskmanager: .*there is only /taskmana"
    ):
        open_provider(f"{server.url}/other", "http://127.0.0.1:1")
    with standing_in() as stand_in:
        stand_in.answers = {"/taskmanager": {"taskmanagers": 3}}
        with pytest.raises(EngineError, match="cannot be understood"):
            open_provider(stand_in.url, "http://127.0.0.1:1")
    with pytest.raises(EngineError, match="does not answer"):
        open_provider(stand_in.url, "http://127.0.0.1:1")


SCALE = "/apis/apps/v1/namespaces/flink/deployments/taskmanager/scale"
PODS = "/api/v1/namespaces/flink/pods"


class Deployment:
    """A Deployment behind answers in the form of Kubernetes' API."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.costs: dict[str, str] = {}

    def answer(self, method: str, path: str, body: Any) -> Any:
        if path == SCALE:
            if method == "PATCH":
                self.replicas = body["spec"]["replicas"]
            return {"kind": "Scale", "spec": {"replicas": self.replicas}, "status": {"selector": "app=taskmanager"}}
        if path == PODS:
            items = [
                {"metadata": {"name": f"tm-{n}"}, "status": {"podIP": f"10.0.0.{n}"}} for n in range(self.replicas)
            ]
            return {"kind": "PodList", "items": items}
        if method == "PATCH" and path.startswith(f"{PODS}/"):
            self.costs[path.removeprefix(f"{PODS}/")] = body["metadata"]["annotations"][DELETION_COST]
            return {"kind": "Pod"}
        return 404, {"kind": "Status", "message": f"{path} not found"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "namespace").write_text("flink")
    return tmp_path


@pytest.fixture
def api() -> Iterator[StandIn]:
    with standing_in() as stand_in:
        yield stand_in


def test_a_deployment_is_scaled_by_its_subresource(api: StandIn, account: Path) -> None:
    deployment = Deployment(2)
    api.answered_by = deployment.answer
    provider = KubernetesProvider("flink/taskmanager", url=api.url, account=account)
    assert provider.wanted() == 2
    provider.add(3)
    assert deployment.replicas == 5
    assert api.changes == [(SCALE, {"spec": {"replicas": 5}})]
    assert {header["Authorization"] for header in api.headers} == {"Bearer secret"}
    assert api.headers[-1]["Content-Type"] == "application/merge-patch+json"
    provider.close()


def test_pods_that_nothing_runs_on_are_the_first_to_go(api: StandIn, account: Path) -> None:
    deployment = Deployment(3)
    api.answered_by = deployment.answer
    provider = KubernetesProvider("taskmanager", url=api.url, account=account)
    provider.remove(["10.0.0.1:6122-4dae59", "tm-2", "10.0.0.0:6122-9"], 2)
    assert deployment.costs == {"tm-1": "-1000", "tm-2": "-1000"}
    assert deployment.replicas == 1
    # One whose pod is not found stays, for another might go in its place.
    provider.remove(["192.168.0.9:6122-1"], 1)
    assert deployment.replicas == 1


@pytest.mark.parametrize(
    ("fault", "reported"),
    [
        (
            (403, json.dumps({"message": "deployments.apps is forbidden."}).encode()),
            "did not do GET .*: deployments.apps is forbidden",
        ),
        ((500, b"oops"), "did not do GET .*: status 500"),
        ((200, b"<html>"), "cannot be understood: its answer to GET .* is no JSON"),
    ],
)
def test_what_is_wrong_with_kubernetes_is_one_sentence(
    api: StandIn, account: Path, fault: tuple[int, bytes], reported: str
) -> None:
    api.fault = fault
    with pytest.raises(EngineError, match=reported):
        KubernetesProvider("flink/taskmanager", url=api.url, account=account)


def test_a_name_or_an_account_that_is_not_usable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    (tmp_path / "token").write_text("secret")
    for deployment in ("/x", "x/", "a/b/c"):
        with pytest.raises(InputError, match="is not usable; write namespace/name"):
            KubernetesProvider(deployment, url="http://127.0.0.1:1", account=tmp_path)
    with pytest.raises(InputError, match="the namespace of a service account is not at"):
        KubernetesProvider("taskmanager", account=tmp_path)
    with pytest.raises(InputError, match="KUBERNETES_SERVICE_HOST"):
        KubernetesProvider("flink/taskmanager", account=tmp_path)
