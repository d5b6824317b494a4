"""The engine of twenty lines, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from headgate.local.machine import LOOPBACK, free_ports

EXAMPLE = Path(__file__).parents[2] / "examples/twenty_lines_engine.py"
STARTS_WITHIN_S = 120.0


@contextmanager
def running_example() -> Iterator[str]:
    """Gives where it answers."""
    (port,) = free_ports(1)
    url = f"http://{LOOPBACK}:{port}"
    process = subprocess.Popen([sys.executable, str(EXAMPLE), str(port)])
    try:
        until_s = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                httpx.get(f"{url}/observe")
                break
            except httpx.TransportError:
                assert process.poll() is None, "the example ended"
                assert time.monotonic() < until_s, "the example does not answer"
                time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait()
