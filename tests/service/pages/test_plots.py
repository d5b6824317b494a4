"""What is drawn: where things lie, that it can be read, and that no text gets out of its place."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from markupsafe import Markup

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Decision, GuardNote, Instances, Observation, Sample, Verdict
from headgate.render.story import RowKind, story_of
from headgate.service.pages.plots import (
    MARKS,
    Band,
    Level,
    Line,
    Mark,
    Node,
    Panel,
    TimeAxis,
    ValueAxis,
    graph,
    longest_path_s,
    meter,
    panels,
    sparkline,
    times,
)
from headgate.service.pages.views.job_page import SIGNS

NOW_S = 1000.0
TIME = TimeAxis(NOW_S, 300.0, 20.0)


def drawn(markup: Markup) -> ET.Element:
    """The drawing, which must be well formed."""
    return ET.fromstring(markup)


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [element for element in root.iter() if name in element.get("class", "").split()]


@pytest.mark.parametrize("largest", [0.0, 1e-3, 0.9, 1, 3, 7, 10, 99, 101, 12_345, 1e9, float("nan"), float("inf")])
@pytest.mark.parametrize("whole", [True, False])
def test_an_axis_holds_the_largest_value_with_few_round_labels(largest: float, whole: bool) -> None:
    axis = ValueAxis.reaching(largest, whole=whole)
    if largest < 1e300:
        assert axis.top >= largest
    assert 1 <= len(axis.ticks()) <= 4
    assert not whole or all(tick == round(tick) for tick in axis.ticks())


@pytest.mark.parametrize("span_s", [60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0])
def test_times_are_labelled_a_few_times_and_end_with_now(span_s: float) -> None:
    axis = TimeAxis(NOW_S, span_s)
    labels = [label for _, label in axis.ticks()]
    assert labels[-1] == "now"
    assert 2 <= len(labels) <= 6
    assert [element.text for element in drawn(times(axis))] == labels


def test_a_line_is_cut_where_nothing_is_known() -> None:
    points = [(800.0, 1.0), (850.0, 2.0), (900.0, None), (950.0, 3.0), (1000.0, 2.0)]
    root = drawn(Panel("Load", "records/s", TIME, [Line("load", "rate", points)]).svg())
    assert len(of_class(root, "line")) == 2


def test_steps_have_corners_and_no_slopes() -> None:
    points = [(800.0, 1.0), (900.0, 1.0), (950.0, 3.0), (1000.0, 3.0)]
    root = drawn(Panel("Instances", "", TIME, [Line("ready", "ready", points, steps=True)], whole=True).svg())
    (line,) = of_class(root, "line")
    corners = [tuple(map(float, pair.split(","))) for pair in str(line.get("points")).split()]
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(corners))


def test_a_band_does_not_make_what_was_measured_small() -> None:
    line = Line("backlog", "backlog", [(800.0, 10.0), (1000.0, 12.0)])
    wide = Band("expected", [(900.0, 0.0, 5000.0), (1000.0, 0.0, 9000.0)])
    root = drawn(Panel("Backlog", "records", TIME, [line], bands=[wide]).svg())
    assert float(str(root.get("data-top"))) <= 20
    assert len(of_class(root, "band")) == 1


def test_the_objective_is_a_line_with_a_label_that_fits() -> None:
    line = Line("latency", "latency", [(800.0, 1.0), (1000.0, 2.0)])
    root = drawn(Panel("Latency", "", TIME, [line], levels=[Level(10.0, "objective 10s")]).svg())
    assert float(str(root.get("data-top"))) > 10
    assert [element.text for element in of_class(root, "level") if element.text] == ["objective 10s"]


def test_what_a_marker_says_cannot_leave_its_place() -> None:
    mark = Mark(950.0, 3.0, "out", "d-1", '2 → 3: "<script>alert(1)</script>"')
    line = Line("ready", "ready", [(800.0, 1.0), (1000.0, 3.0)], steps=True)
    markup = Panel("Instances", "", TIME, [line], marks=[mark], whole=True).svg()
    assert "<script" not in markup
    (found,) = of_class(drawn(markup), "mark")
    assert found.get("href") == "#d-1"
    assert found.get("aria-label") == mark.label


def test_a_marker_before_the_time_shown_is_left_out() -> None:
    marks = [Mark(100.0, 3.0, "out", "d-1", "long ago"), Mark(990.0, 2.0, "in", "d-2", "now")]
    line = Line("ready", "ready", [(800.0, 1.0), (1000.0, 3.0)], steps=True)
    root = drawn(Panel("Instances", "", TIME, [line], marks=marks).svg())
    assert [element.get("href") for element in of_class(root, "mark")] == ["#d-2"]


def test_a_plot_says_in_a_sentence_what_it_shows() -> None:
    line = Line("load", "rate", [(800.0, 30.0), (900.0, 55.5), (1000.0, 12.0)])
    assert Panel("Load", "records/s", TIME, [line]).alt == (
        "Load: 12 records/s now, at most 55.5 records/s in this time."
    )
    assert Panel("Load", "records/s", TIME, [Line("load", "rate", [])]).alt == "Load: nothing is known yet."


def test_the_plots_of_an_operator_show_what_was_expected_decided_and_violated() -> None:
    numbers = {
        "expected_after_s": 60.0,
        "expected_rate_per_s_low": 5.0,
        "expected_rate_per_s_high": 15.0,
        "expected_backlog_low": 0.0,
        "expected_backlog_high": 30.0,
    }
    seen, decided = [], []
    for at_s, latency_s in ((700.0, 1.0), (760.0, 20.0), (820.0, 20.0), (880.0, 1.0), (940.0, 1.0)):
        sample = Sample("job", at_s, input_rate_per_s=10.0, backlog=12.0, latency_s=latency_s)
        seen.append(Observation(at_s, {"job": sample}, {"job": Instances(2, 2, 2)}))
        decided.append(Decision(at_s, "autopilot", {"job": Verdict("job", 2, 2, 2, "steady", "right", numbers)}))
    grown = Verdict("job", 2, 6, 4, "needed", "more", numbers, (GuardNote("step-limit", 6, 4, "at most 2"),))
    decided[2] = Decision(820.0, "autopilot", {"job": grown})
    stopped = Verdict("job", 4, 2, 4, "enough", "fewer", numbers, (GuardNote("cooldown", 2, 4, "too soon"),))
    decided[4] = Decision(940.0, "autopilot", {"job": stopped})
    found = panels(TIME, seen, decided, story_of(decided, seen), parse_objective("latency p95 < 10s"), "job")
    by_title = {panel.title: panel for panel in found}
    assert list(by_title) == ["Load", "Latency", "Backlog", "Instances"]
    assert by_title["Load"].bands[0].points[0] == (760.0, 5.0, 15.0)
    assert by_title["Load"].shaded == [(700.0, 820.0)]
    assert not by_title["Latency"].bands
    assert [(mark.kind, mark.at_s) for mark in by_title["Instances"].marks] == [("out", 820.0), ("stopped", 940.0)]
    for panel in found:
        drawn(panel.svg())


def test_a_graph_puts_operators_after_those_that_feed_them() -> None:
    topology = Topology.of(("parse", "enrich"), ("enrich", "total"), ("enrich", "alert"))

    def node(name: str) -> Node:
        return Node(name, 2, 3, "10/s in", "backlog <3>", "steady", "steady", f"?operator={name}", name == "enrich")

    root = drawn(graph(topology, node))
    places = {
        str(element.get("aria-label")).partition(":")[0]: float(str(element[0].get("x")))
        for element in of_class(root, "node")
    }
    assert places["parse"] < places["enrich"] < places["total"] == places["alert"]
    assert len(of_class(root, "stream")) == 3
    assert [element.get("aria-current") for element in of_class(root, "node")].count("true") == 1
    assert len(of_class(root, "coming")) == 4


def test_a_graph_of_many_instances_counts_those_it_does_not_draw() -> None:
    def node(name: str) -> Node:
        return Node(name, 40, 30, "", "", "steady", "steady", "#", False)

    root = drawn(graph(Topology.single(), node))
    assert len(of_class(root, "dot")) < 15
    assert "+29" in [element.text for element in root.iter()]


def test_small_plots_are_well_formed_and_say_what_they_are() -> None:
    course = [(700.0 + index, float(index)) for index in range(300)]
    assert drawn(sparkline(TIME, "load", "rate", course))[0].get("aria-label", "").startswith("load: 299 now")
    assert drawn(sparkline(TIME, "load", "rate", []))[0].get("aria-label") == "load: nothing is known yet."
    assert drawn(meter(1.7, "all", "good"))[1].get("width") == "100%"
    assert drawn(meter(-0.2, "none", "bad"))[1].get("width") == "0%"


def test_every_kind_of_decision_has_a_mark_and_a_sign_of_its_own() -> None:
    drawn_kinds = [
        kind for kind in RowKind if kind not in (RowKind.HOLD, RowKind.EVENT, RowKind.WARNING, RowKind.FAILED)
    ]
    assert {str(kind) for kind in drawn_kinds} == MARKS.keys()
    assert len(set(MARKS.values())) == len(MARKS)
    assert {str(kind) for kind in RowKind if kind is not RowKind.HOLD} == SIGNS.keys()


def test_the_latency_from_end_to_end_is_the_sum_along_the_longest_path() -> None:
    topology = Topology(
        ("parse", "fast", "slow", "join"), (("parse", "fast"), ("parse", "slow"), ("fast", "join"), ("slow", "join"))
    )
    waits_s = {"parse": 1.0, "fast": 2.0, "slow": 5.0, "join": 0.5}
    seen = Observation(0.0, {name: Sample(name, 0.0, latency_s=wait_s) for name, wait_s in waits_s.items()}, {})
    assert longest_path_s(topology, seen) == 6.5
    assert longest_path_s(topology, Observation(0.0, {"parse": Sample("parse", 0.0, latency_s=1.0)}, {})) is None
