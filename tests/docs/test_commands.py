"""Every command of the documentation that needs neither a cluster nor a broker is run, page by page in its order.

The others are run as they are printed by tests/live/test_doc_commands.py, or listed with the reason why they cannot be.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.app import app
from headgate.cli.common import with_json_target
from tests.docs.blocks import LEFT_OUT, ROOT, Block, blocks
from tests.docs.printed_commands import NOT_RUN, PAGES, SHELL, plain, reason_not_to_run, typed_on

NOT_HERE = (
    "agent",
    "app run",
    "autoscale-flink",
    "cluster",
    "doctor",
    "flink",
    "history",
    "kafka",
    "lab break",
    "lab results",
    "lab run",
    "lab tune",
    "load",
    "mst",
    "pause",
    "pipeline run",
    "policies show half-full",
    "release",
    "resume",
    "serve",
    "set",
    "simulate --policy half-full",
    "simulate --settings lab/tune-hpa/settings.yaml",
    "status",
    "submit job.yaml",
    "token",
)
"""What needs a cluster, a broker, a service or a package, by how it begins."""
MISSING = {"--workload": "constant:20", "--service-rate": "10", "--seconds": "10m"}
"""What stands for the dots in a simulation that is not shown in full."""


def commands(page: str) -> list[list[str]]:
    """The commands of a page that are run here."""
    found = [words for block in SHELL if block.page == page for words in block.commands()]
    return [words[1:] for words in found if is_run_here(words)]


def is_run_here(words: list[str]) -> bool:
    is_ours = words[0].removeprefix(".venv/bin/") == "headgate"
    return is_ours and not any(" ".join(words[1:]).startswith(start) for start in NOT_HERE)


def completed(words: list[str]) -> list[str]:
    if LEFT_OUT not in words:
        return words
    left = [word for word in words if word != LEFT_OUT]
    return left + [part for option, value in MISSING.items() if option not in left for part in (option, value)]


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pages take for granted: a journal, a load, rules, a measured model, the examples."""
    rules = next(block for block in blocks() if block.name == "docs/guides/rules.md yaml 1")
    (tmp_path / "rules.yaml").write_text(rules.text)
    (tmp_path / "load.csv").write_text("timestamp,count\n0,600\n60,1200\n120,600\n")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    models = ROOT / "src/headgate/runtime/models"
    shutil.copy(next(iter(sorted(models.glob("*.json")))), tmp_path / "mst.json")
    monkeypatch.chdir(tmp_path)
    seen = "simulate --policy reactive --workload spike:base=10,peak=70,at=60s,width=60s --service-rate 10 --seconds 5m"
    run([*seen.split(), "--journal", "run.db"])


def run(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, with_json_target(arguments), env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert result.exit_code == 0, f"headgate {' '.join(arguments)}: {result.output}"


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize("page", sorted({block.page for block in SHELL if commands(block.page)}))
def test_the_commands_of_a_page_run_one_after_the_other(page: str) -> None:
    for words in commands(page):
        run(completed(words))


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.name)
def test_every_command_is_run_here_or_as_it_is_printed_or_cannot_be_run(block: Block) -> None:
    for words in block.commands():
        is_run = is_run_here(words) or block.page in PAGES
        message = f"{block.name}: run {' '.join(words)!r} by printed_commands.py, or say there why it cannot be"
        assert is_run or reason_not_to_run(words) is not None, message


@pytest.mark.parametrize(("page", "start"), [(page, start) for page, known in PAGES.items() for start in known])
def test_what_is_said_of_a_command_is_said_of_one_that_is_shown(page: str, start: str) -> None:
    assert any(plain(typed.text).startswith(start) for typed in typed_on(page))


@pytest.mark.parametrize("start", NOT_RUN)
def test_what_cannot_be_run_is_shown(start: str) -> None:
    assert any(plain(" ".join(words)).startswith(start) for block in SHELL for words in block.commands())


@pytest.mark.parametrize("start", NOT_HERE)
def test_what_needs_more_is_shown(start: str) -> None:
    assert any(" ".join(words[1:]).startswith(start) for block in SHELL for words in block.commands())
