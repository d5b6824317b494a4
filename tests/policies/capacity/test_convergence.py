"""When a throughput has settled: K of the last N readings within ±δ."""

from __future__ import annotations

import pytest

from headgate.policies.capacity.convergence import converged


@pytest.mark.parametrize(
    ("values", "agreeing"),
    [
        ([], None),
        ([100.0] * 4, None),
        ([100.0] * 5, [100.0] * 5),
        ([50.0, 100.0, 101.0, 99.0, 100.0], [100.0, 101.0, 99.0, 100.0]),
        ([50.0, 60.0, 100.0, 100.0, 100.0], None),
        ([1.0, 2.0, 95.0, 100.0, 105.0, 100.0, 100.0], [95.0, 100.0, 105.0, 100.0, 100.0]),
        ([94.0, 100.0, 106.0, 100.0, 100.0], None),
    ],
)
def test_a_throughput_has_settled_once_four_of_the_last_five_agree(
    values: list[float], agreeing: list[float] | None
) -> None:
    assert converged(values) == agreeing
