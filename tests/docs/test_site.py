"""The documentation is a site without a warning, a broken link, or a request to another host."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"[^>]*>")
IMPORTED = re.compile(r"(?:@import|url\()[\s\"']*(?:https?:)?//")


def test_the_site_is_built_strictly_has_every_page_and_needs_no_other_host(tmp_path: Path) -> None:
    """One test, as the site is built once: processes that share the tests would each build their own."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=290)
    assert done.returncode == 0, done.stdout + done.stderr
    every_page_is_in_it(tmp_path)
    it_needs_no_other_host(tmp_path)
    the_reference_tells_of_what_users_call(tmp_path)


def every_page_is_in_it(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = "index" if page.stem == "README" else page.stem
        built = (site / page.relative_to(ROOT / "docs")).with_name(f"{name}.html")
        assert built.is_file(), f"{page.relative_to(ROOT)} is not in the site"


def it_needs_no_other_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        found = ELSEWHERE.findall(page.read_text(encoding="utf-8"))
        assert not found, f"{page.relative_to(site)}: {found}"
    for style in site.rglob("*.css"):
        assert not IMPORTED.search(style.read_text(encoding="utf-8")), style.relative_to(site)


def the_reference_tells_of_what_users_call(site: Path) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    for name in ("autoscale", "run", "join", "Objective", "simulate", "AutopilotSettings", "check_policy"):
        assert f"{name}</" in text, f"the reference has no {name}"
    assert "scale_in_window_s" in text
