"""How long work will still take, told from the first part of it that is done, or from what is expected of it."""

from __future__ import annotations

from rich.progress import ProgressColumn, Task
from rich.text import Text

from headgate.core.units import format_duration

AT_ONCE_S = 1.0
"""What is told as done so soon was done before: by a command that goes on where another was stopped."""


class TimeLeft:
    """Reckons with the pace since the work began; before that with ``expected_s``, where it is known.

    >>> left = TimeLeft(now_s=0.0)
    >>> left.seconds(5.0)
    >>> left.done(0.25, 10.0)
    >>> left.seconds(10.0), left.seconds(12.0)
    (30.0, 28.0)
    >>> TimeLeft(now_s=0.0, expected_s=60.0).seconds(20.0)
    40.0
    >>> goes_on = TimeLeft(now_s=0.0)
    >>> goes_on.done(0.5, 0.1)
    >>> goes_on.seconds(5.0)
    >>> goes_on.done(0.75, 10.0)
    >>> round(goes_on.seconds(10.0), 1)
    9.9
    """

    def __init__(self, now_s: float, expected_s: float | None = None) -> None:
        self._began_s = now_s
        self._since: tuple[float, float] | None = None
        self._ends_s = None if expected_s is None else now_s + expected_s

    def done(self, share: float, now_s: float) -> None:
        if self._since is None:
            self._since = (share, now_s) if now_s - self._began_s < AT_ONCE_S else (0.0, self._began_s)
        before, since_s = self._since
        if share > before:
            self._ends_s = now_s + (1 - share) * (now_s - since_s) / (share - before)

    def seconds(self, now_s: float) -> float | None:
        """``None`` as long as nothing is done, and nothing was expected."""
        return None if self._ends_s is None else max(0.0, self._ends_s - now_s)


class TimeLeftColumn(ProgressColumn):
    """The time left behind a bar; a dash as long as it is not known."""

    def __init__(self, left: TimeLeft) -> None:
        super().__init__()
        self._left = left

    def render(self, task: Task) -> Text:
        seconds = self._left.seconds(task.get_time())
        return Text("–" if seconds is None else format_duration(round(seconds)), style="progress.remaining")
