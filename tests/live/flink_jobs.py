"""A job on the Flink cluster of live tests: its sizes, its servers, and the end of it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import psutil

from headgate.core.errors import EngineError
from headgate.local.flink import LocalFlink
from headgate.local.flink_asking import ENDED, asked
from tests.live.support import eventually


@dataclass(frozen=True)
class RunningJob:
    flink: LocalFlink
    id: str

    def sizes(self) -> dict[str, int]:
        """The parallelism of each vertex by its id; empty while not all of its instances run, or nobody answers."""
        try:
            found = asked(self.flink.url, f"jobs/{self.id}")
        except EngineError:
            return {}
        vertices = found["vertices"]
        if found["state"] != "RUNNING" or any(one["status"] not in ("RUNNING", "FINISHED") for one in vertices):
            return {}
        return {one["id"]: one["parallelism"] for one in vertices}

    def resize(self, size: int) -> dict[str, int]:
        """Ask for another size of all vertices, in one request, and wait until all have it; gives the sizes."""
        path = f"jobs/{self.id}/resource-requirements"
        most = {one["id"]: one["maxParallelism"] for one in asked(self.flink.url, f"jobs/{self.id}")["vertices"]}
        # A step that puts all together has one instance for ever.
        sizes = {vertex: min(size, most[vertex]) for vertex in most}
        asked(
            self.flink.url,
            path,
            {vertex: {"parallelism": {"lowerBound": 1, "upperBound": sizes[vertex]}} for vertex in sizes},
            method="PUT",
        )
        self.await_sizes(sizes)
        return sizes

    def await_sizes(self, sizes: dict[str, int]) -> None:
        eventually(f"the sizes {sizes}", lambda: self.sizes() == sizes)

    def pending(self) -> float | None:
        """Records in topics that no source has read yet; ``None`` while that is not known."""
        total = 0.0
        try:
            for vertex in asked(self.flink.url, f"jobs/{self.id}")["vertices"]:
                path = f"jobs/{self.id}/vertices/{vertex['id']}/subtasks/metrics"
                names = [one["id"] for one in asked(self.flink.url, path) if one["id"].endswith(".pendingRecords")]
                if not names and vertex["name"].startswith("Source"):
                    return None
                for name in names:
                    quoted = quote(name)
                    found = asked(self.flink.url, f"{path}?get={quoted}&agg=sum")
                    total += sum(one["sum"] for one in found)
        except EngineError:
            return None
        return total

    def at_work_on(self) -> str:
        """One of the TaskManagers that the job runs on: others are not missed when they are gone."""
        vertex = asked(self.flink.url, f"jobs/{self.id}")["vertices"][0]["id"]
        return str(asked(self.flink.url, f"jobs/{self.id}/vertices/{vertex}")["subtasks"][0]["taskmanager-id"])

    def servers(self, word: str) -> list[psutil.Process]:
        """Processes of the cluster by a word of their command lines."""
        mine = str(self.flink.directory)
        found = []
        for process in psutil.Process().children(recursive=True):
            command = " ".join(process.cmdline()) if process.status() != psutil.STATUS_ZOMBIE else ""
            if mine in command and word in command and "headgate.local.warden" not in command:
                found.append(process)
        return found


def cancel(flink: LocalFlink, name: str) -> None:
    """End what runs under a name, so that its slots are there for others."""

    def running() -> list[str]:
        jobs = asked(flink.url, "jobs/overview")["jobs"]
        return [one["jid"] for one in jobs if one["name"] == name and one["state"] not in ENDED]

    for number in running():
        asked(flink.url, f"jobs/{number}?mode=cancel", {}, method="PATCH")
    eventually(f"the end of {name}", lambda: not running())
