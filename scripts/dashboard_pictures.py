"""Takes the pictures of docs/guides/dashboard.md: ``.venv/bin/python scripts/dashboard_pictures.py``.

It runs ``headgate serve --demo``, watches for some minutes, and needs chromium (apt-get install chromium).
Pictures have few colours, so that they stay small.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

PICTURES = Path(__file__).parent.parent / "docs" / "images" / "dashboard"
WATCHED_S = 380.0
"""Until the load has risen and fallen."""
COLOURS = 96
MOST_BYTES = 150_000
DESK = {"width": 1180, "height": 560}


def main() -> int:
    watched_s = float(sys.argv[1]) if len(sys.argv) > 1 else WATCHED_S
    PICTURES.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "headgate", "serve", "--demo", "--listen", "127.0.0.1:0"]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert service.stdout is not None
    try:
        url = _found(r"http://127\.0\.0\.1:\d+", service.stdout.readline())
        time.sleep(watched_s)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            _take(browser, url)
            browser.close()
    finally:
        service.terminate()
        service.wait()
    return 0


def _found(pattern: str, line: str) -> str:
    match = re.search(pattern, line)
    if match is None:
        raise SystemExit(f"the service said {line!r}; {pattern} was expected.")
    return match[0]


def _take(browser: Browser, url: str) -> None:
    page = browser.new_page(viewport=DESK)
    _open(page, url)
    _keep(page, "jobs")
    page.set_viewport_size({"width": 1180, "height": 1120})
    _open(page, f"{url}/jobs/orders?operator=enrich")
    _keep(page, "job")
    phone = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark", device_scale_factor=1.5)
    _open(phone, f"{url}/jobs/orders?operator=enrich")
    _keep(phone, "phone")


def _open(page: Page, url: str) -> None:
    page.goto(url)
    page.locator(".pulse[data-state=live]").wait_for()
    page.wait_for_timeout(1200)


def _keep(page: Page, name: str) -> None:
    taken = page.screenshot(animations="disabled")
    target = PICTURES / f"{name}.png"
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS).save(target, optimize=True)
    if target.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{target} has {target.stat().st_size} bytes; at most {MOST_BYTES} are wanted.")


if __name__ == "__main__":
    sys.exit(main())
