"""How long it took until the objective was kept again, each time it was not.

A violation begins when the objective is violated and ends when it is kept again for a while (``CALM_S``); the calm
itself does not count. One that lasts at the end of the run counts with what it has lasted so far.

>>> from headgate.core.course import rows
>>> recovery(rows([(10, 40), (30, 60), (70, 80), (500, 510)], 2), 0.0, 600.0)
Recovery(violations=2, median_s=40.0, worst_s=70.0, is_violated_at_end=False)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.core.course import Rows

CALM_S = 60.0


@dataclass(frozen=True, slots=True)
class Recovery:
    violations: int
    median_s: float | None
    """``None`` where nothing was violated."""
    worst_s: float | None
    is_violated_at_end: bool


def recovery(violated: Rows, from_s: float, to_s: float, calm_s: float = CALM_S) -> Recovery:
    """From parts of the time (from, to) in which the objective was violated; they may overlap."""
    parts = np.clip(violated, from_s, to_s)
    parts = parts[parts[:, 1] > parts[:, 0]]
    if not len(parts):
        return Recovery(0, None, None, is_violated_at_end=False)
    parts = parts[np.argsort(parts[:, 0], kind="stable")]
    reached_s = np.maximum.accumulate(parts[:, 1])
    is_first = np.append(True, parts[1:, 0] - reached_s[:-1] > calm_s)
    begins_s = parts[is_first, 0]
    ends_s = reached_s[np.append(is_first[1:], True)]
    lasting_s = ends_s - begins_s
    return Recovery(
        len(lasting_s), float(np.median(lasting_s)), float(lasting_s.max()), is_violated_at_end=bool(ends_s[-1] >= to_s)
    )
