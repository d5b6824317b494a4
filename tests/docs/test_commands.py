"""Every command of the documentation that needs neither a cluster nor a broker is run, page by page in its order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.app import app
from headgate.cli.common import with_json_target
from tests.docs.blocks import LEFT_OUT, ROOT, Block, blocks

SHELL = [block for block in blocks() if block.language in ("sh", "console")]
ELSEWHERE = {
    "agent": "tests/cli/test_agent.py",
    "app run": "tests/live/test_applications.py",
    "autoscale-flink": "tests/cli/test_autoscale_flink.py",
    "cluster": "tests/live/test_start.py",
    "doctor": "tests/cli/test_doctor.py",
    "flink": "tests/local/test_flink.py",
    "history": "tests/docs/test_service_guide.py",
    "kafka": "tests/live/test_kafka.py",
    "lab results": "tests/cli/test_lab.py",
    "lab run": "tests/live/test_experiments.py",
    "lab tune": "tests/live/test_tuning.py",
    "load": "tests/live/test_load.py",
    "mst": "tests/live/test_mst.py",
    "pause": "tests/docs/test_service_guide.py",
    "pipeline run": "tests/live/test_pipeline.py",
    "policies show half-full": "tests/docs/test_own_policy.py",
    "resume": "tests/docs/test_service_guide.py",
    "serve": "tests/docs/test_service_guide.py",
    "set": "tests/docs/test_service_guide.py",
    "simulate --policy half-full": "tests/docs/test_own_policy.py",
    "simulate --settings lab/tune-hpa/settings.yaml": "tests/live/test_tuning.py",
    "status": "tests/docs/test_service_guide.py",
    "token": "tests/docs/test_service_guide.py",
}
"""What needs a cluster, a broker, a service or a package, by how it begins, and the test that runs the like of it."""
MISSING = {"--workload": "constant:20", "--service-rate": "10", "--seconds": "10m"}
"""What stands for the dots in a simulation that is not shown in full."""


def commands(page: str) -> list[list[str]]:
    """The commands of a page that are run here."""
    found = []
    for block in SHELL:
        if block.page == page:
            found += [words[1:] for words in block.commands() if words[0].removeprefix(".venv/bin/") == "headgate"]
    return [words for words in found if not any(" ".join(words).startswith(start) for start in ELSEWHERE)]


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


def test_what_is_run_elsewhere_is_run_there() -> None:
    for place in ELSEWHERE.values():
        assert (ROOT / place).is_file(), place


def is_shown(start: str, block: Block) -> bool:
    return any(" ".join(words[1:]).startswith(start) for words in block.commands())


@pytest.mark.parametrize("start", ELSEWHERE)
def test_what_is_said_to_be_run_elsewhere_is_shown(start: str) -> None:
    assert any(is_shown(start, block) for block in SHELL)
