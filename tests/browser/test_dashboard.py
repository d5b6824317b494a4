"""The dashboard in a real browser: every page and form, by keyboard, on a desk and on a phone, by day and by night."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Dashboard, Visit, Visiting

PAGES = ("/", "/jobs/clicks", "/jobs/words?span=15m", "/jobs/clicks/change", "/jobs/clicks/history", "/audit", "/login")
HEAVIEST_BYTES = 1_500_000


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("phone", "dark"), [(False, False), (True, True)])
def test_a_page_is_light_fits_the_screen_and_asks_nobody_else(
    dashboard: Dashboard,
    visit: Visiting,
    record_property: Callable[[str, object], None],
    path: str,
    phone: bool,
    dark: bool,
) -> None:
    someone = visit(dashboard, phone=phone, dark=dark)
    someone.sign_in(dashboard.service.tokens["operator"])
    someone.received_bytes = 0
    someone.open(path)
    expect(someone.page.locator("main h1")).to_be_visible()
    too_wide = someone.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert too_wide <= 0
    assert 0 < someone.received_bytes < HEAVIEST_BYTES
    paints = someone.page.evaluate("performance.getEntriesByType('paint').map(paint => paint.startTime)")
    # Recorded without a limit: a machine that is busy with other things paints late.
    record_property("first_paint_ms", round(paints[0]) if paints else None)
    record_property("bytes", someone.received_bytes)
    someone.require_no_problems()


def test_by_night_pages_are_dark(dashboard: Dashboard, visit: Visiting) -> None:
    shades = []
    for dark in (False, True):
        someone = visit(dashboard, dark=dark)
        someone.open("/jobs/clicks")
        shade = someone.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        shades.append(sum(shade))
    assert shades[0] > 600
    assert shades[1] < 150


def test_states_and_decisions_are_distinct_without_colours(dashboard: Dashboard, visit: Visiting) -> None:
    someone = visit(dashboard)
    someone.open("/jobs/clicks")
    signs = someone.page.eval_on_selector_all("[data-sign]", "all => all.map(element => element.dataset.sign)")
    assert signs
    assert all(signs)
    shape_of = "all => all.map(mark => [mark.classList[1], mark.querySelector('path').getAttribute('d')])"
    shapes = someone.page.eval_on_selector_all(".mark", shape_of)
    assert len({tuple(shape) for shape in shapes}) == len({kind for kind, _ in shapes})


def test_a_page_that_is_left_open_shows_what_is_new(dashboard: Dashboard, visit: Visiting) -> None:
    someone = visit(dashboard)
    someone.open("/jobs/words")
    expect(someone.page.locator(".pulse")).to_have_attribute("data-state", "live")
    someone.page.evaluate("window.notReloaded = true")
    dashboard.step(backlog=777.0, latency_s=3.0)
    expect(someone.page.locator("figure[data-plot=Backlog] .read")).to_have_text("777 records")
    assert someone.page.evaluate("window.notReloaded") is True
    someone.require_no_problems()


def test_a_page_that_is_left_open_says_when_another_service_leads(handed_over: Dashboard, visit: Visiting) -> None:
    someone = visit(handed_over)
    someone.open("/jobs/clicks")
    expect(someone.page.locator(".pulse")).to_have_attribute("data-state", "live")
    leader = "http://leader.example:8420"
    handed_over.stand_by(leader)
    expect(someone.page.locator("main h1")).to_have_text("This service stands by")
    expect(someone.page.get_by_role("link", name="Go to the leader")).to_have_attribute("href", f"{leader}/jobs/clicks")


def test_an_open_page_says_when_nobody_answers(closed: Dashboard, visit: Visiting) -> None:
    someone = visit(closed)
    someone.sign_in(closed.service.tokens["reader"])
    expect(someone.page.locator(".pulse")).to_have_attribute("data-state", "live")
    someone.page.route("**/live*", lambda route: route.abort())
    closed.service.service.hub.close()
    expect(someone.page.locator(".pulse")).to_have_attribute("data-state", "away")


def test_everything_is_reached_by_keyboard(dashboard: Dashboard, visit: Visiting) -> None:
    someone = visit(dashboard)
    someone.open("/jobs/clicks")
    page = someone.page
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate("[document.activeElement.tagName, document.activeElement.getAttribute('class') || '']")
        reached.append(" ".join(found))
        if "mark" in found[1]:
            break
    assert any("node" in name for name in reached), reached
    assert "mark" in reached[-1], reached
    expect(page.get_by_role("tooltip")).to_be_visible()
    outlined = page.evaluate("getComputedStyle(document.activeElement.querySelector('.around')).strokeWidth")
    assert outlined == "2px"
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#d-"))


def test_a_plot_is_read_by_pointing_at_it(dashboard: Dashboard, visit: Visiting) -> None:
    someone = visit(dashboard)
    someone.open("/jobs/clicks")
    figure = someone.page.locator("figure[data-plot=Backlog]")
    figure.locator(".plot").hover(position={"x": 250, "y": 60})
    expect(figure.locator(".read")).to_contain_text("ago")
    expect(someone.page.locator(".cross")).to_have_count(someone.page.locator("figure[data-plot]").count())
    figure.locator("b").hover()
    expect(someone.page.locator(".cross")).to_have_count(0)


def test_an_operator_is_chosen_in_the_graph(dashboard: Dashboard, visit: Visiting) -> None:
    someone = visit(dashboard)
    someone.open("/jobs/clicks")
    someone.page.locator("a.node", has_text="count").click()
    expect(someone.page).to_have_url(re.compile("operator=count"))
    expect(someone.page.get_by_role("heading", name="count", exact=True)).to_be_visible()


def test_rules_and_shadows_are_shown(dashboard: Dashboard, visit: Visiting) -> None:
    someone = visit(dashboard)
    someone.open("/jobs/words")
    expect(someone.page.locator("[data-part=rules]")).to_contain_text("queue too long: add 2 instances to words")
    expect(someone.page.locator("[data-part=shadows]")).to_contain_text("reactive would have")


# ------------------------------------------------------------------------------------------------------- signing in


def test_without_a_token_signing_in_leads_back_to_the_page(closed: Dashboard, visit: Visiting) -> None:
    someone = visit(closed)
    someone.open("/jobs/clicks")
    expect(someone.page).to_have_url(re.compile("/login"))
    someone.page.get_by_label("Token").fill(closed.service.tokens["reader"])
    someone.page.keyboard.press("Enter")
    expect(someone.page.get_by_role("heading", name="clicks", level=1)).to_be_visible()
    cookies = someone.page.context.cookies()
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
    someone.page.get_by_role("button", name="Sign out").click()
    expect(someone.page).to_have_url(re.compile("/login"))
    assert someone.page.context.cookies() == []


def test_a_wrong_token_is_refused(closed: Dashboard, visit: Visiting) -> None:
    someone = visit(closed)
    someone.sign_in("hg_wrong")
    expect(someone.page.get_by_role("alert")).to_contain_text("not known here")
    assert someone.page.context.cookies() == []


def test_a_reader_is_offered_no_forms(dashboard: Dashboard, visit: Visiting) -> None:
    someone = visit(dashboard)
    someone.sign_in(dashboard.service.tokens["reader"], "/jobs/clicks/change")
    expect(someone.page.get_by_text("reader may only look")).to_be_visible()
    expect(someone.page.locator("main form")).to_have_count(0)


# ------------------------------------------------------------------------------------------------------------ forms


def _fill(someone: Visit, form: str, fields: dict[str, str]) -> None:
    card = someone.page.locator(f"form#{form}")
    if not card.is_visible():
        someone.page.get_by_text("More: mode").click()
    for name, value in {**fields, "why": f"trying {form}"}.items():
        place = card.locator(f"[name={name}]")
        if place.evaluate("field => field.tagName") == "SELECT":
            place.select_option(value)
        else:
            place.fill(value)
    card.get_by_role("button").click()


RULES = """\
rules:
  - name: calm
    scale_in: count
    by: 1
    when: {metric: backlog, below: 5, for_at_least: 1m}
"""
FORMS: list[tuple[str, dict[str, str], str]] = [
    ("pause", {"direction": "in", "operator": "*", "lasts": "30m"}, "Scaling is paused."),
    ("resume", {"operator": "*"}, "Scaling continues."),
    ("size", {"operator": "count", "size": "3", "lasts": "10m"}, "The size is forced"),
    ("mode", {"mode": "recommend", "lasts": "1h"}, "The mode is changed."),
    ("bounds", {"operator": "count", "fewest": "2", "most": "7"}, "The bounds are changed."),
    ("objective", {"objective": "latency p99 < 8s"}, "The objective is changed."),
    ("settings", {"settings": "idle_for_s = 2m"}, "The settings are changed."),
    ("period", {"name": "office", "forbid": "scale in", "during": "* 8-17 * * mon-fri"}, "The period is saved."),
    ("policy", {"policy": "hpa", "settings": "scale_in_window_s = 2m"}, "The policy is changed"),
    ("rules", {"rules": RULES}, "The rules are in force."),
]


def test_every_form_shows_what_it_would_do_and_does_it(dashboard: Dashboard, visit: Visiting) -> None:
    someone, page = (visitor := visit(dashboard)), visitor.page
    someone.sign_in(dashboard.service.tokens["operator"])
    for form, fields, done in FORMS:
        someone.open("/jobs/clicks/change")
        _fill(someone, form, fields)
        expect(page.get_by_role("heading", name="Is this what you mean?")).to_be_visible()
        expect(page.get_by_text(f"trying {form}")).to_be_visible()
        page.get_by_role("button", name="Do it").click()
        expect(page.get_by_role("status").filter(has_text=done)).to_be_visible()
    someone.open("/audit")
    for form, _, _ in FORMS:
        expect(page.get_by_text(f"trying {form}", exact=True)).to_be_visible()
    someone.open("/jobs/clicks/change")
    while (buttons := page.get_by_role("button", name="Take back…")).count():
        before = buttons.count()
        page.get_by_placeholder("why it is taken back").first.fill("trying the way back")
        buttons.first.click()
        page.get_by_role("button", name="Do it").click()
        expect(page.get_by_role("status").filter(has_text="taken back")).to_be_visible()
        someone.open("/jobs/clicks/change")
        assert page.get_by_role("button", name="Take back…").count() < before
    assert dashboard.service.service.fleet.job("clicks").changes == ()
    someone.require_no_problems()


def test_a_form_that_cannot_be_used_says_why_and_keeps_what_was_filled_in(
    dashboard: Dashboard, visit: Visiting
) -> None:
    someone = visit(dashboard, phone=True)
    someone.sign_in(dashboard.service.tokens["operator"], "/jobs/clicks/change")
    _fill(someone, "objective", {"objective": "latency p95 > 10"})
    expect(someone.page.get_by_role("alert")).to_contain_text("latency p95 > 10")
    expect(someone.page.locator("form#objective [name=objective]")).to_have_value("latency p95 > 10")
    expect(someone.page.locator("form#objective [name=why]")).to_have_value("trying objective")
    assert dashboard.service.service.fleet.job("clicks").changes == ()


def test_a_change_can_be_previewed_and_left(dashboard: Dashboard, visit: Visiting) -> None:
    someone = visit(dashboard)
    someone.sign_in(dashboard.service.tokens["operator"], "/jobs/clicks/change")
    _fill(someone, "pause", {"direction": "both"})
    someone.page.get_by_role("link", name="Go back").click()
    expect(someone.page).to_have_url(re.compile("/jobs/clicks/change$"))
    assert dashboard.service.service.fleet.job("clicks").changes == ()
