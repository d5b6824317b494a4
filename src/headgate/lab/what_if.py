"""What other policies would have come to in a run that was recorded: on the simulator, calibrated to that very run.

The load is what the engine counted, the job takes as long for its batches and start-ups as it was seen to. The policy
that acted is simulated, too: what differs between the rows is then the policy, and not the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.types import JSON, Observation, Sample
from headgate.lab.fidelity import Calibration, Recording, calibrate
from headgate.runtime.simulate import simulate
from headgate.runtime.summary import RunRecord, Summary
from headgate.workloads.steps import Steps


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy that acted, or was a shadow."""

    policy: str
    settings: Mapping[str, JSON]


def what_if(
    observations: Sequence[Observation],
    contenders: Sequence[Contender],
    objective: Objective,
    operator: str = "job",
    *,
    seed: int = 0,
) -> dict[str, Summary]:
    """The figures that each contender comes to under the recorded load, by its name.

    A run that tells too little of its load or its batches is an ``InputError``.
    """
    record = RunRecord(objective, operator)
    for observation in observations:
        record(observation, None)
    samples = [seen.samples[operator] for seen in observations if operator in seen.samples]
    load = recorded_load(samples)
    batches = [batch for sample in samples for batch in sample.batches]
    trigger_s = max((batch.trigger_interval_s for batch in batches), default=0.0)
    recording = Recording.of(record, load, trigger_interval_s=trigger_s)
    calibration = calibrate(recording)
    asked = objective.fitting(max(1, recording.start))
    return {
        one.policy: _simulated(one, load, asked, asked.clamp(recording.start), calibration, _interval_s(samples), seed)
        for one in contenders
    }


def recorded_load(samples: Sequence[Sample]) -> Steps:
    """What arrived between the readings of a run, in seconds from the first of them."""
    start_s = samples[0].at_s if samples else 0.0
    times_s, rates = [0.0], []
    for before, after in pairwise(samples):
        if after.at_s > before.at_s:
            came = 0.0 if before.arrived is None or after.arrived is None else float(after.arrived - before.arrived)
            times_s.append(after.at_s - start_s)
            # A counter that went back was started anew.
            rates.append(max(0.0, came) / (after.at_s - before.at_s))
    if not any(rates):
        raise InputError(f"{len(samples)} readings do not tell what arrived; two with a count are needed.")
    return Steps(times_s, rates, "recorded load")


def _interval_s(samples: Sequence[Sample]) -> float:
    """How often was looked, in the median: a journal may have been thinned."""
    spans_s = sorted(after.at_s - before.at_s for before, after in pairwise(samples) if after.at_s > before.at_s)
    return spans_s[len(spans_s) // 2]


def _simulated(
    contender: Contender,
    load: Steps,
    objective: Objective,
    start: int,
    calibration: Calibration,
    interval_s: float,
    seed: int,
) -> Summary:
    return simulate(
        contender.policy,
        load,
        objective=objective,
        settings=contender.settings,
        start=start,
        interval_s=interval_s,
        seconds=load.end_s,
        seed=seed,
        **calibration.options,
    ).summary
