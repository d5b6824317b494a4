"""What lab runs come to: confidence, verdicts, folders that do not fit, and the commands that show it. No Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.lab.experiments import results
from headgate.lab.experiments.results import LabFolder, read_parts, read_results
from headgate.lab.experiments.summary import GroupVerdict, differs, groups_by_arrow, read_summary, write_summary
from headgate.lab.measures.measures import Estimate
from tests.cli.commands import headgate, refused
from tests.lab.experiments.matrices import SMALL, lab_folder, row

ROWS = [
    *(row(place, "cheap", 1.0 + place / 100, met=place > 0) for place in range(3)),
    *(row(place, "good", 2.0 + place / 100) for place in range(3, 6)),
    *(row(place, "near", 1.98 + place / 100) for place in range(6, 9)),
    *(row(place, "dear", 4.0 + place / 100) for place in range(9, 12)),
    row(12, "broken", None, error="no such thing"),
]


def test_the_interval_is_that_of_student() -> None:
    found = Estimate(10.0, 2.0, 4)
    assert found.half_width == pytest.approx(3.1824 * 2 / 2, rel=1e-4)
    assert Estimate(10.0, None, 1).half_width is None


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        (Estimate(10.0, 1.0, 5), Estimate(10.5, 1.0, 5), False),
        (Estimate(10.0, 0.1, 5), Estimate(10.5, 0.1, 5), True),
        (Estimate(10.0, 0.0, 5), Estimate(10.5, 0.0, 5), True),
        (Estimate(10.0, 0.0, 5), Estimate(10.0, 0.0, 5), False),
        (Estimate(10.0, None, 1), Estimate(10.5, None, 1), True),
        (None, Estimate(10.5, 0.1, 5), True),
        (None, None, False),
    ],
)
def test_a_difference_inside_the_noise_is_none(first: Estimate | None, other: Estimate | None, expected: bool) -> None:
    assert differs(first, other) is expected


def test_the_cheapest_that_always_keeps_the_objective_is_best(tmp_path: Path) -> None:
    found = read_results(lab_folder(tmp_path / "lab", ROWS).path)
    assert {group.policy: verdict for group, verdict in found.rows} == {
        "cheap": GroupVerdict.MISSED,
        "good": GroupVerdict.BEST,
        "near": GroupVerdict.NOISE,
        "dear": GroupVerdict.DEARER,
        "broken": GroupVerdict.FAILED,
    }
    assert [group.policy for group in found.sorted_by(None).groups] == ["good", "near", "dear", "cheap", "broken"]
    assert [group.policy for group in found.sorted_by("cost").groups][:2] == ["cheap", "good"]
    good = found.groups[1].figures["instance_hours"]
    assert good is not None
    assert [good.mean, good.stddev, good.count] == pytest.approx([2.04, 0.01, 3])


def test_a_summary_reads_back_unchanged(tmp_path: Path) -> None:
    groups = groups_by_arrow(read_parts(lab_folder(tmp_path / "lab", ROWS).runs))
    write_summary(tmp_path / "summary.parquet", groups)
    assert read_summary(tmp_path / "summary.parquet") == groups


def test_a_folder_is_gone_on_with_by_the_same_experiment_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lab_folder(tmp_path / "lab", ROWS)
    folder.begin(SMALL, {})
    with pytest.raises(InputError, match=r"of another experiment \(other seeds, interval_s\). Give another --out"):
        folder.begin(replace(SMALL, seeds=(0,), interval_s=9.0), {})
    monkeypatch.setattr(results, "own_code", lambda: "0123")
    with pytest.raises(InputError, match=r"it was made by other code \(\w+; this is 0123\)"):
        folder.begin(SMALL, {})
    (tmp_path / "mine.txt").write_text("")
    with pytest.raises(InputError, match="has other files in it"):
        LabFolder(tmp_path).begin(SMALL, {})


def test_results_are_shown_within_80_columns(tmp_path: Path) -> None:
    folder = lab_folder(tmp_path / "lab", ROWS).path
    shown = headgate("lab", "results", str(folder), width=80).stdout
    assert max(len(line) for line in shown.splitlines()) <= 80
    lines = [line.split() for line in shown.splitlines()]
    assert ["good", "3/3", "2.04", "±", "0.02", "1", "best"] in lines
    assert "as good" in shown
    assert "1 of 1 runs of steady, queue, p95 < 10s, broken failed: no such thing" in " ".join(shown.split())


def test_results_can_be_filtered_and_written(tmp_path: Path) -> None:
    folder, table = lab_folder(tmp_path / "lab", ROWS).path, tmp_path / "rows.csv"
    message = headgate("lab", "results", str(folder), "--where", "policy=[dg]*", "--csv", str(table), "--json")
    rows = json.loads(message.stdout)["rows"]
    assert [listed["policy"] for listed in rows] == ["good", "dear"]
    assert rows[0]["instance_hours_ci95"] == pytest.approx(0.02484, rel=1e-3)
    assert table.read_text().splitlines()[1].startswith("steady,queue,p95 < 10s,good,3,0,3")


def test_a_report_has_a_plot_for_each_contest(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    folder, page = lab_folder(tmp_path / "lab", ROWS).path, tmp_path / "report.html"
    assert headgate("lab", "results", str(folder), "--report", str(page)).exit_code == 0
    text = page.read_text()
    assert text.count('id="figure-') == 1
    assert "instance-hours" in text
    assert "late records, %" in text


def test_two_lab_runs_side_by_side_have_their_differences_marked(tmp_path: Path) -> None:
    before = lab_folder(tmp_path / "before", ROWS).path
    cheaper = [*(row(place, "good", 1.5 + place / 100) for place in range(3, 6)), *ROWS[6:9], row(13, "new", 1.0)]
    after = lab_folder(tmp_path / "after", cheaper).path
    shown = headgate("lab", "results", str(after), "--against", str(before), width=80).stdout
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert any(line.startswith("good 2.04 → 1.54 * 1 → 1") for line in lines), shown
    assert any(line.startswith("near 2.05 → 2.05 1 → 1") for line in lines), shown
    assert any(line.startswith("new – → 1 ") for line in lines), shown
    assert max(len(line) for line in shown.splitlines()) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "polcy=hpa"], "unknown label 'polcy', did you mean 'policy'?"),
        (["--where", "policy=hpa"], "no policy is 'hpa'; there are 'cheap', 'good', 'near', 'dear', 'broken'."),
        (["--sort", "late"], "unknown figure 'late'"),
        (["--against", "nowhere"], "nowhere is no folder of a lab run"),
    ],
)
def test_what_cannot_be_shown_is_reported(tmp_path: Path, arguments: list[str], message: str) -> None:
    folder = lab_folder(tmp_path / "lab", ROWS).path
    assert message in refused("lab", "results", str(folder), *arguments)


def test_a_lab_run_that_has_just_begun_has_nothing_to_show(tmp_path: Path) -> None:
    LabFolder(tmp_path / "lab").begin(SMALL, {})
    assert "has no runs yet; at least one of its 12 must be done." in refused("lab", "results", str(tmp_path / "lab"))


def test_a_new_experiment_is_written_once(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    assert headgate("lab", "new", str(file)).exit_code == 0
    assert "version: 1" in file.read_text()
    assert "is there already" in refused("lab", "new", str(file))


def test_options_of_files_do_not_go_with_names() -> None:
    assert "go with an experiment file" in refused("lab", "run", "azimi-1", "--out", "there")


def test_the_schema_is_printed() -> None:
    assert json.loads(headgate("lab", "schema").stdout)["title"] == "An experiment of Headgate"
