"""Ctrl-C for a program that drives Spark, without a broken driver behind it.

An exception raised in the middle of a call into the JVM leaves the connection with half an answer on it, and the next
call, such as that to stop the session, never returns. So nothing is raised there: a signal ends the JVM instead, the
call fails by itself, and ``KeyboardInterrupt`` is raised after everything has been closed in order.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Turns the signals that ask a program to end into one orderly ``KeyboardInterrupt``."""

    def __init__(self) -> None:
        self._driver_pid: int | None = None
        self._happened = False
        self._stderr: tuple[int, TextIO] | None = None

    @property
    def happened(self) -> bool:
        """Whether a signal has ended a session; what fails after that fails because of it."""
        return self._happened

    @contextmanager
    def watched(self) -> Iterator[Interruption]:
        """Handle the signals inside the block; only the main thread can."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self._install()
        try:
            yield self
        except Exception as error:
            # Whatever failed, failed because the JVM was ended under it.
            if self._happened:
                raise KeyboardInterrupt from error
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if self._stderr is not None:
                saved, sys.stderr = self._stderr
                os.dup2(saved, 2)
                os.close(saved)
        if self._happened:
            raise KeyboardInterrupt

    @contextmanager
    def ends(self, spark: SparkSession) -> Iterator[None]:
        """Inside the block a signal ends this session's JVM; after it, the session is stopped."""
        gateway = spark.sparkContext._gateway
        self._driver_pid = gateway.proc.pid if gateway is not None else None
        self._install()  # Again: a new session puts a handler of its own in place.
        try:
            yield
        finally:
            if self._happened:
                with suppress(Exception):  # It is gone; this only tidies up what Python keeps of it.
                    spark.stop()
            else:
                spark.stop()
            self._driver_pid = None

    def _install(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._driver_pid is None:
            raise KeyboardInterrupt
        is_first, self._happened = not self._happened, True  # Before anything can fail because of it.
        if is_first:
            # PySpark's own threads report errors of the ended JVM, which are of no use.
            # A live view may have replaced Python's stream.
            self._stderr = os.dup(2), sys.stderr
            nowhere = Path(os.devnull).open("w")  # noqa: SIM115 - it is the stream until the end
            os.dup2(nowhere.fileno(), 2)
            sys.stderr = nowhere
        with suppress(ProcessLookupError):
            # A second signal ends it by force.
            os.kill(self._driver_pid, signal.SIGTERM if is_first else signal.SIGKILL)
