"""The processes of a pipeline: each is started again when it ends by itself, a little later each time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import EngineError
from headgate.journal.codec import to_json
from headgate.local.plan import last_line

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
PROVED_AFTER_S = 60.0
"""A process that ran for so long was well; when it ends, counting begins anew."""
MOST_FAILURES = 5
"""So often in a row a process may end by itself, before it is given up."""
STOP_WITHIN_S = 20.0


@dataclass(frozen=True)
class Ended:
    """A process that ended by itself, and when it is started again."""

    name: str
    why: str
    again_after_s: float


class Child:
    """One process, with a log of its own. ``plan`` is given to it as a file that only its owner can read."""

    def __init__(self, name: str, module: str, plan: Mapping[str, object], directory: Path) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self._module = module
        self._plan = directory / f"{name}.json"
        with os.fdopen(os.open(self._plan, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(to_json(plan))
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._again_s: float | None = None
        self._failures = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def failures(self) -> int:
        """How often in a row it ended by itself."""
        return self._failures

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(self._plan)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # A Ctrl-C in the terminal is for whoever runs the pipeline, who then ends the others in order.
                start_new_session=True,
            )
        self._started_s, self._again_s = time.monotonic(), None

    def look(self) -> Ended | None:
        """See whether it is still there; what ended is started again when its pause is over."""
        now_s = time.monotonic()
        if self._again_s is not None:
            if now_s >= self._again_s:
                self.start()
            return None
        if self._process is None or (code := self._process.poll()) is None:
            return None
        self._end_group()
        self._let_go()
        self._failures = 1 if now_s - self._started_s > PROVED_AFTER_S else self._failures + 1
        why = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        if self._failures > MOST_FAILURES:
            raise EngineError(f"{self.name} {why} {self._failures} times in a row: {last_line(self.log)}")
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (self._failures - 1))
        self._again_s = now_s + pause_s
        return Ended(self.name, why, pause_s)

    def tell_to_stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """End it, and all that it has started; twice is fine."""
        process, self._again_s = self._process, None
        if process is None:
            return
        self.tell_to_stop()
        with suppress(subprocess.TimeoutExpired):
            process.wait(within_s)
        self._end_group()
        process.wait()
        self._let_go()

    def _let_go(self) -> None:
        """Give up what was kept of a process that has ended."""
        assert self._process is not None
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def _end_group(self) -> None:
        """What the process has started goes with it: a JVM may outlive its Python."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


class Children:
    """All processes of a pipeline; they are stopped with the block, those that were started last first."""

    def __init__(self, tell: Callable[[Ended], None]) -> None:
        self._tell = tell
        self._children: dict[str, Child] = {}

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children.values())

    def __getitem__(self, name: str) -> Child:
        return self._children[name]

    def start(self, child: Child) -> None:
        self._children[child.name] = child
        child.start()

    def look(self) -> None:
        """Start again what has ended by itself, and tell of it."""
        for child in self:
            if (ended := child.look()) is not None:
                self._tell(ended)

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """Each may take so long to end in order, all at once; then it is killed."""
        until_s = time.monotonic() + within_s
        for child in reversed(list(self)):
            child.tell_to_stop()
        for child in reversed(list(self)):
            child.stop(max(0.0, until_s - time.monotonic()))
