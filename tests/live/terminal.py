"""A terminal in which commands are typed as a page prints them, watched, and stopped with Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from headgate.workloads.traces import VARIABLE, trace_folder
from tests.docs.blocks import INNER, ROOT, Typed
from tests.live.support import eventually
from tests.traces import have_traces

ROWS, COLUMNS = 30, 100
CTRL_C = b"\x03"
ESCAPED = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[()][A-Z0-9])")
"""What moves the cursor and sets colours."""
TAKES_THE_TERMINAL = "import os, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])"
"""What is typed at a terminal hears of Ctrl-C by it, with all that it has started."""
SERVERS = ("cluster", "flink", "kafka")


class Going:
    """A command at a terminal of its own."""

    def __init__(self, words: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.words = words
        self._screen, inside = os.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        begins = [sys.executable, "-c", TAKES_THE_TERMINAL, *words]
        self._process = subprocess.Popen(
            begins, stdin=inside, stdout=inside, stderr=inside, cwd=folder, env=dict(environment)
        )
        os.close(inside)
        self._printed = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # A terminal that nobody writes to any more cannot be read.
        with suppress(OSError):
            while more := os.read(self._screen, 4096):
                self._printed += more
        os.close(self._screen)

    @property
    def printed(self) -> str:
        """All that it has printed, without what moves the cursor."""
        return ESCAPED.sub("", self._printed.decode(errors="replace")).replace("\r\n", "\n")

    def shows(self, pattern: str) -> re.Match[str] | None:
        """What it has printed that a pattern fits."""
        return re.search(pattern, self.printed)

    def await_shown(self, pattern: str, within_s: float) -> None:
        def is_shown() -> bool:
            ended = self._process.poll()
            assert ended is None or self.shows(pattern), f"{self} ended with {ended}: {self.printed}"
            return self.shows(pattern) is not None

        try:
            eventually(f"{self} shows {pattern!r}", is_shown, within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it printed: {self.printed[-3000:]}") from error

    def stop(self, within_s: float = 60.0) -> int:
        """Press Ctrl-C, and wait for the exit code."""
        os.write(self._screen, CTRL_C)
        return self.end(within_s)

    def end(self, within_s: float) -> int:
        """Wait for the exit code; one that a signal has ended has that of a shell."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} goes on after {within_s:g} s: {self.printed[-3000:]}") from None
        self._reader.join(within_s)
        return code if code >= 0 else 128 - code

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __str__(self) -> str:
        return " ".join(self.words)


class Terminal:
    """A folder and an environment; ``replaced`` are the addresses of a page that are others here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.replaced: dict[str, str] = {}
        self.environment = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        programs = Path(sys.executable).parent
        self.environment |= {
            "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
            "TERM": "xterm",
            "XDG_STATE_HOME": str(folder / "state"),
            # What is to be installed is here already, and nothing is to be fetched.
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        if have_traces():
            self.environment[VARIABLE] = str(trace_folder().resolve())
        (folder / ".venv").symlink_to(programs.parent)
        (folder / "examples").symlink_to(ROOT / "examples")

    def words(self, typed: Typed) -> list[str]:
        """The command, with the output of the command inside of it and the addresses that hold here."""
        text = INNER.sub(lambda inner: self._done(Typed(inner[1])).stdout.strip(), typed.text)
        for printed, here in self.replaced.items():
            text = text.replace(printed, here)
        words = Typed(text).words
        return [str(self.folder / words[0]) if words[0].startswith(".venv/") else words[0], *words[1:]]

    def output(self, typed: Typed, *, within_s: float = 120.0) -> str:
        """Run a command to its end, without a terminal; all that it printed and did not write to a file."""
        done = self._done(typed, within_s)
        return done.stderr if typed.target is not None else done.stdout + done.stderr

    def _done(self, typed: Typed, within_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.words(typed),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=within_s,
        )
        reported = f"{typed.text}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, reported
        assert "Traceback" not in done.stderr, reported
        if typed.target is not None:
            (self.folder / typed.target).write_text(done.stdout)
        return done

    def start(self, typed: Typed) -> Going:
        return Going(self.words(typed), self.folder, self.environment)

    def close(self) -> None:
        """Stop what goes on after the commands that started it."""
        for server in SERVERS:
            if (self.folder / f"state/headgate/{server}.json").exists():
                self.output(Typed(f"headgate {server} down"))

    def processes(self) -> list[psutil.Process]:
        """What was started from here and is still there."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("XDG_STATE_HOME") == self.environment["XDG_STATE_HOME"]:
                    found.append(process)
        return found


@contextmanager
def terminal_in(folder: Path) -> Iterator[Terminal]:
    """A terminal that leaves nothing behind, and says so if a command did."""
    terminal = Terminal(folder)
    try:
        yield terminal
        terminal.close()
        eventually("nothing is left", lambda: not terminal.processes(), 30.0)
    finally:
        for process in terminal.processes():
            with suppress(psutil.Error):
                process.kill()
