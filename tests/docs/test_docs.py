"""The documentation holds: tables are those of the code, links lead somewhere, examples are valid."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.core.extras import BRINGS_TOO
from headgate.policies import policy_names

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
TEST_FILE = re.compile(r"`(tests/[\w/]+\.py)`")


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_settings_tables_are_those_of_the_code() -> None:
    command = [sys.executable, str(ROOT / "scripts/make_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", ["azimi", "giannakopoulos", "russo", "imai", "rouaux"])
def test_every_source_document_has_a_table_of_its_figures(document: str) -> None:
    page = (ROOT / "docs/lab" / f"{document}.md").read_text()
    table = page.partition(f"<!-- figures: {document} -->")[2].partition("<!-- /figures -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert rows, "a page has its table"
    assert all(len(row) == 6 and all(cell.strip() for cell in row) for row in rows), "no cell is left empty"
    assert "not been measured" not in page


def test_a_new_marker_takes_nothing_of_what_follows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    with_tables = importlib.import_module("make_docs").with_tables
    page = tmp_path / "page.md"
    page.write_text("<!-- benchmark: conttune -->\nbetween\n<!-- benchmark: fleet -->\n<!-- /benchmark -->\n")
    text = with_tables(page)
    assert text.count("<!-- /benchmark -->") == 2
    assert "\nbetween\n" in text


def test_every_policy_has_a_page_with_its_plot() -> None:
    text = "\n".join(page.read_text() for page in (ROOT / "docs/policies").glob("*.md"))
    for name in policy_names():
        assert f"../images/policies/{name}.svg" in text, f"no page shows {name}"
        assert (ROOT / f"docs/images/policies/{name}.svg").is_file(), f"run make docs for {name}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page_name(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_python_in_pages_is_valid(page: Path) -> None:
    for example in PYTHON.findall(page.read_text()):
        ast.parse(example)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_tests_that_pages_name_exist(page: Path) -> None:
    for name in TEST_FILE.findall(page.read_text()):
        assert (ROOT / name).exists(), f"{page_name(page)} names {name}"


def test_the_readme_example_is_a_file_that_runs_and_ten_lines_at_most() -> None:
    example = PYTHON.findall((ROOT / "README.md").read_text())[0]
    assert example == (ROOT / "examples/ten_lines.py").read_text(), "tests/live/test_examples.py runs the file"
    assert len([line for line in example.splitlines() if line.strip()]) <= 10


NEEDS = {
    r"headgate (app run|kafka|load)\b": {"kafka"},
    r"headgate (flink|autoscale-flink)\b": {"flink"},
    r"headgate pipeline run": {"kafka", "service", "reports"},
    r"headgate (mst|cluster|lab run [\w-]+\.yaml|lab tune|lab run league)\b|headgate\.(autoscale|run)\(": {"spark"},
    r"headgate lab run league|online-parameter-optimization": {"learning"},
    r"headgate lab tune": {"lab"},
    r"headgate (demo|report|app run)\b|--(report|plot)\b": {"reports"},
    r"headgate (serve|agent|status|pause|resume|release|set|history|token)\b|headgate\.(join|Client)\(": {"service"},
    r"postgresql://": {"postgres"},
    r"metrics_port=": {"metrics"},
}
"""What a guide shows, and the extras that bring what it needs."""
INSTALL = re.compile(r"pip install '?headgate\[([a-z,]+)\]")
GUIDES = [*sorted((ROOT / "docs/guides").glob("*.md")), ROOT / "docs/lab/league.md"]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: str(guide.name))
def test_what_a_guide_installs_is_what_its_commands_need(guide: Path) -> None:
    text = guide.read_text()
    installed = {extra for found in INSTALL.findall(text) for extra in found.split(",")}
    if not installed:
        return  # It follows another, or goes on from a clone.
    brought = installed.union(*(BRINGS_TOO.get(extra, ()) for extra in installed))
    shown = "\n".join(re.findall(r"```(?:sh|python)\n(.*?)```", text, re.DOTALL))
    needed = set().union(*(extras for pattern, extras in NEEDS.items() if re.search(pattern, shown)))
    assert needed <= brought, f"{guide.name} installs {sorted(installed)}; its commands need {sorted(needed)}"
