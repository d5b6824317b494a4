"""Long work of a command: its progress, the time left, and what Ctrl-C leaves behind."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, Timer
from types import FrameType

from headgate.core.units import format_duration
from headgate.runtime.interrupts import INTERRUPTED

PROGRESS_LINE_EVERY_S = 30.0


@contextmanager
def message_when_stopped(message: str | Callable[[], str]) -> Iterator[None]:
    """Print what remains of work that is interrupted: a text, or a function that returns it."""
    import typer

    from headgate.cli.common import say

    try:
        yield
    except KeyboardInterrupt:
        say(f"headgate: stopped; {message if isinstance(message, str) else message()}.", stderr=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that is set by the first signal to end; a second one interrupts whatever is going on."""
    from headgate.local.spark.interruption import SIGNALS

    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


AT_ONCE_S = 1.0
"""Progress reported this soon was made before, by a command that was interrupted and now continues."""
LEAST_SHARE = 0.1
"""At least this share of the expected duration is reported as left while the pace is unknown."""
_UNKNOWN = "–"


class TimeLeft:
    """Estimates from the pace since the work began; before there is one, from ``expected_s`` if given.

    >>> left = TimeLeft(now_s=0.0)
    >>> left.seconds(5.0)
    >>> left.done(0.25, 10.0)
    >>> left.seconds(10.0), left.seconds(12.0)
    (30.0, 28.0)
    >>> TimeLeft(now_s=0.0, expected_s=60.0).seconds(20.0)
    40.0
    >>> resumed = TimeLeft(now_s=0.0)
    >>> resumed.done(0.5, 0.1)
    >>> resumed.seconds(5.0)
    >>> resumed.done(0.75, 10.0)
    >>> round(resumed.seconds(10.0), 1)
    9.9
    """

    def __init__(self, now_s: float, expected_s: float | None = None) -> None:
        self._began_s = now_s
        self._expected_s = expected_s
        self._since: tuple[float, float] | None = None
        self._ends_s = None if expected_s is None else now_s + expected_s
        self._has_pace = False

    def begin(self, share: float, now_s: float) -> None:
        """Begin the work now, after its preparation; a share of it was done before.

        >>> left = TimeLeft(now_s=0.0, expected_s=60.0)
        >>> left.begin(0.5, 8.0)
        >>> left.seconds(8.0)
        30.0
        >>> left.done(0.75, 20.0)
        >>> left.seconds(20.0)
        12.0
        """
        self._since, self._has_pace = (share, now_s), False
        if self._expected_s is not None:
            self._ends_s = now_s + (1 - share) * self._expected_s

    def done(self, share: float, now_s: float) -> None:
        if self._since is None and now_s - self._began_s < AT_ONCE_S:
            self.begin(share, now_s)
        before, since_s = self._since = self._since or (0.0, self._began_s)
        # The expected duration is more reliable than the pace of the first moment.
        is_sure = self._has_pace or self._expected_s is None or now_s - since_s >= AT_ONCE_S
        if share > before and is_sure:
            self._ends_s = now_s + (1 - share) * (now_s - since_s) / (share - before)
            self._has_pace = True

    def seconds(self, now_s: float) -> float | None:
        """Return the time left; ``None`` while there is neither a pace nor an expected duration."""
        return None if self._ends_s is None else max(0.0, self._ends_s - now_s)

    def in_words(self, now_s: float) -> str:
        """Return the time left in words, with "about" before an estimate without a pace.

        >>> left = TimeLeft(now_s=0.0, expected_s=400.0)
        >>> left.in_words(1.0), left.in_words(1000.0)
        ('about 7m', 'about 40s')
        >>> left.done(0.25, 1000.0)
        >>> left.in_words(1000.0)
        '50m'
        """
        seconds = self.seconds(now_s)
        if seconds is None:
            return _UNKNOWN
        if self._has_pace or self._expected_s is None:
            return format_duration(round(seconds))
        return f"about {roughly(max(seconds, LEAST_SHARE * self._expected_s))}"


def roughly(seconds: float) -> str:
    """Round a duration to ten seconds, or to minutes from two minutes on.

    >>> roughly(3.0), roughly(44.0), roughly(400.0)
    ('10s', '40s', '7m')
    """
    step_s = 10 if seconds < 120 else 60
    return format_duration(max(step_s, round(seconds / step_s) * step_s))


@contextmanager
def progress_bar(
    description: str,
    *,
    after_s: float = 1.0,
    counted: int | None = None,
    word: str = "runs",
    expected_s: float | None = None,
) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the share done, 0 to 1.

    The bar appears on standard error once the work takes longer than ``after_s``, and is removed at the end. Where
    that is no terminal, there is a line every ``PROGRESS_LINE_EVERY_S`` instead. With ``counted`` units of work, called
    ``word``, it also shows how many are done. Until something is done, the time left is estimated from ``expected_s``.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    from headgate.cli.common import make_console, say

    class _TimeLeftColumn(ProgressColumn):
        """The time left; a dash while it is unknown."""

        def render(self, task: Task) -> Text:
            return Text(left.in_words(task.get_time()), style="progress.remaining")

    left = TimeLeft(time.monotonic(), expected_s)
    counts = [] if counted is None else [TextColumn("{task.fields[done]}")]
    times = (TimeElapsedColumn(), TextColumn("left"), _TimeLeftColumn())
    # The bar takes the remaining width; the columns after it are never cut.
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), TaskProgressColumn(), *times, *counts)
    bar = Progress(*columns, console=make_console(stderr=True), transient=True, expand=True)
    task = bar.add_task(description, total=1.0, done="")
    # The timer does not wait for the first share, which may take minutes.
    begin = Timer(after_s, bar.start)
    begin.daemon = True
    ended = Event()

    def print_lines() -> None:
        while not ended.wait(PROGRESS_LINE_EVERY_S):
            share, text = bar.tasks[task].completed, bar.tasks[task].fields["done"]
            done = f"{share:.0%}{text and f', {text}'}"
            say(f"{description}: {done}, left {left.in_words(time.monotonic())}", stderr=True)

    if bar.console.is_terminal:
        begin.start()
    else:
        Thread(target=print_lines, daemon=True).start()

    class _ProgressBar:
        def __call__(self, share: float, /) -> None:
            left.done(share, time.monotonic())
            self._show(share)

        def begin(self, share: float) -> None:
            """Start the clock now; ``share`` of the work was done earlier."""
            left.begin(share, time.monotonic())
            self._show(share)

        def _show(self, share: float) -> None:
            text = "" if counted is None else f"{round(share * counted):,} of {counted:,} {word}"
            bar.update(task, completed=share, done=text)

    try:
        yield _ProgressBar()
    finally:
        begin.cancel()
        ended.set()
        if bar.live.is_started:
            bar.stop()
