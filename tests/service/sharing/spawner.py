"""Starts services as processes of their own, quickly: they are forked from one that has imported everything.

Run as ``python -m tests.service.sharing.spawner``; it reads plans as lines of JSON, and answers each with a process id.
What it started ends with it, and it ends with its parent.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import psutil
import psycopg
import uvicorn

from headgate.core.objective import parse_objective
from headgate.service.api import make_service
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.serving import ApiServer

logger = logging.getLogger(__name__)

POLICY = "hpa"
TARGET = 0.75
MOST = 12
LOADED = (psycopg, uvicorn)
"""Imported here so that no service has to."""


@dataclass(frozen=True)
class ServicePlan:
    """One service process."""

    store: str
    listens: int
    """The port that it listens on."""
    found_at: int
    """The port at which it says that it is to be found."""
    jobs: int
    interval_s: float
    log: str


def job_name(number: int) -> str:
    return f"job-{number}"


def job_spec(number: int, interval_s: float) -> JobSpec:
    return JobSpec(
        job_name(number),
        (OperatorSpec("work", 1, MOST),),
        parse_objective("latency p95 < 10s"),
        policy=POLICY,
        settings={"target": TARGET, "scale_in_window_s": 2 * interval_s},
        interval_s=interval_s,
    )


def serve(plan: ServicePlan) -> NoReturn:
    logging.basicConfig(filename=plan.log, format="%(asctime)s %(process)d %(message)s", level=logging.INFO)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    jobs = tuple(job_spec(number, plan.interval_s) for number in range(plan.jobs))
    app = make_service(ServiceConfig(jobs, plan.store, port=plan.found_at))
    spawner = os.getppid()
    with app.state.service as service, ApiServer(app, plan.listens):
        service.run()
        while not stop.wait(0.5) and os.getppid() == spawner:
            pass
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        plan = ServicePlan(**json.loads(line))
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                serve(plan)
            except BaseException:
                logger.exception("the service ends")
                os._exit(1)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


class Spawner:
    """The parent's side of it."""

    def __enter__(self) -> Spawner:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.service.sharing.spawner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        self._pids: set[int] = set()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in tuple(self._pids):
            self.kill(pid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=60)

    def start(self, plan: ServicePlan) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(asdict(plan))}\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        self._pids.add(pid)
        return pid

    def kill(self, pid: int) -> None:
        """Kill a service with -9, and wait until it is gone."""
        self._pids.discard(pid)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        until_s = time.monotonic() + 30
        while psutil.pid_exists(pid) and time.monotonic() < until_s:
            time.sleep(0.01)


if __name__ == "__main__":
    main()
