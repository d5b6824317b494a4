"""A real browser: one that the machine has, or playwright's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, sync_playwright


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    own = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=own, args=["--no-sandbox"])
        except Error:
            if own:
                raise
            pytest.skip(
                "no browser on this machine: apt-get install chromium, or .venv/bin/playwright install chromium"
            )
        yield browser
        browser.close()
