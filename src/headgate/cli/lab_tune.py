"""headgate lab tune: settings of a policy that suit a load."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.text import Text

from headgate.cli import options
from headgate.cli.common import (
    Outputs,
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
from headgate.core.units import parse_share

if TYPE_CHECKING:
    from enum import StrEnum

    from headgate.lab.tuning.plan import TunePlan
    from headgate.lab.tuning.tune import TuningResult

E = TypeVar("E", bound="StrEnum")


def tune(  # noqa: PLR0913 - one parameter per option
    *,
    workload: Annotated[str, option("SPEC", "What arrives, as for headgate simulate.")],
    service_rate: Annotated[
        str,
        option(
            "RATE|MODEL|APP|FILE",
            "Records per second that one instance processes; or a service model, a measured application, "
            "or a model file of headgate mst.",
        ),
    ],
    policy: Annotated[str, option("NAME", "Whose settings.")] = DEFAULT_POLICY,
    objective: Annotated[str, option("TEXT", "The objective to meet, as for headgate simulate.")] = "latency p95 < 10s",
    seconds: Annotated[
        str | None, option("DURATION", "How much of the load is used.", show_default="all of a load with an end")
    ] = None,
    held_back: Annotated[str, option("SHARE", "The last part of the load, which the search does not see.")] = "30%",
    validate: Annotated[str | None, option("SPEC", "Another load to be held back instead.")] = None,
    parts: Annotated[int, option("N", "Parts that the search's load is cut into.", min=1)] = 4,
    seeds: Annotated[int, option("N", "Runs of each part, with other noise.", min=1)] = 3,
    only: Annotated[
        list[str] | None, option("NAME", "Search this setting; may be repeated.", show_default="all that can be")
    ] = None,
    fix: Annotated[list[str] | None, option("NAME=VALUE", "Keep a setting at a value; may be repeated.")] = None,
    ranges: Annotated[list[str] | None, option("NAME=LOW..HIGH", "Search a setting there.", "--range")] = None,
    guards: Annotated[bool, typer.Option("--guards", help="Search the settings of the guards too.")] = False,
    trials: Annotated[int, option("N", "Settings that are tried.", min=1)] = 64,
    search: Annotated[str, option("optuna|recursive-random", "How they are chosen.")] = "optuna",
    minimise: Annotated[
        str | None,
        option(
            "both|cost",
            "Cost and what is missed, weighed against each other; or the cost of what keeps the objective.",
            show_default="both; cost with recursive-random",
        ),
    ] = None,
    prune: Annotated[
        str,
        option(
            "sure|half|no", "Stop trials early that cannot win any more; or the worse half after each part; or none."
        ),
    ] = "sure",
    price: options.Price = None,
    min_instances: options.Min = None,
    max_instances: options.Max = None,
    startup: Annotated[str | None, option("DURATION", "Time until a new instance can work.", show_default="0s")] = None,
    interval: Annotated[str, option("DURATION", "Time between two decisions.")] = "5s",
    model: Annotated[str | None, option("queue|micro-batch", "How the job works.", show_default="queue")] = None,
    readings: options.Readings = "spark",
    seed: Annotated[int, option("K", "Makes the search repeatable.", min=0)] = 0,
    master: Annotated[str, option("URL", "A Spark cluster to spread the runs over.")] = "local[*]",
    out: Annotated[
        Path | None, option("DIR", "Gets everything; one that was stopped goes on.", show_default="a new one in lab")
    ] = None,
    report: options.Report = None,
    json_file: options.Json = None,
) -> None:
    """Find settings of a policy that suit a load, and say how sure the gain is on load the search did not see.

    Writes settings.yaml into the folder, for autoscale(settings=…), headgate simulate --settings and app run.

    [bold]Examples[/bold]
      [cyan]headgate lab tune --policy hpa --workload "sine:mean=60,amplitude=40,period=1h | noise 20%" \\
        --service-rate 10 --startup 30s --seconds 12h[/cyan]
      [cyan]headgate lab tune --policy q-learning --workload csv:load.csv --service-rate 10 \\
        --only learning_factor --range decision_interval_s=30s..5m --search recursive-random[/cyan]
    """
    from headgate.core.objective import objective_to_data
    from headgate.lab.experiments.run_case import ObjectivePart
    from headgate.lab.tuning.folder import TuneFolder, tuned_to_json
    from headgate.lab.tuning.on_spark import expected_s, run_tuning
    from headgate.lab.tuning.plan import TunePlan, files_of, job_of, offered, stretches
    from headgate.lab.tuning.pruning import Prune
    from headgate.lab.tuning.report import write_tuning_report
    from headgate.lab.tuning.search import SEARCHES
    from headgate.lab.tuning.space import search_space
    from headgate.lab.tuning.trial import Minimise
    from headgate.runtime.model_file import SETTING as MODEL_FILE
    from headgate.runtime.objective_file import text_or_file

    if search not in SEARCHES:
        raise UnknownNameError("search", search, SEARCHES)
    home = Path()
    fixed = key_values("--fix", fix or [])
    space = search_space(policy, guards=guards, only=only or (), fix=fixed, ranges=key_values("--range", ranges or []))
    goal = options.bounded_objective(text_or_file(objective).priced(price), min_instances, max_instances)
    job = job_of(service_rate, startup, model, readings, home)
    lasting_s = None if seconds is None else duration_s("--seconds", seconds)
    load = offered(workload, lasting_s, home)
    other = None if validate is None else offered(validate, lasting_s, home)
    training, later = stretches(load, other, goal, job, parts=parts, held_back=parse_share(held_back))
    follows = "both" if search == "optuna" else "cost"
    plan = TunePlan(
        space=space,
        workload=workload,
        training=training,
        held_back=later,
        job=job,
        objective_part=ObjectivePart(str(goal), objective_to_data(goal)),
        seeds=tuple(range(seeds)),
        interval_s=duration_s("--interval", interval),
        search=search,
        minimise=_one_of("--minimise", minimise or follows, Minimise),
        prune=_one_of("--prune", prune, Prune),
        trials=trials,
        seed=seed,
        files=files_of(
            [workload, *([] if validate is None else [validate])],
            [service_rate, *([fixed[MODEL_FILE]] if MODEL_FILE in fixed else [])],
            home,
        ),
    )
    _require(plan, report)
    folder = out or new_folder(f"tune-{policy}")
    prepare_folder("--out", folder)
    message = f"finished runs are saved, and the same command with --out {folder} continues"
    about_s = expected_s(plan, os.cpu_count() or 1)
    with (
        message_when_stopped(message),
        progress_bar(f"tuning {policy}", counted=trials, word="trials", expected_s=about_s) as progress,
    ):
        tuned = run_tuning(
            plan, TuneFolder(folder), home, master, progress, lambda sentence: say(sentence, stderr=True)
        )
    with Outputs() as outputs:
        if report is not None:
            outputs.write(write_tuning_report, report, tuned)
        outputs.write(write_json, tuned_to_json(tuned), json_file)
        if json_file != "-":
            print_tuned(tuned, folder)


def new_folder(name: str) -> Path:
    """Return a new folder each time, with the name and the time of day."""
    return Path("lab") / f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"


def _require(plan: TunePlan, report: Path | None) -> None:
    """Report every missing package before any work is done."""
    from headgate.lab.experiments.results import require_spark
    from headgate.render.page import report_packages

    plan.check({})
    if plan.search != "optuna" and plan.minimise == "both":
        raise InputError(f"--minimise both does not go with --search {plan.search}, which follows one number: cost.")
    searching = ("optuna",) if plan.search == "optuna" else ()
    require("tuning", "pyspark", *searching, *(() if report is None else report_packages()))
    require_spark()


def print_tuned(tuned: TuningResult, folder: Path) -> None:
    """Print the default next to the undominated candidates, the chosen one and its gain."""
    from headgate.lab.tuning.report import front_rows, notes_on

    console = make_console()
    print_table(front_rows(tuned), console)
    first, *others = notes_on(tuned)
    console.print(Text(f"\n{first}", style="bold"))
    for note in others:
        console.print(Text(note, style="dim"))
    say(f"\n{folder / 'settings.yaml'} has what is recommended; headgate simulate --settings takes it.")


def _one_of(option: str, given: str, kind: type[E]) -> E:
    try:
        return kind(given)
    except ValueError:
        raise InputError(f"{option} {given!r} is not allowed; it must be one of {', '.join(kind)}.") from None
