"""The rendered pages: their content, access, size, and that they load nothing from other hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest

from headgate.core.objective import parse_objective
from headgate.service.config import JobSpec, OperatorSpec
from headgate.service.config.model import AccessRules
from headgate.service.gate import COOKIE
from headgate.service.pages.views.job_page import FixedSizesOfJobs, job_page
from tests.service.services import CLICKS, Served, served

HTML = {"Accept": "text/html"}
PAGES = ("/", "/jobs/clicks", "/jobs/clicks?span=1h&operator=count", "/jobs/clicks/change", "/audit", "/login")
RULES = """\
rules:
  - name: queue too long
    scale_out: count
    by: 2
    never_above: 4
    when: {metric: backlog, above: 100, for_at_least: 10s}
"""


class Seen(HTMLParser):
    """The parts of a page, whose tags must be closed in order."""

    VOID = frozenset({"meta", "link", "input", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.inline: list[str] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.addresses += [value for name in ("href", "src", "action") if (value := found.get(name)) is not None]
        self.inline += [name for name in found if name == "style" or name.startswith("on")]
        if (identity := found.get("id")) is not None:
            self.ids.append(identity)
        if tag == "script" and "src" not in found:
            self.inline.append(tag)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"{tag} was closed and never opened"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture
def running() -> Iterator[Served]:
    """A service whose job ran for a while: it grew, and its objective was violated in between."""
    with served() as service:
        for step in range(12):
            for operator in ("parse", "count"):
                sample = {"operator": operator, "at_age_s": 0.0, "arrived": 500 * step, "done": 480 * step, "late": 0}
                sample |= {"backlog": 20 * step, "latency_s": 2.0 * step, "utilization": 0.9, "input_rate_per_s": 50.0}
                assert service.report(operator=operator, sample=sample).status_code == 200
            service.tick(10.0)
        yield service


def page(service: Served, path: str, who: str | None = None, status: int = 200) -> Seen:
    answer = service.client(who).get(path, headers=HTML)
    assert answer.status_code == status, answer.text
    return Seen(answer.text)


def signed_in(service: Served, who: str) -> dict[str, str]:
    """The cookie that signing in gives."""
    form = {"token": service.tokens[who], "next": "/"}
    answer = service.client().post("/login", data=form, headers={**HTML, "Origin": "http://127.0.0.1"})
    assert answer.status_code == 303
    set_cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in set_cookie
    assert "samesite=strict" in set_cookie
    return {"Cookie": f"{COOKIE}={service.tokens[who]}"}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_well_formed_and_asks_nobody_else(running: Served, path: str) -> None:
    answer = running.client().get(path, headers=HTML)
    seen = Seen(answer.text)
    assert not [address for address in seen.addresses if urlsplit(address).netloc]
    assert not seen.inline
    assert len(seen.ids) == len(set(seen.ids))
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_with_all_that_it_loads_weighs_little(running: Served, path: str) -> None:
    client = running.client()
    first = client.get(path, headers=HTML)
    loaded = re.findall(r'(?:href|src)="(/static/[^"]+)"', first.text)
    assert len(loaded) == 3
    files = [client.get(path) for path in loaded]
    assert all(file.status_code == 200 and "immutable" in file.headers["cache-control"] for file in files)
    assert len(first.content) + sum(len(file.content) for file in files) < 150_000


def test_the_first_page_tells_how_each_job_is_doing(running: Served) -> None:
    words = page(running, "/").words
    for text in ("clicks", "reactive", "latency p95 < 10s", "50/s", "22s", "objective violated", "on average"):
        assert text in words


def test_the_first_page_finds_jobs_by_name_and_puts_those_in_trouble_first() -> None:
    jobs = [
        JobSpec(f"job-{number:03}", (OperatorSpec("only"),), parse_objective("latency p95 < 10s"), policy="reactive")
        for number in range(130)
    ]
    with served(*jobs) as service:
        for name in ("job-007", "job-120"):
            service.report(job=name, operator="only", sample={"operator": "only", "at_age_s": 0.0, "latency_s": 1.0})
            service.tick(job=name)
        service.report(job="job-120", operator="only", sample={"operator": "only", "at_age_s": 0.0, "latency_s": 60.0})
        service.tick(1.0, job="job-120")
        first = service.client().get("/", headers=HTML).text
        names = re.findall(r'href="/jobs/(job-\d+)"', first)
        assert names[0] == "job-120"
        assert len(names) == 100
        assert "job-007" not in names
        assert 'href="/?q=&amp;page=2"' in first
        found = service.client().get("/?q=007", headers=HTML).text
        assert re.findall(r'href="/jobs/(job-\d+)"', found) == ["job-007"]
        assert len(first.encode()) < 600_000


def test_a_jobs_page_tells_what_was_decided_and_why(running: Served) -> None:
    answer = running.client().get("/jobs/clicks?operator=count", headers=HTML).text
    seen = Seen(answer)
    for text in ("Load", "Latency", "Backlog", "Instances", "objective 5s", "Shadows", "Rules in force", "1 to 4"):
        assert text in seen.words
    marks = re.findall(r'href="#(d-[^"]+)" class="mark', answer)
    assert marks
    assert set(marks) <= set(seen.ids)


def test_shadows_and_rules_that_fire_are_shown() -> None:
    job = JobSpec(
        "clicks",
        (OperatorSpec("count", 1, 4),),
        parse_objective("latency p95 < 10s"),
        policy="rules",
        settings={"rules": RULES},
        shadows=("reactive",),
    )
    with served(job) as service:
        for _ in range(3):
            sample = {"operator": "count", "at_age_s": 0.0, "backlog": 400.0, "latency_s": 30.0}
            service.report(sample=sample)
            service.tick(5.0)
        text = service.client().get("/jobs/clicks", headers=HTML).text
        words = Seen(text).words
        assert "queue too long: add 2 instances to count, never above 4" in words
        assert 'class="fires"' in text
        assert "reactive would have" in words


def test_what_others_wrote_cannot_become_part_of_a_page(running: Served) -> None:
    why = "<script>alert('x')</script>"
    running.client("operator").put("/v1/jobs/clicks/pause", json={"why": why})
    for path in ("/jobs/clicks", "/audit", "/jobs/clicks/history", "/"):
        text = running.client("operator").get(path, headers=HTML).text
        assert "<script>alert" not in text
    assert "alert(" in page(running, "/audit").words


@pytest.mark.parametrize(
    "path", ["/jobs/clicsk", "/jobs/clicks?operator=cuont", "/jobs/clicks?span=2y", "/jobs/x/change"]
)
def test_what_is_not_there_is_said_on_a_page(running: Served, path: str) -> None:
    assert "unknown" in page(running, path, status=404).words


def test_without_a_token_reading_elsewhere_leads_to_signing_in() -> None:
    with served(CLICKS, access=AccessRules(open_reading=False)) as service:
        answer = service.client().get("/jobs/clicks?span=1h", headers=HTML)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/login?next=%2Fjobs%2Fclicks%3Fspan%3D1h"
        assert service.client().get("/jobs/clicks").status_code == 401
        assert service.client().get("/v1/jobs", headers=HTML).status_code == 401
        assert "Sign in" in page(service, "/login").words


def test_a_wrong_token_is_refused_and_not_repeated(running: Served) -> None:
    form = {"token": "hg_wrong", "next": "/"}
    answer = running.client().post("/login", data=form, headers={**HTML, "Origin": "http://127.0.0.1"})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "hg_wrong" not in answer.text
    assert "not known here" in Seen(answer.text).words


def test_a_cookie_with_a_token_that_was_revoked_leads_to_signing_in(running: Served) -> None:
    cookie = {"Cookie": f"{COOKIE}=hg_revoked"}
    answer = running.client().get("/", headers={**HTML, **cookie})
    assert answer.status_code == 303
    assert 'headgate_token=""' in answer.headers["set-cookie"]


@pytest.mark.parametrize("target", ["//example.org/", "https://example.org", "/\\example.org", "javascript:alert(1)"])
def test_signing_in_leads_to_pages_of_this_service_only(running: Served, target: str) -> None:
    form = {"token": running.tokens["reader"], "next": target}
    answer = running.client().post("/login", data=form, headers={**HTML, "Origin": "http://127.0.0.1"})
    assert answer.headers["location"] == "/"


def test_another_site_cannot_sign_anybody_in(running: Served) -> None:
    form = {"token": running.tokens["reader"], "next": "/"}
    answer = running.client().post("/login", data=form, headers={**HTML, "Origin": "http://example.org"})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_the_signed_in_user_is_shown_and_can_sign_out(running: Served) -> None:
    cookie = signed_in(running, "reader")
    text = running.client().get("/", headers={**HTML, **cookie}).text
    assert "signed in as reader" in Seen(text).words
    answer = running.client().post("/logout", headers={**HTML, **cookie, "Origin": "http://127.0.0.1"})
    assert answer.status_code == 303
    assert 'headgate_token=""' in answer.headers["set-cookie"]


def test_who_may_only_read_is_shown_no_forms(running: Served) -> None:
    cookie = signed_in(running, "reader")
    text = running.client().get("/jobs/clicks/change", headers={**HTML, **cookie}).text
    assert "reader may only look" in Seen(text).words
    assert 'name="direction"' not in text
    assert "Sign in to change something" in page(running, "/jobs/clicks/change").words


def test_static_files_are_those_that_are_known(running: Served) -> None:
    assert running.client().get("/static/style.css").headers["content-type"] == "text/css; charset=utf-8"
    assert running.client().get("/static/secret.txt").status_code == 404
    assert running.client().get("/static/..%2Frouting.py").status_code == 404


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/nothing", 404, "Not Found."),
        ("/audit?before=99999999999999999999", 400, "query.before: input should be less than or equal to"),
        ("/jobs/clicks/history?before=x", 400, "query.before: input should be a valid integer"),
        ("/?page=x", 400, "query.page"),
        ("/jobs/clicks?span=forever", 404, "forever"),
    ],
)
def test_a_wrong_address_gives_browsers_a_page_and_programs_a_sentence(path: str, status: int, message: str) -> None:
    with served() as service:
        page = service.client().get(path, headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert message in unescape(page.text)
        assert "All jobs" in page.text
        if status == 400:
            sentence = service.client().get(path)
            assert sentence.headers["content-type"].startswith("text/plain")
            assert sentence.text.startswith(message)


def at_its_limit(service: Served) -> None:
    for step in range(8):
        sample = {"operator": "only", "at_age_s": 0.0, "arrived": 500 * step, "done": 50 * step, "late": 400 * step}
        sample |= {"backlog": 400 * step, "latency_s": 30.0, "utilization": 1.0, "input_rate_per_s": 50.0}
        assert service.report("small", "only", sample=sample).status_code == 200
        service.tick(10.0, "small")


def test_a_job_at_its_limit_says_so_with_a_verdict_links_and_what_can_be_done_at_once() -> None:
    links = {"Runbook": "https://wiki.example/small", "Spark UI": "http://spark.example:4040"}
    objective = parse_objective("latency p95 < 10s").within(1, 1)
    small = JobSpec("small", (OperatorSpec("only", 1, 1),), objective, policy="reactive", links=links)
    with served(small) as service:
        at_its_limit(service)
        words = page(service, "/jobs/small").words
        for text in ("capped at the maximum", "Objective not met: ", "5 % allowed", "allow more than 1 instance."):
            assert text in words
        assert "% late so far" in words, "an error budget of less than a day is no share of a day's budget"
        assert {*links.values()} <= {*page(service, "/jobs/small").addresses}
        assert "1 violated by the newest reading" in page(service, "/").words
        may = service.client().get("/jobs/small", headers=HTML | signed_in(service, "operator")).text
        assert "Pause…" in may
        assert "Force a size…" in may
        assert "Resume…" not in may, "nothing is paused"


def test_fixed_sizes_are_simulated_under_the_load_of_a_job() -> None:
    objective = parse_objective("latency p95 < 10s").within(1, 6)
    steady = JobSpec("steady", (OperatorSpec("only", 1, 6, price=0.5),), objective, policy="reactive")
    with served(steady) as service:
        for step in range(40):
            sample = {"operator": "only", "at_age_s": 0.0, "arrived": 250 * step, "done": 250 * step, "late": 0}
            sample |= {"backlog": 0, "latency_s": 0.5, "utilization": 0.9, "input_rate_per_s": 25.0}
            sample |= {"processed_rate_per_s": 10.0}
            assert service.report("steady", "only", sample=sample).status_code == 200
            service.tick(10.0, "steady")
        job, fixed = service.service.fleet.job("steady"), FixedSizesOfJobs()
        assert fixed.of(job).missing == "they are being simulated."
        fixed.wait()
        found = fixed.of(job)
        assert list(found.summaries) == [1, 2, 3, 4, 5, 6]
        words = page(service, "/").words
        assert "instances on average" in words
        assert "in 6m 30s; the page of a job compares with fixed sizes" in words
        assert "saved" not in words, "its own largest size is no baseline"
        sentence = job_page(job, fixed=found).verdict.fixed
        assert sentence.startswith("The cheapest fixed size that would have met it is 3 instances: a cost of ")
        assert "at 10 records/s for each instance" in sentence
