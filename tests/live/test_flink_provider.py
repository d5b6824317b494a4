"""TaskManagers of a real Flink cluster, started and stopped by requests to a server."""

from __future__ import annotations

from contextlib import closing

import pytest

from headgate.engines.flink.task_managers import HttpProvider
from headgate.local.flink import LocalFlink
from headgate.local.taskmanager_server import LocalPool, TaskManagerRequests, TaskManagerServer

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]


def test_taskmanagers_come_and_go_by_a_server() -> None:
    with (
        LocalFlink(taskmanagers=1, slots=1) as flink,
        closing(TaskManagerServer(TaskManagerRequests(LocalPool(flink.cluster), most=2))) as server,
        closing(HttpProvider(server.url)) as provider,
    ):
        provider.add(3)
        assert provider.wanted() == 2
        flink.cluster.await_taskmanagers()
        there = [manager.id for manager in flink.cluster.taskmanagers()]
        assert len(there) == 2
        provider.remove(there, 1)
        flink.cluster.await_taskmanagers()
        assert provider.wanted() == len(flink.cluster.taskmanagers()) == 1
