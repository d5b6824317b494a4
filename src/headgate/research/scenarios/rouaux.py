"""rouaux-5.2.2 … rouaux-5.2.7: scaling rules on simulated streams, beside what the document tells of its own runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.core.types import JSON
from headgate.lab.scenario import Outcome, Progress, scenario
from headgate.research.rouaux import (
    BOTTLENECK,
    FIRST,
    FIRST_PEAK_S,
    LONG_PEAKS,
    MORE_CAPACITY,
    OPERATOR,
    RELUCTANT,
    SAMPLING_S,
    SCALE_OUT,
    SECOND,
    SHORT_PEAKS,
    Experiment,
    Played,
)

NOTES = (
    "The document runs SEEP on a cluster and tells what its charts show; the charts are not in the text. Here "
    "operators are queues of exactly the document's rates, instances are ready at once, and readings come every "
    f"{SAMPLING_S:g} s as in the document. Its queue length is the metric backlog.",
    "The rules are the document's own, behind all guards. A trigger holds when all readings say so over its whole time "
    "threshold, so an action follows a queue that passed its bound by that time and up to one more reading.",
)


@scenario("rouaux-5.2.2", "λ 10, μ 5: a long queue gets one more instance, and grows no further.")
def scale_out(progress: Progress) -> Outcome:
    played = SCALE_OUT.play()
    rows = [
        *_growth(played, SCALE_OUT, "1 → 2 at about 92"),
        _row("queue when scaled, records", _queue_when_scaled(played), "not printed; 5/s × 92 s = 460"),
        _row("queue at the end, records", _at_end(played), "as long as when scaled"),
    ]
    return _outcome(played, SCALE_OUT, rows, progress)


@scenario("rouaux-5.2.3", "λ 10, μ 5: a long queue gets two more instances, and is emptied.")
def more_capacity(progress: Progress) -> Outcome:
    played = MORE_CAPACITY.play()
    rows = [
        *_growth(played, MORE_CAPACITY, "1 → 3 at around 90"),
        _row("queue empty again, s", _emptied_s(played), "not printed; emptied progressively"),
        _row("queue at the end, records", _at_end(played), "0"),
    ]
    return _outcome(played, MORE_CAPACITY, rows, progress)


@scenario("rouaux-5.2.4", "Two operators under the same rule: only the one that is too slow is scaled.")
def bottleneck(progress: Progress) -> Outcome:
    played = BOTTLENECK.play()
    rows = [
        _row("changes of operator 1 (μ 20)", _told(played, FIRST), "none"),
        _row("longest queue of operator 1, records", _longest(played, FIRST), "not printed"),
        _row("changes of operator 2 (μ 5), s", _told(played, SECOND), "1 → 3 at approximately 90"),
        _row("queue of operator 2 empty again, s", _emptied_s(played, SECOND), "eventually"),
    ]
    return _outcome(played, BOTTLENECK, rows, progress)


@scenario("rouaux-5.2.5", "Peaks of 20 against μ 10 that are too short for a patient rule: nothing is scaled.")
def short_peaks(progress: Progress) -> Outcome:
    played = SHORT_PEAKS.play()
    rows = [
        _row("queue after the first peak of 5 s, records", played.backlog(35.0), "50"),
        _row("longest queue, records", _longest(played), "not printed; never above 10,000"),
        _row("changes", _told(played), "none"),
    ]
    notes = (
        "The lengths of the peaks, 5 to 25 s, are ours but for the first: the document draws them. At the base rate "
        "arrivals equal what is served, so what a peak left behind waits until the end.",
    )
    return _outcome(played, SHORT_PEAKS, rows, progress, notes)


@scenario("rouaux-5.2.6", "Peaks of 20 s every minute: out in each of them, and in again when the queue is empty.")
def long_peaks(progress: Progress) -> Outcome:
    played = LONG_PEAKS.play()
    rows = [*_first_peak(played, LONG_PEAKS), _row("changes, s", _told(played), "1 → 3 in a peak, 3 → 1 after it")]
    notes = (
        "The document says that the operator is scaled roughly 10 s into a peak, when the queue passes 100; by its own "
        "rule this must hold for 5 s more. It also speaks of no scale-out during the last 60 s before a scale-in, "
        "which the printed rule does not ask for; with it, the operator would still be large when the next peak comes.",
    )
    return _outcome(played, LONG_PEAKS, rows, progress, notes)


@scenario("rouaux-5.2.7", "The same with five minutes of hysteresis: the size stays, and meets the next peaks.")
def reluctant(progress: Progress) -> Outcome:
    played = RELUCTANT.play()
    (out_s, _, _), (in_s, _, _), *_ = played.changes()
    between = [backlog for at_s, backlog in played.queue() if _emptied_s(played) <= at_s <= in_s]
    rows = [
        *_first_peak(played, RELUCTANT),
        _row("held at 3 instances for, s", in_s - out_s, "no scale-in while the guard time of 300 lasts"),
        _row("longest queue in the peaks meanwhile, records", max(between), "not printed"),
        _row("changes, s", _told(played), "1 → 3 once"),
    ]
    notes = (
        "The document tells of no scale-in at all, so its run seems to end before the five minutes are over. This one "
        "goes on, and shrinks when they are.",
    )
    return _outcome(played, RELUCTANT, rows, progress, notes)


def _growth(played: Played, experiment: Experiment, change: str) -> list[dict[str, JSON]]:
    at_s = next(at_s for at_s, backlog in played.queue() if backlog >= experiment.threshold)
    return [
        _row(f"queue reaches {experiment.threshold:g}, s", at_s, "approximately 60"),
        _row("changes, s", _told(played), change),
    ]


def _first_peak(played: Played, experiment: Experiment) -> list[dict[str, JSON]]:
    (out_s, before, after), *_ = played.changes()
    passed_s = next(at_s for at_s, backlog in played.queue() if backlog >= experiment.threshold)
    return [
        _row("queue reaches 100, s into the first peak", passed_s - FIRST_PEAK_S, "roughly 10"),
        _row(f"{before} → {after}, s into the first peak", out_s - FIRST_PEAK_S, "1 → 3 at this time"),
        _row("queue empty again, s into the first peak", _emptied_s(played) - FIRST_PEAK_S, "cleared progressively"),
    ]


def _told(played: Played, operator: str = OPERATOR) -> str:
    changes = [f"{before} → {after} at {at_s:g}" for at_s, before, after in played.changes(operator)]
    return ", ".join(changes) or "none"


def _queue_when_scaled(played: Played) -> float:
    return played.backlog(played.changes()[0][0])


def _emptied_s(played: Played, operator: str = OPERATOR) -> float:
    """When the queue is first seen empty after the operator was scaled."""
    scaled_s = played.changes(operator)[0][0]
    return next(at_s for at_s, backlog in played.queue(operator) if at_s > scaled_s and backlog == 0)


def _longest(played: Played, operator: str = OPERATOR) -> float:
    return max(backlog for _, backlog in played.queue(operator))


def _at_end(played: Played) -> float:
    return played.queue()[-1][1]


def _row(what: str, value: JSON, document: str) -> dict[str, JSON]:
    return {"what": what, "value": value, "document": document}


def _outcome(
    played: Played,
    experiment: Experiment,
    rows: Sequence[Mapping[str, JSON]],
    progress: Progress,
    notes: Sequence[str] = (),
) -> Outcome:
    progress(1.0)
    return Outcome(rows, (*NOTES, *notes), played.plots(experiment.threshold))
