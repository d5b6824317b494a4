"""The container file: what it copies is there, what it installs exists, and it does not run as root."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "deploy" / "container" / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()


def words(instruction: str) -> list[str]:
    return [line.removeprefix(instruction).strip() for line in LINES if line.startswith(f"{instruction} ")]


def test_what_is_copied_is_there() -> None:
    sources = [word for line in words("COPY") if not line.startswith("--from") for word in line.split()[:-1]]
    assert sources
    assert [name for name in sources if not (ROOT / name).exists()] == []


def test_the_extras_that_are_installed_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {extra for found in re.findall(r"\[([\w,]+)\]\"", "\n".join(LINES)) for extra in found.split(",")}
    assert extras == {"service", "metrics", "learning"}
    assert extras <= project["optional-dependencies"].keys()


def test_it_does_not_run_as_root_and_says_whether_it_lives() -> None:
    assert words("USER") == ["10001:10001"]
    assert len(words("HEALTHCHECK")) == 1
    assert words("ENTRYPOINT") == ['["headgate"]']
