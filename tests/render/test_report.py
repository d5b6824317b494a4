"""The report: one page that holds everything, shows what happened, and takes any text as text."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from headgate.core.errors import InputError, OutputError
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, GuardNote, Instances, Observation, Sample, Verdict
from headgate.lab.scenario import ScenarioOutcome, write_scenario_report
from headgate.render.figures import TimeUnit, figure, peaks
from headgate.render.page import ALL_PCT, Candlestick, Plot, candlestick_plot, error_bars, require_plotly, write_page
from headgate.render.report import MAX_ROWS, write_report
from headgate.render.verdict import FixedSizes
from headgate.runtime.summary import Summary
from tests.journal.entries import decision, event, observation, receipt

OBJECTIVE = parse_objective("latency p95 < 10s")
SUMMARY = Summary(3.5, 2.25, 99.0, 2.5, 9000.0, 2, 1234.0, 1.0, 8.0, 9.5)
UNKNOWN = Summary(None, None, None, 0.0, 0.0, 0, None, None, None, None)
VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Checks that tags are closed in order, and keeps the text that is seen and the data of the figures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.figures = ""
        self.addresses: list[str] = []
        self._is_figures = False
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._is_figures = dict(attrs).get("id") == "figures"
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._is_figures:
            self.figures += data
        elif self.open and self.open[-1] not in {"script", "style"}:
            self.seen.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.seen).split())


def unpacked(page: str) -> str:
    """The script that a page carries packed."""
    packed = page.partition('<script type="text/plain" id="plotly">')[2].partition("</script>")[0]
    return gzip.decompress(b64decode(packed)).decode()


def page_of(path: Path, **changes: Any) -> Page:
    values: dict[str, Any] = {
        "title": "a run",
        "observations": [observation(0, 1), observation(10, 1), observation(20, 3, 1), observation(30, 3)],
        "decisions": [decision(0), decision(10, 1, 3, code="slo-violated", proposed=9), decision(20, 3, 3)],
        "objective": OBJECTIVE,
        "summary": SUMMARY,
    }
    write_report(path, **(values | changes))
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "report.html"


def test_the_page_is_whole_and_needs_no_network(target: Path) -> None:
    page = page_of(target)
    assert page.addresses == []
    assert "plotly.js v" in unpacked(target.read_text())


def test_it_shows_the_figures_of_the_run(target: Path) -> None:
    text = page_of(target, notes=["Load: constant."]).text
    for part in ("a run", "latency p95 < 10s, for 30s", "Load: constant.", "96.5%", "97.8%", "8 s", "1,234", "2.50"):
        assert part in text


@pytest.mark.parametrize(("objective", "verdict"), [("latency p95 < 10s", "good"), ("latency p99 < 10s", "bad")])
def test_a_percentile_is_judged_by_records(target: Path, objective: str, verdict: str) -> None:
    page_of(target, objective=parse_objective(objective))
    assert f'<div class="card {verdict}"><div class="name">In time</div>' in target.read_text(encoding="utf-8")


def test_figures_that_are_not_known_are_not_made_up(target: Path) -> None:
    assert "Objective met – " in page_of(target, summary=UNKNOWN, fixed=FixedSizes({2: UNKNOWN})).text


def test_it_shows_what_was_decided_and_why(target: Path) -> None:
    text = page_of(target, receipts=[receipt(10.5)], events=[event(5, "observe-failed")]).text
    story = text[text.index("What was decided") :]
    for part in (
        "5s observe-failed",
        "10s 1 → 3 slo-violated at 10 s",
        "step-limit made it 3 instead of 9: the test said so",
        "accepted after 500ms; 3 ready after 20s numbers latency_s 1.5",
    ):
        assert part in story
    assert "steady" not in story


def test_every_fixed_size_is_listed_with_its_cost_and_the_cheapest_that_meets_the_objective_is_named(
    target: Path,
) -> None:
    sizes = {
        1: Summary(90.0, 90.0, 10.0, 1.0, 3600.0, 0, 9.0, 1.0, 1.0, 1.0, 0.5),
        2: Summary(3.0, 4.0, 98.0, 2.0, 7200.0, 0, 9.0, 1.0, 1.0, 1.0, 1.0),
        3: Summary(0.0, 0.0, 100.0, 3.0, 10800.0, 0, 0.0, 1.0, 1.0, 1.0, 1.5),
    }
    text = page_of(target, fixed=FixedSizes(sizes)).text
    headline = "The cheapest fixed size that would have met it is 2 instances: a cost of 1, 20 % less than this run"
    assert text.count(headline) == 2, "in the verdict and above the table"
    table = text[text.index("Against fixed sizes") :]
    for row in ("this run met 2.2%", "1 instance not met 90.0%", "2 instances met 4.0%", "3 instances met 0.0%"):
        assert row in table
    assert "1.50 1 20 % less" not in table
    assert "3.00 1.5 20 % more" in table


def test_no_fixed_size_is_recommended_that_misses_the_objective(target: Path) -> None:
    sizes = {4: Summary(90.0, 90.0, 10.0, 4.0, 3600.0, 0, 9.0, 1.0, 1.0, 1.0)}
    assert "No fixed size up to 4 instances would have met it" in page_of(target, fixed=FixedSizes(sizes)).text


def test_a_run_without_anything_in_it_still_has_a_report(target: Path) -> None:
    text = page_of(target, observations=[], decisions=[], summary=UNKNOWN).text
    assert "Nothing was observed." in text
    assert "The size was never changed." in text


def test_a_very_long_table_is_cut_and_says_so(target: Path) -> None:
    decisions = [decision(float(second), 1 + second % 2, 2 - second % 2) for second in range(MAX_ROWS + 7)]
    assert f"The last {MAX_ROWS} of {MAX_ROWS + 7} are shown" in page_of(target, decisions=decisions).text


EVIL = """</script><script>alert("&amp;'1')</script><!--"""


def test_any_text_is_shown_as_text(target: Path) -> None:
    verdict = Verdict(EVIL, 1, 2, 2, EVIL, EVIL, {EVIL: EVIL}, (GuardNote(EVIL, 3, 2, EVIL),))
    seen = Observation(0.0, {EVIL: Sample(EVIL, 0.0, latency_s=1.0)}, {EVIL: Instances(1, 1, 1)})
    other = Observation(1.0, {}, {"other": Instances(1, 1, 1)})
    page = page_of(
        target,
        title=EVIL,
        observations=[seen, other],
        decisions=[Decision(0.0, EVIL, {EVIL: verdict})],
        events=[event(0, EVIL)],
        fixed=FixedSizes({2: SUMMARY}, how=EVIL),
        notes=[EVIL],
    )
    assert page.text.count(EVIL) >= 8
    assert target.read_text().count("<script") == 3
    hover = next(trace["text"][0] for trace in json.loads(page.figures)[0]["data"] if "text" in trace)
    assert "<script" not in hover
    assert "&lt;script&gt;" in hover.replace("<br>", "")


def test_a_path_that_cannot_be_written_is_an_error() -> None:
    with pytest.raises(OutputError, match="cannot be written: no space left on device"):
        page_of(Path("/dev/full"))


# -------------------------------------------------------------------------------------------------------------- plots


def trace(drawn: Any, name: str) -> Any:
    return next(found for found in drawn["data"] if found["name"] == name)


def test_readings_are_drawn_once_and_against_the_time_from_the_start() -> None:
    sample = Sample("job", 100.0, latency_s=2.0)
    sizes = {"job": Instances(1, 1, 1)}
    seen = [Observation(at_s, {"job": sample}, sizes) for at_s in (100.0, 110.0)]
    latency = trace(figure(seen, [], OBJECTIVE, "job"), "latency")
    assert (latency["x"], latency["y"]) == ([0.0], [2.0])


def test_instances_are_drawn_where_they_change_and_to_the_end() -> None:
    seen = [observation(float(at_s), 1 if at_s < 50 else 2) for at_s in range(0, 100, 10)]
    ready = trace(figure(seen, [], OBJECTIVE, "job"), "ready")
    assert list(zip(ready["x"], ready["y"], strict=True)) == [(0, 1), (50, 2), (90, 2)]


def test_the_time_in_which_the_objective_was_violated_is_shaded() -> None:
    latencies = {10.0: 1.0, 20.0: 12.0, 30.0: 15.0, 40.0: 2.0, 50.0: 11.0}
    sizes = {"job": Instances(1, 1, 1)}
    seen = [
        Observation(at_s, {"job": Sample("job", at_s, latency_s=value)}, sizes) for at_s, value in latencies.items()
    ]
    shapes = figure(seen, [], OBJECTIVE, "job")["layout"]["shapes"]
    assert [(shape["x0"], shape["x1"]) for shape in shapes if shape["type"] == "rect"] == [(0, 20), (30, 40)]
    assert [shape["y0"] for shape in shapes if shape["type"] == "line"] == [10.0]


def test_an_objective_without_a_latency_has_no_line() -> None:
    drawn = figure([observation(0)], [], parse_objective("throughput >= 95%"), "job")
    assert drawn["layout"]["shapes"] == []


def test_thinning_keeps_the_spikes() -> None:
    points = [(float(second), 100.0 if second == 4321 else 1.0) for second in range(10_000)]
    thinned = peaks(points, 500)
    assert len(thinned) == 500
    assert (4321.0, 100.0) in thinned


@pytest.mark.parametrize(
    ("run_s", "name"), [(0, "seconds"), (300, "seconds"), (301, "minutes"), (86400, "hours"), (7 * 86400, "days")]
)
def test_the_time_axis_has_a_unit_that_suits_the_run(run_s: float, name: str) -> None:
    assert TimeUnit.of(run_s).name == name


def counted(minutes: int, late_per_minute: float) -> list[Observation]:
    """A job that gets 600 records a minute."""
    return [
        Observation(
            60.0 * minute,
            {"job": Sample("job", 60.0 * minute, arrived=600 * minute, late=late_per_minute * minute)},
            {"job": Instances(2, 2, 2)},
        )
        for minute in range(minutes + 1)
    ]


def test_what_is_spent_of_the_error_budget_is_drawn_and_written(target: Path) -> None:
    hourly = parse_objective("latency p90 < 10s per 1h")
    page = page_of(target, observations=counted(60, 45), objective=hourly)
    for part in (
        "Error budget 75 % of the last 1h spent",
        "900 records left; burning at 0.75 × over 2m 30s and 0.75 × over 12.5s",
    ):
        assert part in page.text
    drawn = json.loads(page.figures)[0]
    spent = trace(drawn, "budget spent")
    assert spent["y"][-1] == pytest.approx(75.0)
    assert spent["y"] == sorted(spent["y"])
    assert drawn["layout"]["annotations"][4]["text"] == "<b>Error budget spent, %</b>"
    assert drawn["layout"]["xaxis"]["anchor"] == spent["yaxis"] == "y5"


def test_a_budget_that_is_overspent_stands_out(target: Path) -> None:
    page_of(target, observations=counted(60, 90), objective=parse_objective("latency p90 < 10s per 1h"))
    assert '<div class="card bad"><div class="name">Error budget</div>' in target.read_text(encoding="utf-8")


def test_where_nothing_was_counted_there_is_no_budget_to_show(target: Path) -> None:
    page = page_of(target)
    assert "Error budget" not in page.text
    assert len(json.loads(page.figures)[0]["layout"]["annotations"]) == 5, "four panels and the bound"


@pytest.mark.parametrize(
    ("objective", "cost"),
    [
        ("latency p95 < 10s", None),
        ("latency p95 < 10s, price 0.5", "Cost 1 in 1h; 24 per day at this pace"),
        ("latency p95 < 10s, cost < 12 per day, price 0.5", "Cost 1 in 1h; 24 per day at this pace, the limit is 12"),
    ],
)
def test_the_cost_of_a_priced_run_is_shown(target: Path, objective: str, cost: str | None) -> None:
    text = page_of(target, observations=counted(60, 0), objective=parse_objective(objective)).text
    assert (cost in text) if cost else ("Cost" not in text)


def test_a_page_carries_the_script_packed_and_has_no_button_to_a_cloud(tmp_path: Path) -> None:
    target = write_report(
        tmp_path / "run.html", title="", observations=[], decisions=[], objective=OBJECTIVE, summary=SUMMARY
    )
    page = target.read_text()
    assert len(page) < 2_300_000
    assert "showSendToCloud: false" in page
    assert 'plotlyServerURL: ""' in page


def test_another_bundle_of_the_script_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "plotly-cartesian.min.js"
    script.write_text("var Plotly = {};")
    monkeypatch.setenv("HEADGATE_PLOTLY", str(script))
    assert gzip.decompress(b64decode(require_plotly())) == b"var Plotly = {};"
    monkeypatch.setenv("HEADGATE_PLOTLY", str(tmp_path / "none.js"))
    with pytest.raises(InputError, match=r"^HEADGATE_PLOTLY=.*none\.js cannot be read: no such file or directory\.$"):
        require_plotly()


def test_error_bars_end_where_values_end() -> None:
    bars = error_bars([99.0, None, 50.0], [5.0, None, 5.0], ALL_PCT)
    assert bars["array"] == [1.0, 0.0, 5.0]
    assert bars["arrayminus"] == [5.0, 0.0, 5.0]
    assert error_bars([99.0], [5.0])["array"] == [5.0]


def test_a_lab_report_says_what_its_plots_show(tmp_path: Path) -> None:
    sticks = {"static": Candlestick(0.0, 1.0, 2.0, 3.0, 4.0)}
    plots = [candlestick_plot("Latency", "seconds", sticks, 30.0), Plot("Plain", [])]
    outcome = ScenarioOutcome([{"policy": "static", "empty": None, "latency_p95_s": 2.5}], plots=plots)
    written = write_scenario_report(tmp_path / "r.html", "s", "A scenario.", outcome)
    page = Page(written.read_text())
    assert "the line in them is the mean" in page.text
    assert "Dashed: the bound of the objective." in page.text
    assert "latency p95, s" in page.text
    assert "empty" not in page.text


def test_numbers_in_plots_are_no_longer_than_they_can_be_seen(tmp_path: Path) -> None:
    drawn = {"data": [{"type": "scatter", "x": [1 / 3, 1234567.890123, 2, 1e-7 / 3], "y": (2 / 3, None, "a", True)}]}
    page = write_page(tmp_path / "page.html", title="a page", head="", sections=[], figures=[drawn])
    assert '"x":[0.333333,1234567.89,2,3.33333e-08],"y":[0.666667,null,"a",true]' in page.read_text()
