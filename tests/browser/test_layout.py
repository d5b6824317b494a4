"""No text is clipped and nothing overflows: every page on a wide and a narrow desk and on a phone, by day and by night.

With HEADGATE_SCREENSHOTS=FOLDER the pages are saved as pictures, to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize, expect

from headgate.core.objective import parse_objective
from headgate.render.report import write_report
from headgate.render.verdict import FixedSizes
from headgate.runtime.simulate import fixed_size_comparison, simulate
from headgate.workloads import parse_workload
from tests.browser.conftest import Dashboard, Started, Visit, Visiting

PAGES = ("/", "/jobs/clicks", "/jobs/words?span=15m", "/jobs/clicks/change", "/jobs/clicks/history", "/audit", "/login")
SCREENS: tuple[ViewportSize, ...] = (
    {"width": 1440, "height": 900},
    {"width": 1280, "height": 900},
    {"width": 390, "height": 844},
)
CLIPPED = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    const left_out = "svg, script, style, noscript, .skip, thead, option, textarea";
    if (!text || !element || element.closest(left_out)) { continue; }
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    for (const box of range.getClientRects()) {
      if (box.width < 1 || box.height < 1) { continue; }
      let right = document.documentElement.clientWidth, left = 0;
      for (let at = element; at && at !== document.body; at = at.parentElement) {
        if (getComputedStyle(at).overflowX !== "visible") {
          const frame = at.getBoundingClientRect();
          right = Math.min(right, frame.right);
          left = Math.max(left, frame.left);
        }
      }
      if (box.right > right + 1.5 || box.left < left - 1.5) { found.push(text.slice(0, 60)); break; }
    }
  }
  return found;
}"""


def require_whole(someone: Visit, name: str, screen: ViewportSize, *, dark: bool) -> None:
    page = someone.page
    if folder := os.environ.get("HEADGATE_SCREENSHOTS"):
        shade = "dark" if dark else "light"
        page.screenshot(path=Path(folder) / f"{name}-{screen['width']}-{shade}.png", full_page=True)
    too_wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert too_wide <= 0, f"{name} is {too_wide} px wider than {screen['width']} px"
    assert page.evaluate(CLIPPED) == []


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: str(screen["width"]))
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_text_of_the_dashboard_is_clipped(
    dashboard: Dashboard, visit: Visiting, screen: ViewportSize, dark: bool
) -> None:
    someone = visit(dashboard, dark=dark)
    someone.page.set_viewport_size(screen)
    someone.sign_in(dashboard.service.tokens["operator"])
    for path in PAGES:
        someone.open(path)
        expect(someone.page.locator("main h1")).to_be_visible()
        name = path.partition("?")[0].strip("/").replace("/", "-") or "overview"
        require_whole(someone, name, screen, dark=dark)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day that was too much for the bounds."""
    objective = parse_objective("latency p95 < 10s, price 0.5").within(1, 6)
    load = parse_workload("sine:mean=40,amplitude=35,period=6h")
    result = simulate(
        "reactive", load, objective=objective, interval_s=30.0, startup_s=30.0, service_rate_per_s=10.0, seconds=86400.0
    )
    return write_report(
        tmp_path_factory.mktemp("report") / "report.html",
        title="clicks",
        observations=result.observations,
        decisions=result.decisions,
        objective=objective,
        summary=result.summary,
        fixed=FixedSizes(fixed_size_comparison(load, 86400.0, objective=objective, service_rate_per_s=10.0)),
        notes=["Simulated."],
    )


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: str(screen["width"]))
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_report_is_whole_and_begins_with_the_verdict(
    started: Started, report: Path, screen: ViewportSize, dark: bool
) -> None:
    context = started.browser().new_context(viewport=screen, color_scheme="dark" if dark else "light")
    try:
        page = context.new_page()
        page.goto(report.as_uri())
        expect(page.locator(".js-plotly-plot").first).to_be_visible(timeout=60_000)
        verdict = page.get_by_role("region", name="Verdict").bounding_box()
        assert verdict is not None
        assert verdict["y"] < screen["height"] / 2
        height = page.evaluate("document.documentElement.scrollHeight")
        assert height < 6000, f"a day's report is {height} px long"
        someone = Visit(page, report.as_uri())
        if folder := os.environ.get("HEADGATE_SCREENSHOTS"):
            shade = "dark" if dark else "light"
            page.screenshot(path=Path(folder) / f"report-{screen['width']}-{shade}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        wide = screen["width"] > 1000
        assert not wide or someone.page.evaluate(CLIPPED) == []
    finally:
        started.close(context)
