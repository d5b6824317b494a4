"""What settings are worth on load that was held back, in words."""

from __future__ import annotations

import pytest

from headgate.lab.tuning.trial import TrialRuns
from headgate.lab.tuning.tune import judged

SIX = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05)


def seen(hours: float, missed_pct: float, spread: float = 1.0) -> TrialRuns:
    return TrialRuns(
        tuple(hours + spread * extra for extra in SIX), tuple(missed_pct + spread * extra for extra in SIX)
    )


@pytest.mark.parametrize(
    ("found", "default", "takes", "message"),
    [
        (seen(4, 1, 2), seen(5, 1), True, "cheaper and keeps the objective"),
        (seen(4, 9), seen(5, 1), False, "cheaper, but misses 9.02 % of load held back"),
        (seen(4, 8), seen(5, 9), True, "neither keeps the objective there, and it misses no more"),
        (seen(6, 1), seen(5, 9), True, "keeps the objective, which the default does not keep, though it costs more"),
        (seen(6, 0), seen(5, 1), False, "what was found costs more"),
        (seen(5, 1), seen(5, 1), False, "no difference is seen"),
        (seen(5, 1, 9), seen(5.2, 1, 1), False, "no difference is seen"),
    ],
)
def test_the_verdict_says_what_to_take_and_why(found: TrialRuns, default: TrialRuns, takes: bool, message: str) -> None:
    verdict = judged(found, default, 2, 5.0)
    assert verdict.takes_found is takes
    assert message in verdict.sentence
    assert verdict.sentence.startswith("Take what was found" if takes else "The default stays")
    assert len(verdict.lines()) == 2


def test_seeds_that_change_nothing_count_once() -> None:
    found, default = TrialRuns((4.0, 4.0, 3.0, 3.0), (0.0,) * 4), TrialRuns((5.0, 5.0, 5.0, 5.0), (0.0,) * 4)
    hours = judged(found, default, 2, 5.0).hours
    assert hours is not None
    assert (hours.pairs, hours.mean) == (2, -1.5)
