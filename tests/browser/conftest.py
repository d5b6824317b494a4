"""A real browser, and a dashboard for it to look at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Timer
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    BrowserType,
    Page,
    Response,
    ViewportSize,
    expect,
    sync_playwright,
)
from playwright.sync_api import Error as PlaywrightError

from headgate.core.objective import parse_objective
from headgate.service.api import make_api
from headgate.service.config import JobSpec, OperatorSpec
from headgate.service.config.model import AccessRules
from headgate.service.serving import ApiServer
from tests.service.services import CLICKS, HAS_ONE, Served, served

OWN_BROWSER = "HEADGATE_CHROMIUM"
"""The environment variable that names another browser than the one that is installed."""
NAMES = ("chromium", "chromium-browser", "google-chrome")
RULES = """\
rules:
  - name: queue too long
    scale_out: words
    by: 2
    never_above: 6
    when: {metric: backlog, above: 100, for_at_least: 10s}
"""
WORDS = JobSpec(
    "words",
    (OperatorSpec("words", 1, 6),),
    parse_objective("latency p95 < 10s"),
    policy="rules",
    settings={"rules": RULES},
    shadows=("reactive",),
)
CLOSES_WITHIN_S = 30.0
PHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1280, "height": 900}
SHOWN_WITHIN_MS = 30_000
"""Some time for a machine that does other things as well: a condition that holds ends the wait."""


class Started:
    """The browser of all tests; another one if it had to be ended."""

    def __init__(self, kind: BrowserType, path: str) -> None:
        self._kind, self._path = kind, path
        self._opened: Browser | None = None

    def browser(self) -> Browser:
        if self._opened is None or not self._opened.is_connected():
            self._opened = self._kind.launch(executable_path=self._path, args=["--no-sandbox", "--disable-gpu"])
        return self._opened

    def close(self, what: Browser | BrowserContext) -> None:
        """Close it; once in many runs a browser does not answer to that, and is ended."""
        watch = Timer(CLOSES_WITHIN_S, self._end)
        watch.start()
        with suppress(PlaywrightError):
            what.close()
        watch.cancel()

    def _end(self) -> None:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "--remote-debugging-pipe" in process.cmdline():
                    process.kill()


@pytest.fixture(scope="session")
def started() -> Iterator[Started]:
    path = os.environ.get(OWN_BROWSER) or next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser is installed; as root, run: apt-get install chromium, or name one by {OWN_BROWSER}")
    expect.set_options(timeout=SHOWN_WITHIN_MS)
    with sync_playwright() as playwright:
        made = Started(playwright.chromium, path)
        yield made
        made.close(made.browser())


@pytest.fixture
def browser(started: Started) -> Browser:
    return started.browser()


@dataclass
class Visit:
    """A visitor of pages, with all problems and requests meanwhile."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    received_bytes: int = 0

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        self.page.on("response", self._count)

    def _count(self, answer: Response) -> None:
        self.received_bytes += int(answer.headers.get("content-length", "0"))

    def open(self, path: str) -> None:
        self.page.goto(self.url + path)

    def sign_in(self, token: str, path: str = "/") -> None:
        self.open(f"/login?next={path}")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()

    def require_no_problems(self) -> None:
        assert self.problems == []
        assert self.hosts == {urlsplit(self.url).netloc}


@dataclass
class Dashboard:
    """A service that is served, whose jobs are stepped by the test."""

    service: Served
    url: str

    def step(self, backlog: float = 20.0, latency_s: float = 2.0) -> None:
        """A reading of each operator, and a decision on it."""
        for job in (CLICKS, WORDS):
            for operator in job.topology.operators:
                sample = {"operator": operator, "at_age_s": 0.0, "arrived": 500, "done": 480, "late": 0}
                sample |= {"backlog": backlog, "latency_s": latency_s, "utilization": 0.8, "input_rate_per_s": 50.0}
                body = {"version": 1, "agent": "a", "instances": HAS_ONE, "sample": sample}
                path = f"{self.url}/v1/jobs/{job.name}/operators/{operator}/reports"
                bearer = {"Authorization": f"Bearer {self.service.tokens['agent']}"}
                httpx.post(path, json=body, headers=bearer).raise_for_status()
        self.service.clock.advance(5.0)
        for job in (CLICKS, WORDS):
            self.service.service.fleet.job(job.name).tick()

    def stand_by(self, leader: str) -> None:
        """Have another service lead from now on."""
        standby = SimpleNamespace(
            leads=False, token=None, leader_url=leader, problem="", is_alive=True, stop=lambda: None
        )
        self.service.service.standby = standby  # type: ignore[assignment]  # all of its attributes that are used
        self.service.service.hub.close()


@pytest.fixture(scope="module")
def dashboard() -> Iterator[Dashboard]:
    """Two jobs that ran for some minutes: they grew, and were late for a while."""
    with (
        served(CLICKS, WORDS, access=AccessRules(requests_per_s=1000)) as service,
        ApiServer(make_api(service.service)) as server,
    ):
        made = Dashboard(service, server.url)
        for index in range(30):
            made.step(20.0 * (index % 12), 1.5 * (index % 12))
        yield made
        service.service.hub.close()


@pytest.fixture
def handed_over() -> Iterator[Dashboard]:
    """One that will not go on leading."""
    with (
        served(CLICKS, access=AccessRules(requests_per_s=1000)) as service,
        ApiServer(make_api(service.service)) as server,
    ):
        yield Dashboard(service, server.url)


@pytest.fixture
def closed() -> Iterator[Dashboard]:
    """One that shows nothing without a token."""
    with (
        served(CLICKS, access=AccessRules(open_reading=False, requests_per_s=1000)) as service,
        ApiServer(make_api(service.service)) as server,
    ):
        yield Dashboard(service, server.url)
        service.service.hub.close()


Visiting = Callable[..., Visit]


@pytest.fixture
def visit(started: Started) -> Iterator[Visiting]:
    """Somebody new, with nothing in their browser: ``visit(dashboard, phone=True, dark=True)``."""
    contexts: list[BrowserContext] = []

    def begin(dashboard: Dashboard, *, phone: bool = False, dark: bool = False) -> Visit:
        context = started.browser().new_context(
            viewport=PHONE if phone else DESK, color_scheme="dark" if dark else "light"
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        return Visit(context.new_page(), dashboard.url)

    yield begin
    for context in contexts:
        started.close(context)
