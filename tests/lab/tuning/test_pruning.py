"""Stopping trials before their end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.lab.tuning.pruning import PruningTerms, lost, worse_half
from headgate.lab.tuning.trial import Minimise, TrialRuns, TrialStatus, TuningTrial, chosen, pareto_front

RUNS, LEAST = 4, 1.0
SEEN = st.builds(
    TrialRuns,
    st.tuples(*[st.floats(LEAST, 5)] * RUNS),
    st.tuples(*[st.sampled_from([0.0, 1.0, 4.0, 6.0, 30.0])] * RUNS),
)


def terms(minimise: Minimise) -> PruningTerms:
    return PruningTerms(runs=RUNS, least_hours=LEAST, allowed_pct=5.0, minimise=minimise)


@given(st.lists(SEEN, min_size=2, max_size=6), st.sampled_from(list(Minimise)))
def test_what_is_surely_lost_is_never_what_would_be_chosen(table: list[TrialRuns], minimise: Minimise) -> None:
    trials = [TuningTrial(number, {}, seen, TrialStatus.DONE) for number, seen in enumerate(table)]
    best = {chosen(trials, 5.0).number}
    if minimise is Minimise.BOTH:
        best |= {trial.number for trial in pareto_front(trials, 5.0)}
    for number in best:
        others = [seen for place, seen in enumerate(table) if place != number]
        for runs in range(1, RUNS):
            assert lost(table[number].first(runs), others, terms(minimise)) is None


def test_a_trial_stops_when_it_cannot_win_any_more() -> None:
    best = TrialRuns((2.0,) * RUNS, (1.0,) * RUNS)
    assert lost(TrialRuns((9.0,), (1.0,)), [best], terms(Minimise.COST)) == "at least 12 instance-hours, beaten by 8"
    message = lost(TrialRuns((1.0,), (60.0,)), [best], terms(Minimise.COST))
    assert message == "at least 15 % missed, where 5 % are allowed"
    # Weighed against each other, one that misses somewhat more may still be of interest as it is cheap.
    assert lost(TrialRuns((1.0,), (60.0,)), [best], terms(Minimise.BOTH)) is None
    assert lost(TrialRuns((1.0,), (90.0,)), [best], terms(Minimise.BOTH)) is not None
    assert lost(TrialRuns((9.0,), (60.0,)), [], terms(Minimise.BOTH)) is None


@given(st.lists(SEEN, min_size=1, max_size=8), st.sampled_from(list(Minimise)))
def test_halving_keeps_one_that_is_best_on_every_part(table: list[TrialRuns], minimise: Minimise) -> None:
    best = TrialRuns((LEAST / 2,) * RUNS, (0.0,) * RUNS)
    default = TrialRuns((3.0,) * RUNS, (0.0,) * RUNS)
    stopped = worse_half([*table, best], default, terms(minimise))
    assert len(table) not in stopped
    assert len(stopped) == (len(table) + 1) // 2
