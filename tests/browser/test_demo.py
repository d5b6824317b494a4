"""``headgate serve --demo``: one command, a page, and jobs that are scaled while one looks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

TO_SCALE_MS = 120_000


@pytest.fixture
def demo() -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "headgate", "serve", "--demo", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"})
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None
        yield process, found[0]
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.timeout(600)
def test_one_command_shows_a_pipeline_that_is_scaled_live(
    browser: Browser, demo: tuple[subprocess.Popen[str], str]
) -> None:
    process, url = demo
    page = browser.new_page()
    page.set_default_timeout(TO_SCALE_MS)
    page.goto(url)
    expect(page.get_by_role("note")).to_contain_text("simulated")
    expect(page.get_by_role("note")).to_contain_text("without Spark")
    page.get_by_role("link", name="orders").click()
    expect(page.locator("a.node")).to_have_count(4)
    # Nobody reloads the page: it finds out by itself that more instances are wanted, and that they came.
    expect(page.locator(".story .change.out").first).to_be_visible(timeout=TO_SCALE_MS)
    expect(page.locator(".story")).to_contain_text("ready after", timeout=TO_SCALE_MS)
    page.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
