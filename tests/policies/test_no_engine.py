"""Policies decide on readings: none knows which engine they come from."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

import headgate.policies

FOLDER = Path(headgate.policies.__file__).parent
NAMED_AFTER_ONE = {"flink_autoscaler.py", "spark_dra.py", "spark_streaming_dra.py"}
"""What an engine does by itself, as a policy."""
WORDS = re.compile("flink|spark", re.IGNORECASE)


def code(path: Path) -> str:
    """Return the text of a file without comments and texts of several lines, which say where a technique comes from."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    retained = [token.string for token in tokens if token.type != tokenize.COMMENT]
    return "\n".join(text for text in retained if not text.startswith('"""'))


@pytest.mark.parametrize(
    "path",
    sorted(path for path in FOLDER.rglob("*.py") if path.name not in NAMED_AFTER_ONE),
    ids=lambda path: str(path.relative_to(FOLDER)),
)
def test_a_policy_has_no_word_of_an_engine(path: Path) -> None:
    assert WORDS.findall(code(path)) == []
