"""Estimates how long work will still take, from its pace so far or from an expected duration."""

from __future__ import annotations

from rich.progress import ProgressColumn, Task
from rich.text import Text

from headgate.core.units import format_duration

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


class TimeLeftColumn(ProgressColumn):
    """The time left behind a progress bar; a dash while it is unknown."""

    def __init__(self, left: TimeLeft) -> None:
        super().__init__()
        self._left = left

    def render(self, task: Task) -> Text:
        return Text(self._left.in_words(task.get_time()), style="progress.remaining")
