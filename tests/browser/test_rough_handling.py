"""The dashboard when things are not as they should be: many jobs, long names, narrow screens, a service that comes
and goes, a job or a token that is taken away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from headgate.local.machine import free_ports
from headgate.service.api import make_api
from headgate.service.config import JobSpec, OperatorSpec
from headgate.service.config.model import AccessRules
from headgate.service.serving import ApiServer
from headgate.service.store.tokens import Scope
from tests.browser.conftest import Dashboard, Visiting
from tests.service.services import CLICKS, served

NARROWEST = {"width": 320, "height": 640}
LONG = "n" * 63
"""As long as a name may be, and nowhere to be broken."""
LONG_JOB = JobSpec(
    LONG,
    (OperatorSpec("o" * 63, 1, 900), OperatorSpec("p" * 63, 1, 900)),
    CLICKS.objective,
    (("o" * 63, "p" * 63),),
)
OTHERS = tuple(JobSpec(f"job-{number:03}-{LONG[:40]}", CLICKS.operators, CLICKS.objective) for number in range(200))
PATHS = (
    "/",
    "/?q=job-1",
    f"/jobs/{LONG}",
    f"/jobs/{LONG}/change",
    f"/jobs/{LONG}/history",
    "/audit",
    "/login",
    f"/jobs/{'x' * 120}",
    "/audit?before=x",
)


@pytest.fixture(scope="module")
def crowded() -> Iterator[Dashboard]:
    """Very many jobs without a report yet."""
    with (
        served(LONG_JOB, *OTHERS, access=AccessRules(requests_per_s=1000)) as service,
        ApiServer(make_api(service.service)) as server,
    ):
        yield Dashboard(service, server.url)
        service.service.hub.close()


def _too_wide(page: Page) -> list[str]:
    """What reaches beyond the screen, where the page can be scrolled to it."""
    if page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"):
        return []
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('body *')].filter(element => element.getBoundingClientRect().right > innerWidth)"
        ".map(element => `${element.tagName}.${element.getAttribute('class') || ''}`)"
    )
    return found or ["something"]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_wider_than_the_narrowest_screen(crowded: Dashboard, visit: Visiting, path: str) -> None:
    someone = visit(crowded)
    someone.page.set_viewport_size({"width": NARROWEST["width"], "height": NARROWEST["height"]})
    someone.sign_in(crowded.service.tokens["operator"])
    someone.open(path)
    expect(someone.page.locator("main h1").first).to_be_visible()
    assert _too_wide(someone.page) == []


def test_a_long_reason_fits_on_every_page_that_shows_it(crowded: Dashboard, visit: Visiting) -> None:
    someone, page = (visitor := visit(crowded)), visitor.page
    page.set_viewport_size({"width": NARROWEST["width"], "height": NARROWEST["height"]})
    someone.sign_in(crowded.service.tokens["operator"], f"/jobs/{LONG}/change")
    page.locator("form#pause [name=why]").fill("w" * 500)
    page.locator("form#pause button").click()
    expect(page.get_by_role("heading", name="Is this what you mean?")).to_be_visible()
    assert _too_wide(page) == []
    page.get_by_role("button", name="Do it").click()
    expect(page.get_by_role("status").filter(has_text="Scaling is paused.")).to_be_visible()
    for path in (f"/jobs/{LONG}", f"/jobs/{LONG}/change", "/audit"):
        someone.open(path)
        assert _too_wide(page) == [], path
    someone.require_no_problems()


def test_two_hundred_jobs_are_found_by_name_and_page(crowded: Dashboard, visit: Visiting) -> None:
    someone, page = (visitor := visit(crowded)), visitor.page
    someone.open("/")
    expect(page.get_by_label("Pages of jobs")).to_be_visible()
    page.get_by_label("Find jobs").fill("job-123")
    page.keyboard.press("Enter")
    expect(page.locator("td.job a")).to_have_count(1)
    page.locator("td.job a").click()
    expect(page.locator("main h1")).to_contain_text("job-123")
    someone.require_no_problems()


def test_the_open_page_of_a_job_that_is_gone_says_so(visit: Visiting) -> None:
    with (
        served(CLICKS, access=AccessRules(requests_per_s=1000)) as service,
        ApiServer(make_api(service.service)) as server,
    ):
        someone = visit(Dashboard(service, server.url))
        someone.open("/jobs/clicks")
        pulse = someone.page.locator(".pulse")
        expect(pulse).to_have_attribute("data-state", "live")
        service.service.release("clicks", "it is no longer in the file")
        service.service.hub.publish(service.clock.now(), "event", "", {})
        expect(pulse).to_contain_text("not there any more")
        expect(someone.page.locator("main h1")).to_contain_text("clicks")
        service.service.hub.close()


def test_an_open_page_goes_on_when_its_service_is_back(visit: Visiting) -> None:
    (port,) = free_ports(1)
    with (
        served(CLICKS, access=AccessRules(requests_per_s=1000)) as first,
        ApiServer(make_api(first.service), port) as server,
    ):
        someone = visit(Dashboard(first, server.url))
        someone.open("/jobs/clicks")
        pulse = someone.page.locator(".pulse")
        expect(pulse).to_have_attribute("data-state", "live")
        first.service.hub.close()
    expect(pulse).to_have_attribute("data-state", "away")
    with served(CLICKS, access=AccessRules(requests_per_s=1000)) as second, ApiServer(make_api(second.service), port):
        expect(pulse).to_have_attribute("data-state", "live")
        second.service.hub.close()


def test_a_page_listens_again_after_an_error(dashboard: Dashboard, visit: Visiting) -> None:
    """A browser does not by itself, where there was an answer."""
    someone = visit(dashboard)
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append("once")
            route.fulfill(status=503, body="being started")

    someone.page.route("**/live?job=*", refuse_once)
    someone.open("/jobs/clicks")
    expect(someone.page.locator(".pulse")).to_have_attribute("data-state", "live")
    assert refused == ["once"]


def test_a_token_that_is_revoked_meanwhile_changes_nothing(closed: Dashboard, visit: Visiting) -> None:
    someone, page = (visitor := visit(closed)), visitor.page
    tokens = closed.service.service.store.tokens
    someone.sign_in(tokens.make("leaver", {Scope.OPERATE}), "/jobs/clicks/change")
    page.locator("form#pause [name=why]").fill("a last greeting")
    tokens.revoke("leaver")
    closed.service.clock.advance(60.0)
    page.wait_for_timeout(5500)
    page.locator("form#pause button").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert closed.service.service.fleet.job("clicks").changes == ()


def test_a_change_is_made_by_keyboard_alone(dashboard: Dashboard, visit: Visiting) -> None:
    someone, page = (visitor := visit(dashboard)), visitor.page
    someone.open("/login?next=/jobs/clicks/change")
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(dashboard.service.tokens["operator"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Change clicks")).to_be_visible()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name === 'why' && document.activeElement.form.id === 'pause'"):
            break
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Do it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Scaling is paused.")).to_be_visible()
    operations = dashboard.service.service.operations
    operations.resume("test", "clicks", "*", "it was only a test")
    someone.require_no_problems()
