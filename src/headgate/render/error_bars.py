"""Error bars that end where what they stand for ends: nothing is below 0, and no share is above 100 %."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.types import JSON

ALL_PCT = 100.0


def error_bars(
    values: Sequence[float | None], half_widths: Sequence[float | None], most: float | None = None
) -> dict[str, JSON]:
    """Bars about values, as plotly takes them; ``most`` is the highest value that there can be.

    >>> error_bars([99.0, 2.0], [3.0, 5.0], ALL_PCT)
    {'type': 'data', 'symmetric': False, 'array': [1.0, 5.0], 'arrayminus': [3.0, 2.0]}
    """
    pairs = [(value or 0.0, width or 0.0) for value, width in zip(values, half_widths, strict=True)]
    above = [width if most is None else max(0.0, min(width, most - value)) for value, width in pairs]
    below = [max(0.0, min(width, value)) for value, width in pairs]
    return {"type": "data", "symmetric": False, "array": list(above), "arrayminus": list(below)}
