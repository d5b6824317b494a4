"""A report in a real browser: every plot is drawn without the network, and a phone shows it all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from headgate.lab.scenario import ScenarioOutcome, write_scenario_report
from headgate.render.page import Candlestick, Plot, candlestick_plot

PHONE_PX = 390
DESK_PX = 1280
PLOTS = 3


def written(path: Path) -> Path:
    """A report with one plot of each kind that is drawn, and names of some length."""
    names = [f"policy {number} of some length" for number in range(6)]
    lines = [{"type": "scatter", "name": name, "x": [0, 1, 2], "y": [place, 3, 1]} for place, name in enumerate(names)]
    spread = {"type": "data", "array": [1, 2, 1], "arrayminus": [0.5, 1, 1]}
    bars = [{"type": "bar", "name": name, "x": names[:3], "y": [1, 2, 3], "error_y": spread} for name in names[:2]]
    boxes = {name: Candlestick(0.0, 1.0, 2.0, 3.0, 4.0 + place) for place, name in enumerate(names)}
    outcome = ScenarioOutcome(
        rows=[{"policy": "static", "late_pct": 1.5}],
        plots=[
            Plot("Lines", lines),
            Plot("Bars", bars, {"yaxis": {"type": "log", "title": {"text": "late records (%)"}}}),
            candlestick_plot("Boxes", "latency (s)", boxes, bound=3.5),
        ],
    )
    return write_scenario_report(path, "every-kind", "One plot of each.", outcome)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def faults() -> list[str]:
    """Errors of the page, and its requests to the network."""
    return []


@pytest.fixture
def page(browser: Browser, faults: list[str]) -> Iterator[Page]:
    with browser.new_context() as context:
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "blob:")) else faults.append(request.url),
        )
        yield page


def show(page: Page, path: Path, width_px: int) -> None:
    page.set_viewport_size({"width": width_px, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_function(f"document.querySelectorAll('.nsewdrag').length === {PLOTS}")


def shapes(page: Page) -> list[str]:
    """All lines, boxes and labels that are drawn, with where they are."""
    found = page.evaluate(
        """Array.from(document.querySelectorAll(".main-svg path, .main-svg text")).map(
             shape => [shape.tagName, shape.getAttribute("d"), shape.getAttribute("x"),
                       shape.getAttribute("transform"), shape.textContent].join(" "))"""
    )
    assert isinstance(found, list)
    return [str(shape) for shape in found]


def test_every_plot_is_drawn_without_a_fault_or_a_request(report: Path, page: Page, faults: list[str]) -> None:
    show(page, report, DESK_PX)
    assert len(shapes(page)) > 100
    assert faults == []


@pytest.mark.parametrize("width_px", [PHONE_PX, DESK_PX])
def test_no_legend_lies_on_a_plot_and_no_label_is_cut(report: Path, page: Page, width_px: int) -> None:
    show(page, report, width_px)
    found = page.evaluate(
        """Array.from(document.querySelectorAll(".js-plotly-plot")).map(plot => {
             const place = element => element.getBoundingClientRect();
             const whole = place(plot.querySelector(".main-svg")), area = place(plot.querySelector(".nsewdrag"));
             const legend = plot.querySelector(".legend");
             const isClear = box => box.bottom <= area.top || box.left >= area.right;
             const isIn = box => box.left >= whole.left && box.right <= whole.right && box.bottom <= whole.bottom;
             const labels = Array.from(plot.querySelectorAll(".xtick text, .ytick text, .legendtext"));
             const cut = labels.filter(label => !isIn(place(label))).map(label => label.textContent);
             return [!legend || isClear(place(legend)), cut];
           })"""
    )
    assert found == [[True, []]] * PLOTS
    assert page.evaluate("document.documentElement.scrollWidth") <= width_px
