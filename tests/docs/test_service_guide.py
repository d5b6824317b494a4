"""Every command of the guide to the service is run, in its order, against a service with the guide's own file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.app import app
from headgate.service.config import read_config
from headgate.service.serving import serving
from tests.docs.blocks import Typed, blocks

GUIDE = [block for block in blocks() if block.page == "docs/guides/service.md"]
FILE = next(block for block in GUIDE if block.language == "yaml")
EXAMPLE = next(block for block in GUIDE if block.language == "python")
BY_OTHER_MEANS = ("pip install 'headgate[service]'", "headgate serve headgate.yaml")
"""What is installed already, and what the test itself starts."""


def test_the_commands_of_the_guide_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("headgate.yaml").write_text(FILE.text)
    config = read_config(Path("headgate.yaml"))
    lines = [typed for block in GUIDE if block.language == "sh" for typed in block.typed()]
    assert len(lines) > 15
    with serving(replace(config, port=0)) as url:
        monkeypatch.setenv("HEADGATE_SERVICE", url)
        for typed in lines:
            if typed.text not in BY_OTHER_MEANS:
                run(typed)
        exec(compile(EXAMPLE.text.replace("http://127.0.0.1:8420", url), "guide", "exec"), {})  # noqa: S102 - our own
    assert "clicks waiting" in capsys.readouterr().out


def run(typed: Typed) -> None:
    result = CliRunner().invoke(app, typed.words[1:], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, f"{typed.text}: {result.output}"
    if typed.target is not None:
        Path(typed.target).write_text(result.stdout)
