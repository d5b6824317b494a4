"""By how much the batches of a recorded job took longer or shorter than the calibrated job says.

A machine that had other things to do, records that were heavier for a while: what held up a batch and has nothing to do
with the size of the job would have held it up at any size. So a job that is simulated to learn what another size would
have come to is held up by as much, at the same times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from headgate.core.objective import Objective
from headgate.core.types import Batch
from headgate.lab.cold_starts import without_first_tasks
from headgate.lab.fidelity import Calibration, Recording, replay_course
from headgate.simulation.batch_work import make_work

_ROUNDS = 30
_CLOSE_S = 0.001


def as_it_happened(recording: Recording, calibration: Calibration, objective: Objective) -> Calibration:
    """The same job, held up whenever the recorded one was, also by instances that were new; nothing is left to chance.

    With the recorded sizes it must come to what was recorded.
    """
    plain = replace(calibration, model=replace(calibration.model, cold_factor=1.0, cold_task_s=0.0, noise=0.0))
    off_s = tuple((start_s, by_s) for _, start_s, by_s in _offsets(recording, plain, objective))
    return replace(plain, model=replace(plain.model, off_s=off_s))


def as_held_up(recording: Recording, calibration: Calibration, objective: Objective) -> Calibration:
    """The same job, held up when the recorded one was, but not by instances that were new: those of another policy are
    new at other times, and cost what they usually do."""
    others = without_first_tasks(recording.startups, recording.batches, recording.seen_within_s)
    typical = {id(one) for one in others if not one.warming}
    off_s = tuple(
        (start_s, by_s) for batch, start_s, by_s in _offsets(recording, calibration, objective) if id(batch) in typical
    )
    return replace(calibration, model=replace(calibration.model, off_s=off_s, noise=0.0))


def _offsets(
    recording: Recording, calibration: Calibration, objective: Objective
) -> Iterator[tuple[Batch, float, float]]:
    """Each batch, from when on one that starts is taken for it, and by how many seconds it was off.

    That is half a trigger interval before it started: a batch of the simulated job that starts a little earlier than
    the recorded one is the same.

    What comes of instances that joined or left during a batch is no part of what it was off by.
    """
    course, _ = replay_course(recording, calibration, objective)
    model, cores = calibration.model, calibration.model.cores
    warm = replace(model, cold_task_s=0.0)
    turns = [(float(row[0]), int(row[2])) for row in course.sizes]
    for batch in sorted((one for one in recording.batches if one.records > 0), key=lambda one: one.started_s):
        start_s = max(0.0, batch.started_s)
        work_s = batch.records * cores / calibration.times.rate_per_s + (model.partitions or 0) * model.task_overhead_s
        slots = [(at_s, ready * cores) for at_s, ready in turns if start_s < at_s < batch.ended_s]
        first = _ready(turns, start_s) * cores
        by_s, left_s = 0.0, math.inf
        for _ in range(_ROUNDS):
            work = make_work(warm, start_s, work_s, first, held_up_s=max(0.0, by_s))
            for at_s, there in slots:
                if at_s < work.end_s:
                    work.resize(at_s, there, 0.0)
            left_s = batch.ended_s - work.end_s
            by_s += left_s if math.isfinite(left_s) else 0.0
            # What holds up a batch may last until more instances are there for it: then it is held up for longer.
            if by_s <= 0 or not slots or abs(left_s) < _CLOSE_S:
                break
        if math.isfinite(left_s):
            yield batch, max(0.0, start_s - recording.trigger_interval_s / 2), by_s


def _ready(turns: list[tuple[float, int]], at_s: float) -> int:
    return next((ready for since_s, ready in reversed(turns) if since_s <= at_s), turns[0][1] if turns else 0)
