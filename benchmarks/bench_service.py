"""What one core of a service gets through: a thousand agents with decisions every 10 s, and the memory they take.

The service is a process of its own on one core, the agents are on the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import numpy as np
import psutil
from benchmarks.common import reference_s, report

from headgate.core.objective import parse_objective
from headgate.core.types import Instances, Sample
from headgate.engines.agents import Report
from headgate.local.machine import LOOPBACK, free_ports
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig, read_config
from headgate.service.service import Service
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope
from headgate.testing.clock import FakeClock

AGENTS = 1000
INTERVAL_S, REPORT_EVERY_S = 10.0, 5.0
STEADY_S, FLAT_OUT_S = 60.0, 10.0
CONNECTIONS = 16
POLICIES = ("reactive", "autopilot")
RETAINED_AGENTS, RETAINED_S = 100, 3600.0
"""An hour is what a loop looks back on: after it, memory grows no more."""
WITHIN_S = 300.0


def config_text(policy: str, port: int) -> str:
    settings = f"objective: latency p95 < 10s, interval: {INTERVAL_S:g}s, policy: {policy}"
    job = f"{settings}, operators: {{work: {{instances: [1, 8]}}}}"
    jobs = "\n".join(f"  job-{number}: {{{job}}}" for number in range(AGENTS))
    return f"version: 1\nlisten: {LOOPBACK}:{port}\naccess: {{requests_per_s: 100000}}\njobs:\n{jobs}\n"


@dataclass
class Line:
    """One connection that stays open; a client library would take longer than the service does."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    taken_s: list[float] = field(default_factory=list)

    async def send(self, path: str, token: str, body: bytes) -> None:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        began_s = time.perf_counter()
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        await self.reader.readexactly(length)
        self.taken_s.append(time.perf_counter() - began_s)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())


class Agents:
    """A thousand of them, on a few connections."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._began_s = time.monotonic()

    def body(self, agent: int) -> bytes:
        """A report of a job whose load sways, with a batch every two seconds."""
        now_s = time.monotonic() - self._began_s
        arrived = 100.0 * now_s + 20.0 * np.sin(now_s / 60.0 + agent)
        latest = int(now_s / 2)
        batches = [
            {"started_age_s": 2.0 * back + 1.5, "ended_age_s": 2.0 * back + 0.5, "records": 200, "instances": 2}
            for back in (2, 1, 0)
        ]
        sample = {
            "operator": "work", "at_age_s": 0.1, "arrived": arrived, "done": arrived - 150, "late": 0, "backlog": 150,
            "busy_s": now_s, "available_s": 2 * now_s, "latency_s": 1.2, "batch_ended_age_s": 0.5, "batches": batches,
        }  # fmt: skip
        sizes = {"planned": 2, "requested": 2, "ready": 2}
        return json.dumps(
            {
                "version": 1,
                "agent": f"a{agent}",
                "instances": sizes,
                "sample": sample,
                "first_batch": max(0, latest - 3),
            }
        ).encode()

    async def _lines(self) -> list[Line]:
        return [Line(*await asyncio.open_connection(LOOPBACK, self._port)) for _ in range(CONNECTIONS)]

    async def steady(self, seconds: float) -> list[float]:
        """Each reports in its turn, as often as the service requests; gives how long each report took."""
        lines = await self._lines()

        async def work(line: Line, agents: range) -> None:
            until_s = time.monotonic() + seconds
            due = {agent: time.monotonic() + REPORT_EVERY_S * agent / AGENTS for agent in agents}
            while time.monotonic() < until_s:
                agent = min(due, key=due.__getitem__)
                await asyncio.sleep(max(0.0, due[agent] - time.monotonic()))
                due[agent] += REPORT_EVERY_S
                await line.send(f"/v1/jobs/job-{agent}/operators/work/reports", self._token, self.body(agent))

        await asyncio.gather(*(work(line, range(place, AGENTS, CONNECTIONS)) for place, line in enumerate(lines)))
        return [taken_s for line in lines for taken_s in line.taken_s]

    async def flat_out(self, seconds: float) -> list[float]:
        """Without a pause between reports."""
        lines = await self._lines()
        bodies = [self.body(agent) for agent in range(AGENTS)]

        async def work(line: Line, place: int) -> None:
            until_s, agent = time.monotonic() + seconds, place
            while time.monotonic() < until_s:
                await line.send(f"/v1/jobs/job-{agent}/operators/work/reports", self._token, bodies[agent])
                agent = (agent + CONNECTIONS) % AGENTS

        await asyncio.gather(*(work(line, place) for place, line in enumerate(lines)))
        return [taken_s for line in lines for taken_s in line.taken_s]


def bench_service() -> None:
    report("service", [{**served(policy), "memory_mb_per_1000": memory_mb(policy)} for policy in POLICIES])


def served(policy: str) -> dict[str, str | float | int]:
    """A service with a thousand jobs, on the first core."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "headgate.yaml")
        file.write_text(config_text(policy, port), encoding="utf-8")
        store = open_store(read_config(file).store)
        token = store.tokens.make("agents", {Scope.AGENT})
        store.close()
        command = [sys.executable, "-m", "headgate", "serve", str(file)]
        cores = sorted(os.sched_getaffinity(0))
        began_s = time.monotonic()
        os.sched_setaffinity(0, {cores[0]})  # Processes started from here on stay there.
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            os.sched_setaffinity(0, {cores[-1]})
            try:
                await_port(port, process)
                started_s = time.monotonic() - began_s
                return {"policy": policy, "agents": AGENTS, "started_s": started_s, **measured(process, port, token)}
            finally:
                os.sched_setaffinity(0, set(cores))
                process.terminate()


def measured(process: subprocess.Popen[bytes], port: int, token: str) -> dict[str, float]:
    agents, watched = Agents(port, token), psutil.Process(process.pid)
    asyncio.run(agents.steady(2 * INTERVAL_S))  # All have joined, and every job was decided on.
    before, ticks = watched.cpu_times(), ticks_of(port)
    began_s = time.monotonic()
    taken_s = asyncio.run(agents.steady(STEADY_S))
    lasted_s, after = time.monotonic() - began_s, watched.cpu_times()
    decisions = ticks_of(port) - ticks
    late_s = httpx.get(f"http://{LOOPBACK}:{port}/v1/service", timeout=60.0).json()["loop_late_s"]
    flat_before, flat_began_s = watched.cpu_times(), time.monotonic()
    flat = asyncio.run(agents.flat_out(FLAT_OUT_S))
    flat_after, flat_s = watched.cpu_times(), time.monotonic() - flat_began_s
    return {
        "reports_per_s": len(taken_s) / lasted_s,
        "decisions_per_s": decisions / lasted_s,
        "core_share_pct": 100 * cpu_s(before, after) / lasted_s,
        "report_p50_ms": 1000 * float(np.quantile(taken_s, 0.5)),
        "report_p99_ms": 1000 * float(np.quantile(taken_s, 0.99)),
        "decision_late_s": float(late_s),
        "most_reports_per_s": len(flat) / flat_s,
        "most_reports_per_core_s": len(flat) / cpu_s(flat_before, flat_after),
        "times_reference_loop": cpu_s(flat_before, flat_after) / len(flat) / reference_s(),
    }


def cpu_s(before: psutil._common.pcputimes, after: psutil._common.pcputimes) -> float:
    return float(after.user + after.system - before.user - before.system)


def ticks_of(port: int) -> int:
    jobs = httpx.get(f"http://{LOOPBACK}:{port}/v1/jobs", timeout=60.0).json()
    return sum(job["ticks"] for job in jobs)


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + WITHIN_S
    while time.monotonic() < until_s and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((LOOPBACK, port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the service did not begin to serve within {WITHIN_S:g} s")


def memory_mb(policy: str) -> float:
    """What a thousand operators take after an hour, each a job of its own; in a process that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.bench_service", policy]
    completed = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(completed.stdout)


def grown_mb(policy: str) -> float:
    clock = FakeClock(1_700_000_000.0)
    spec = JobSpec("job", (OperatorSpec("work", 1, 8),), parse_objective("latency p95 < 10s"), policy=policy)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/headgate.db", now=clock.now)
        with Service(ServiceConfig((replace(spec, name="first"),)), store, clock) as service:
            run_for(service, clock, 60.0)  # What is loaded once is not counted.
            before = psutil.Process().memory_info().rss
            for number in range(RETAINED_AGENTS):
                service.take_on(service.made(replace(spec, name=f"job-{number}")))
            run_for(service, clock, RETAINED_S)
            grown = psutil.Process().memory_info().rss - before
    return grown / 1e6 * 1000 / RETAINED_AGENTS


def run_for(service: Service, clock: FakeClock, seconds: float) -> None:
    until_s, count = clock.now() + seconds, 0
    while clock.now() < until_s:
        now, count = clock.now(), count + 1
        for job in service.fleet:
            arrived = 500.0 * count
            sample = Sample("work", now, arrived=arrived, done=arrived, late=0.0, backlog=0.0, latency_s=1.0)
            job.report("work", Report("agent", Instances(2, 2, 2), sample))
        service.scheduler.step()
        clock.advance(REPORT_EVERY_S)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(grown_mb(sys.argv[1]))
    else:
        bench_service()
