"""Takes the pictures of docs/guides/dashboard.md and of the report of docs/tutorials/savings.md.

``.venv/bin/python scripts/page_pictures.py`` runs the command of the tutorial and ``headgate serve --demo``, which it
watches for some minutes. It needs chromium (apt-get install chromium). Pictures have few colours, so that they stay
small.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

DOCS = Path(__file__).parent.parent / "docs"
PICTURES = DOCS / "images" / "dashboard"
REPORT = DOCS / "images" / "report.png"
TUTORIAL = DOCS / "tutorials" / "savings.md"
REPORTED = re.compile(r"^headgate (simulate .*?--report )day\.html$", re.DOTALL | re.MULTILINE)
"""The command of the tutorial that writes a report."""
WATCHED_S = 380.0
"""Until the load has risen and fallen."""
COLOURS = 96
MOST_BYTES = 150_000
DESK = {"width": 1180, "height": 560}


def main() -> int:
    watched_s = float(sys.argv[1]) if len(sys.argv) > 1 else WATCHED_S
    PICTURES.mkdir(parents=True, exist_ok=True)
    take_report()
    command = [sys.executable, "-m", "headgate", "serve", "--demo", "--listen", "127.0.0.1:0"]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert service.stdout is not None
    try:
        url = _found(r"http://127\.0\.0\.1:\d+", service.stdout.readline())
        time.sleep(watched_s)
        with _browser() as browser:
            take_dashboard(browser, url)
    finally:
        service.terminate()
        service.wait()
    return 0


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


def take_report() -> None:
    """Take the beginning of the report that the tutorial's command writes."""
    command = REPORTED.search(TUTORIAL.read_text(encoding="utf-8"))
    if command is None:
        raise SystemExit(f"{TUTORIAL} has no command that writes day.html.")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "day.html"
        subprocess.run([sys.executable, "-m", "headgate", *shlex.split(command[1]), str(file)], check=True)
        shoot_report(file)


def shoot_report(file: Path) -> None:
    with _browser() as browser:
        page = browser.new_page(viewport={"width": 1180, "height": 1040})
        page.goto(file.as_uri())
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        _keep(page, REPORT)


def _found(pattern: str, line: str) -> str:
    match = re.search(pattern, line)
    if match is None:
        raise SystemExit(f"the service said {line!r}; {pattern} was expected.")
    return match[0]


def take_dashboard(browser: Browser, url: str) -> None:
    page = browser.new_page(viewport=DESK)
    _open(page, url)
    _keep(page, PICTURES / "jobs.png")
    page.set_viewport_size({"width": 1180, "height": 1120})
    _open(page, f"{url}/jobs/orders?operator=enrich")
    _keep(page, PICTURES / "job.png")
    phone = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark", device_scale_factor=1.5)
    _open(phone, f"{url}/jobs/orders?operator=enrich")
    _keep(phone, PICTURES / "phone.png")


def _open(page: Page, url: str) -> None:
    page.goto(url)
    page.locator(".pulse[data-state=live]").wait_for()
    page.wait_for_timeout(1200)


def _keep(page: Page, target: Path) -> None:
    taken = page.screenshot(animations="disabled")
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS).save(target, optimize=True)
    if target.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{target} has {target.stat().st_size} bytes; at most {MOST_BYTES} are wanted.")


if __name__ == "__main__":
    sys.exit(main())
