"""Whether anything is left of what a test started."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def starter(program: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that starts something, which the test then ends in its own way."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def all_gone(processes: list[psutil.Process]) -> bool:
    return not any(is_alive(process) for process in processes)


def is_alive(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)


def listens(host: str | None, port: int | None) -> bool:
    with socket.socket() as client:
        return client.connect_ex((host, port)) == 0
