"""`scripts/check_language.py`, which `make lint` runs over the tree, finds the words that it is for."""

import runpy
from pathlib import Path

import pytest

CHECK = runpy.run_path(str(Path(__file__).parents[2] / "scripts/check_language.py"))


@pytest.mark.parametrize(
    ("source", "findings"),
    [
        ("told_s = 1.0", ["name 'told_s'"]),
        ("class BoundsAsked: ...", ["name 'BoundsAsked'"]),
        ("for one in rows: ...", ["name 'one'"]),
        ("rows = []  # whoever reads them", ["word 'whoever'"]),
        ('"""The bound is kept."""', ["word 'kept'"]),
        ('f"{count} of what was asked for"', ["word 'asked'"]),
        ("latest_offsets = message = cached = None", []),
        ("first = row['heard_s']", []),  # a key of the service's interface
        ("task = basket = masked = None", []),
    ],
)
def test_words_of_the_glossary_are_found_in_names_and_prose(source: str, findings: list[str]) -> None:
    assert [finding for _, finding in CHECK["check_python"](source)] == findings


def test_the_line_of_a_word_in_a_long_text_is_exact() -> None:
    assert list(CHECK["check_python"]('x = 1\n"""First.\n\nIt is told.\n"""\n')) == [(4, "word 'told'")]


def test_keys_of_recorded_results_may_stand_in_pages_as_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- benchmark: promises where asked=p95 -->\n`kept` counts.\nIt is kept, by `headgate told`.\n")
    assert list(CHECK["check_file"](page)) == [(3, "word 'kept'"), (3, "word 'told'")]
