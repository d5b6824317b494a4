"""What the dashboard's pages weigh, how long the service takes to make one, and when a browser first paints it.

Needs a browser (``chromium``). The service has a thousand jobs, one of them with an hour of history; browser and
service are on loopback, and nothing is cached from one visit to the next.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

import httpx
import numpy as np
from benchmarks.common import report
from playwright.sync_api import Browser, Response, sync_playwright

from headgate.core.objective import parse_objective
from headgate.core.types import Instances, Sample
from headgate.engines.agents import Report
from headgate.service.api import make_api
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.config.model import AccessRules
from headgate.service.service import Service
from headgate.service.serving import ApiServer
from headgate.service.store import open_store
from headgate.testing.clock import FakeClock

JOBS = 1000
STEPS = 360
"""An hour, for the first job."""
VISITS = 10
PAGES = {"all jobs": "/", "one job": "/jobs/job-0", "its changes": "/jobs/job-0/change", "audit": "/audit"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def bench_pages() -> None:
    clock = FakeClock(time.time())
    spec = JobSpec("job", (OperatorSpec("work", 1, 8, 0.25),), parse_objective("latency p95 < 10s"), policy="reactive")
    jobs = tuple(replace(spec, name=f"job-{number}") for number in range(JOBS))
    config = ServiceConfig(jobs, access=AccessRules(requests_per_s=100_000))
    with Service(config, open_store("sqlite://", now=clock.now), clock) as service:
        for count in range(STEPS):
            clock.advance(spec.interval_s)
            step(service, "job-0", count, clock.now())
        for job in jobs[1:]:
            step(service, job.name, 1, clock.now())
        path = next(found for name in BROWSERS if (found := shutil.which(name)))
        with ApiServer(make_api(service)) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            try:
                report("pages", [{"page": name, **page_times(browser, server.url + at)} for name, at in PAGES.items()])
            finally:
                browser.close()
                service.hub.close()


def step(service: Service, name: str, count: int, now: float) -> None:
    job = service.fleet.job(name)
    arrived = 500.0 * count
    sample = Sample("work", now, arrived=arrived, done=arrived, late=0.0, backlog=20.0 * (count % 12), latency_s=1.0)
    job.report("work", Report("agent", Instances(2, 2, 2), sample))
    job.tick()


def page_times(browser: Browser, url: str) -> dict[str, float]:
    """By visitors who were never there before, one after the other."""
    paints_ms, weights = [], []
    for _ in range(VISITS):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        received: list[int] = []

        def count(answer: Response, received: list[int] = received) -> None:
            received.append(int(answer.headers.get("content-length", "0")))

        page.on("response", count)
        page.goto(url)
        page.locator("main h1").wait_for()
        paints = page.evaluate("performance.getEntriesByType('paint').map(one => one.startTime)")
        paints_ms.append(float(paints[0]))
        weights.append(sum(received))
        context.close()
    made_s = []
    for _ in range(VISITS):
        began_s = time.perf_counter()
        httpx.get(url, headers={"Accept": "text/html"}).raise_for_status()
        made_s.append(time.perf_counter() - began_s)
    return {
        "weight_kb": max(weights) / 1000,
        "made_ms": 1000 * float(np.median(made_s)),
        "first_paint_ms": float(np.median(paints_ms)),
        "slowest_first_paint_ms": max(paints_ms),
    }


if __name__ == "__main__":
    bench_pages()
