"""The unit: systemd finds nothing wrong with it, and it is shut in well."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "headgate.service"
MOST_EXPOSED = 2.0
"""Of 10, as systemd-analyze rates what a unit could do if it were taken over."""

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze: apt-get install systemd"
)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there: systemd looks for it."""
    copy = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    copy.write_text(text.replace("/opt/headgate/bin/headgate", shutil.which("true") or "/bin/true"), encoding="utf-8")
    return copy


@needs_systemd
def test_systemd_finds_nothing_wrong(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    ours = [line for line in (done.stdout + done.stderr).splitlines() if unit.name in line]
    assert ours == []


@needs_systemd
def test_systemd_would_find_a_mistake(unit: Path) -> None:
    unit.write_text(unit.read_text(encoding="utf-8").replace("PrivateTmp=", "PrivatTmp="), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert "PrivatTmp" in done.stdout + done.stderr


@needs_systemd
def test_it_could_do_little_harm(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    rated = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert rated is not None, done.stdout + done.stderr
    assert float(rated[1]) <= MOST_EXPOSED
