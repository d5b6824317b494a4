"""The package of the guide: it is what the guide shows, it can be installed, and its policy is found and runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.testing import check_forecaster

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples/half_full"
GUIDE = (ROOT / "docs/guides/own-policy.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("language", "file"), [("python", "half_full.py"), ("toml", "pyproject.toml")])
def test_the_guide_shows_the_package(language: str, file: str) -> None:
    shown = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)[0]
    assert shown == (PACKAGE / file).read_text(encoding="utf-8")


def test_its_policy_is_found_where_the_package_is_installed(tmp_path: Path) -> None:
    # Built where it leaves nothing behind; what builds it is installed already.
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, *install, "--target", str(tmp_path), str(PACKAGE)], check=True, timeout=100)
    found = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    # That such a policy keeps the contract is proved where the guide for contributors is (test_docs.py).
    used = (
        "from typer.testing import CliRunner\nfrom headgate.cli.app import app\n"
        "command = ['simulate', '--policy', 'half-full', '--set', 'target=0.7', '--workload', 'constant:50', "
        "'--service-rate', '10', '--seconds', '10m']\n"
        "for arguments in (['policies', 'show', 'half-full'], command):\n"
        "    done = CliRunner().invoke(app, arguments)\n"
        "    assert done.exit_code == 0, done.output\n"
        "    print(done.output)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", used],
        env=os.environ | {"PYTHONPATH": found},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "The busy share to aim for." in done.stdout
    assert "% busy: " in done.stdout


def test_its_forecaster_keeps_the_contract() -> None:
    shown = next(text for text in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if "class LastValue" in text)
    made: dict[str, Any] = {}
    exec(shown, made)  # noqa: S102 - our own documentation
    last_value = made["LastValue"]
    check_forecaster(lambda: last_value(last_value.Settings()))
