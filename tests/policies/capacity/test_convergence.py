"""When a throughput has settled: K of the last N readings within ±δ of the one before."""

from __future__ import annotations

import pytest

from headgate.policies.capacity.convergence import converged


@pytest.mark.parametrize(
    ("values", "agreeing"),
    [
        ([], None),
        ([100.0] * 4, None),
        # The first of all has none before it, so five in a row have four that agree.
        ([100.0] * 5, [100.0] * 4),
        ([100.0] * 6, [100.0] * 5),
        ([50.0, 100.0, 101.0, 99.0, 100.0], None),
        ([50.0, 100.0, 101.0, 99.0, 100.0, 102.0], [101.0, 99.0, 100.0, 102.0]),
        # One that is far off disagrees twice: it differs, and the next one differs from it.
        ([100.0, 100.0, 100.0, 50.0, 100.0, 100.0, 100.0], None),
        ([100.0, 100.0, 50.0, 100.0, 100.0, 100.0, 100.0, 100.0], [100.0] * 4),
        ([100.0, 105.0, 110.0, 115.0, 120.0], [105.0, 110.0, 115.0, 120.0]),
        ([100.0, 106.0, 112.0, 112.0, 112.0], None),
    ],
)
def test_a_throughput_has_settled_once_four_of_the_last_five_agree_with_the_one_before(
    values: list[float], agreeing: list[float] | None
) -> None:
    assert converged(values) == agreeing
