"""A job on the Flink cluster of live tests: its sizes, its servers, and the end of it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import psutil

from headgate.core.errors import EngineError
from headgate.local.flink import LocalFlink
from headgate.local.flink_rest import ENDED_STATES, flink_response
from tests.live.support import eventually


@dataclass(frozen=True)
class RunningJob:
    flink: LocalFlink
    id: str

    def sizes(self) -> dict[str, int]:
        """The parallelism of each vertex by its id; empty while not all of its instances run, or nobody answers."""
        try:
            found = flink_response(self.flink.url, f"jobs/{self.id}")
        except EngineError:
            return {}
        vertices = found["vertices"]
        if found["state"] != "RUNNING" or any(vertex["status"] not in ("RUNNING", "FINISHED") for vertex in vertices):
            return {}
        return {vertex["id"]: vertex["parallelism"] for vertex in vertices}

    def resize(self, size: int) -> dict[str, int]:
        """Ask for another size of all vertices, in one request, and wait until all have it; gives the sizes."""
        path = f"jobs/{self.id}/resource-requirements"
        most = {
            entry["id"]: entry["maxParallelism"]
            for entry in flink_response(self.flink.url, f"jobs/{self.id}")["vertices"]
        }
        # A step that puts all together has one instance for ever.
        sizes = {vertex: min(size, most[vertex]) for vertex in most}
        flink_response(
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
            for vertex in flink_response(self.flink.url, f"jobs/{self.id}")["vertices"]:
                path = f"jobs/{self.id}/vertices/{vertex['id']}/subtasks/metrics"
                names = [
                    metric["id"]
                    for metric in flink_response(self.flink.url, path)
                    if metric["id"].endswith(".pendingRecords")
                ]
                if not names and vertex["name"].startswith("Source"):
                    return None
                for name in names:
                    quoted = quote(name)
                    found = flink_response(self.flink.url, f"{path}?get={quoted}&agg=sum")
                    total += sum(metric["sum"] for metric in found)
        except EngineError:
            return None
        return total

    def at_work_on(self) -> str:
        """One of the TaskManagers that the job runs on: others are not missed when they are gone."""
        vertex = flink_response(self.flink.url, f"jobs/{self.id}")["vertices"][0]["id"]
        return str(flink_response(self.flink.url, f"jobs/{self.id}/vertices/{vertex}")["subtasks"][0]["taskmanager-id"])

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
        jobs = flink_response(flink.url, "jobs/overview")["jobs"]
        return [job["jid"] for job in jobs if job["name"] == name and job["state"] not in ENDED_STATES]

    for number in running():
        flink_response(flink.url, f"jobs/{number}?mode=cancel", {}, method="PATCH")
    eventually(f"the end of {name}", lambda: not running())
