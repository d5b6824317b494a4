"""Half-open connections and a flood of requests without a token: the reports of agents are answered all the same."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from headgate.local.machine import LOOPBACK, free_ports
from tests.service.test_connections import REPORT, half_open, within

JOBS = 20
REPORTS_EVERY_S = 1.0
ANSWERED_WITHIN_S = 2.0
"""An agent gives up after so long."""
REQUESTS = b"GET /v1/jobs HTTP/1.1\r\nHost: headgate.example\r\n\r\n" * 10
FILE = """\
version: 1
store: sqlite:///{folder}/service.db
listen: 127.0.0.1:{port}
access: {{open_reading: false}}
jobs:
"""
JOB = """\
  job-{number}:
    objective: latency p95 < 10s
    policy: reactive
    operators: {{count: {{instances: [1, 4]}}}}
"""


async def flood(port: int, per_s: int, lasts_s: float) -> dict[str, int]:
    """Send so many requests per second, ten over each connection, and wait a second at most for an answer."""
    counts = {"sent": 0, "answered": 0, "refused": 0, "not connected": 0}
    running: set[asyncio.Task[None]] = set()

    async def send() -> None:
        writer = None
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(LOOPBACK, port), 5.0)
            writer.write(REQUESTS)
            await writer.drain()
            counts["sent"] += 10
            line = await asyncio.wait_for(reader.readline(), 1.0)
            counts["answered"] += line.startswith(b"HTTP/1.1 401")
            counts["refused"] += line.startswith(b"HTTP/1.1 429")
        except (OSError, TimeoutError):
            counts["not connected"] += writer is None
        finally:
            if writer is not None:
                writer.close()

    began_s = time.monotonic()
    due = 0
    while (passed_s := time.monotonic() - began_s) < lasts_s:
        while due < passed_s * per_s / 10:
            due += 1
            if len(running) < 500:
                task = asyncio.create_task(send())
                running.add(task)
                task.add_done_callback(running.discard)
        await asyncio.sleep(0.005)
    await asyncio.gather(*running, return_exceptions=True)
    return counts


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_agents_are_answered_during_a_flood(tmp_path: Path) -> None:
    figures = flooded(tmp_path, half_open_connections=1000, per_s=10_000, lasts_s=30.0)
    sys.stdout.write(f"{json.dumps(figures)}\n")
    assert figures["reports answered"] >= 0.99 * figures["reports"]


def flooded(folder: Path, half_open_connections: int, per_s: int, lasts_s: float) -> dict[str, float]:
    """Run a service with agents under a flood, and give what came of their reports."""
    (port,) = free_ports(1)
    file = folder / "headgate.yaml"
    file.write_text(
        FILE.format(folder=folder, port=port) + "".join(JOB.format(number=number) for number in range(JOBS))
    )
    headgate = [sys.executable, "-m", "headgate"]
    make = [*headgate, "token", "make", "drivers", "--scope", "agent", "--config", str(file)]
    secret = subprocess.run(make, capture_output=True, text=True, check=True).stdout.strip()
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([*headgate, "serve", str(file)], stdout=output, stderr=subprocess.STDOUT)
    url = f"http://{LOOPBACK}:{port}"
    try:
        assert within(60.0, lambda: is_up(url)), log.read_text()
        with half_open(port, half_open_connections), ThreadPoolExecutor(JOBS + 2) as threads:
            stop = threading.Event()
            agents = [threads.submit(report_until, stop, url, secret, number) for number in range(JOBS)]
            flooders = [
                subprocess.Popen(
                    [sys.executable, "-m", "tests.service.test_flood", str(port), str(per_s // 2), str(lasts_s)],
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=Path(__file__).parents[2],
                )
                for _ in range(2)
            ]
            sent = [json.loads(flooder.communicate(timeout=lasts_s + 120)[0]) for flooder in flooders]
            stop.set()
            latencies_s = [latency_s for agent in agents for latency_s in agent.result()]
        answered_s = sorted(latency_s for latency_s in latencies_s if latency_s is not None)
        return {
            "half-open connections": half_open_connections,
            "requests sent per s": round(sum(count["sent"] for count in sent) / lasts_s),
            **{f"flood {name}": sum(count[name] for count in sent) for name in sent[0]},
            "reports": len(latencies_s),
            "reports answered": len(answered_s),
            "median_s": round(statistics.median(answered_s), 3),
            "p99_s": round(answered_s[int(0.99 * len(answered_s))], 3),
            "log bytes": log.stat().st_size,
        }
    finally:
        process.terminate()
        process.wait(30)


def is_up(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/healthz", timeout=2.0).status_code == 200
    return False


def report_until(stop: threading.Event, url: str, secret: str, number: int) -> list[float | None]:
    """Report like an agent; gives how long each answer took, ``None`` where there was none in time."""
    found: list[float | None] = []
    path = f"{url}/v1/jobs/job-{number}/operators/count/reports"
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx.Client(headers=headers, timeout=ANSWERED_WITHIN_S) as client:
        while not stop.wait(REPORTS_EVERY_S):
            began_s = time.monotonic()
            try:
                is_answered = client.post(path, json=REPORT).status_code == 200
            except httpx.HTTPError:
                is_answered = False
            found.append(time.monotonic() - began_s if is_answered else None)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(flood(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))))
