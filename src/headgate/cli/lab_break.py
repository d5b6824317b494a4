"""headgate lab break: the load and the job on which a policy breaks its objective or pays most."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from headgate.cli import options
from headgate.cli.common import (
    duration_s,
    key_values,
    make_console,
    option,
    prepare_folder,
    print_table,
    say,
    write_json,
)
from headgate.cli.progress import message_when_stopped, progress_bar
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.extras import require
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.types import JSON

MOST_MINUTES = 24 * 60.0


def break_policy(  # noqa: PLR0913 - one parameter per option
    *,
    policy: Annotated[str, option("NAME", "Which policy; also one of your own, by its entry point.")] = DEFAULT_POLICY,
    objective: Annotated[
        str, option("TEXT", "The objective that it shall miss, as for headgate simulate.")
    ] = "latency p95 < 10s",
    minutes: Annotated[float, option("M", "How long to search.", min=0.01)] = 5.0,
    trials: Annotated[
        int | None, option("N", "At most so many cases are drawn.", min=1, show_default="as the time allows")
    ] = None,
    seek: Annotated[
        str, option("both|late|cost", "Late records, cost, or broken objectives first and then cost.")
    ] = "both",
    seed: Annotated[int, option("K", "Makes the search repeatable; the same command goes on.", min=0)] = 0,
    cases: Annotated[int, option("N", "How many of the worst cases are reported.", min=1)] = 3,
    longest: Annotated[str, option("DURATION", "The longest case, in simulated time.")] = "1h",
    rivals: Annotated[
        list[str] | None,
        option(
            "NAME",
            "A policy to compare with where the objective is broken; may be repeated.",
            "--rival",
            show_default="hpa, reactive, trigger-ratio",
        ),
    ] = None,
    settings: options.Set = None,
    min_instances: options.Min = None,
    max_instances: Annotated[int | None, option("N", "Never more instances.", "--max", show_default="20")] = None,
    interval: Annotated[str, option("DURATION", "Time between two decisions.")] = "5s",
    processes: Annotated[
        int | None, option("N", "Processes that run cases.", min=1, show_default="one per core")
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "Gets a file for each case.", show_default="break-POLICY in this folder")
    ] = None,
    json_file: options.Json = None,
) -> None:
    """Search for the load and the job on which a policy breaks its objective, or pays most over the clairvoyant.

    Cases that nobody could meet do not count. The worst are made as small as they can be, and written as experiment
    files that headgate lab run runs, the smallest first.

    [bold]Examples[/bold]
      [cyan]headgate lab break --policy hpa --minutes 2[/cyan]
      [cyan]headgate lab break --policy my-policy --objective "latency p99 < 30s" --seek late --minutes 30[/cyan]
    """
    from headgate.core.objective import Objective
    from headgate.lab.adversary.grammar import AttackedPolicy
    from headgate.lab.adversary.hunt import HuntPlan, Seek, found_rows, hunt, judging, write_cases
    from headgate.lab.adversary.judge import RIVALS
    from headgate.lab.tuning.search import require_optuna
    from headgate.policies.frame.base import policy_class
    from headgate.runtime.objective_file import text_or_file

    require("the search", "optuna")
    require_optuna()
    if seek not in list(Seek):
        raise UnknownNameError("--seek", seek, [str(kind) for kind in Seek])
    goal: Objective = text_or_file(objective)
    if goal.cost is not None or goal.operators:
        raise InputError(f"objective {str(goal)!r} is not possible here; one of a single job without a cost limit is.")
    goal = options.bounded_objective(goal, min_instances, 20 if max_instances is None else max_instances)
    longest_minutes = duration_s("--longest", longest) / 60
    if not 20 <= longest_minutes <= MOST_MINUTES:
        raise InputError(f"--longest {longest} is not allowed; 20m to 24h are.")
    attacked = AttackedPolicy(
        policy_class(policy).name,
        goal,
        key_values("--set", settings or []),
        seed,
        duration_s("--interval", interval),
        longest_minutes,
    )
    others = RIVALS if rivals is None else tuple(policy_class(rival).name for rival in rivals)
    plan = HuntPlan(attacked, Seek(seek), 60 * minutes, trials, cases, others)
    folder = out or Path(f"break-{attacked.policy}")
    prepare_folder("--out", folder)
    with (
        message_when_stopped("what was tried is saved, and the same command continues"),
        progress_bar(f"breaking {attacked.policy}", expected_s=60 * minutes) as progress,
        judging(attacked, processes or os.cpu_count() or 1) as judge_all,
    ):
        result = hunt(plan, judge_all, progress)
    if result.failed == result.tried and result.error is not None:
        raise InputError(f"{attacked.policy} fails on every case: {result.error}")
    files = write_cases(folder, result, plan)
    if json_file is not None:
        write_json({**result.to_json(plan), "files": [str(file) for file in files]}, json_file)
    if json_file != "-":
        _print(attacked.policy, found_rows(result, plan, files), result.tried, folder)
        if result.error is not None:
            say(f"{result.failed} cases failed: {result.error}", stderr=True)


def _print(policy: str, rows: Sequence[Mapping[str, JSON]], tried: int, folder: Path) -> None:
    if not rows:
        say(f"nothing was found against {policy} in {tried} cases; search longer, or with another --seed.")
        return
    print_table(rows, make_console())
    smallest = folder / str(rows[0]["file"])
    say(f"\n{tried} cases tried; the files are in {folder}. Run the smallest with: headgate lab run {smallest}")
