"""clock: do policies meet their objective on loads that come by the clock, and at what cost?"""

from __future__ import annotations

from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.research.promises.clock import CHOSEN_SEEDS, ClockMatrix, clock_details, clock_rows, run_clocks

SHORT = ClockMatrix(
    families=("flush", "hour", "onoff", "several", "tails", "swing"),
    seeds=CHOSEN_SEEDS,
    startups_s=(30.0,),
    policies=("autopilot",),
)
NOTES = (
    "latency p95 < 10s on the job of promises: a batch every 2 s, a decision every 10 s, readings like Spark's, 1 to 40"
    " instances. Loads: a burst every so many minutes (flush), at the top of the hour and its quarters (hour), on and "
    "off (onoff), two clocks at once (several), four days with fixed hours (daily), three weeks (week), heavy-tailed "
    "bursts at any time (tails), and work per record that swings (swing). Bursts come with jitter, are now and then "
    "missing, grow or shrink.",
    "met counts the runs whose share of late records is at or below the allowed 5 %, nothing forgiven; cost is in "
    "instance-seconds relative to a scaler that knows the load and has no late records. later_… are of the records and "
    "instances from the third period of the pattern on.",
    f"Constants may be chosen on the seeds {', '.join(map(str, CHOSEN_SEEDS))} (chosen); the others are held back.",
)


@scenario(
    "clock",
    "Loads that come by the clock, bursts and swings of work: objective and cost, also on held-back seeds (long).",
    resumes=True,
    takes_s=9000.0,
)
def run(progress: Progress) -> ScenarioOutcome:
    return _run(ClockMatrix(), progress)


@scenario(
    "clock-short",
    "The same for autopilot on the chosen seeds at a start-up of 30 s, a day each.",
    resumes=True,
    takes_s=180.0,
)
def run_short(progress: Progress) -> ScenarioOutcome:
    return _run(SHORT, progress)


def _run(matrix: ClockMatrix, progress: Progress) -> ScenarioOutcome:
    runs = run_clocks(matrix, progress)
    return ScenarioOutcome(clock_rows(runs), NOTES, details=clock_details(runs))
