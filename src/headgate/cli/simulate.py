"""headgate simulate"""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from headgate.cli import options
from headgate.cli.common import Outputs, check_target, chosen_settings, duration_s, make_console, option, write_json
from headgate.cli.progress import message_when_stopped, progress_bar
from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.units import format_duration, parse_date_s

if TYPE_CHECKING:
    from headgate.render.verdict import FixedSizes
    from headgate.runtime.simulate import SimulationResult

RULES = "rules"


def simulate(  # noqa: PLR0913 - one parameter per option
    *,
    workload: Annotated[str, option("SPEC", "What arrives: a shape with its parameters, a file or trace:NAME.")],
    service_rate: Annotated[
        str,
        option(
            "RATE|MODEL|APP|FILE",
            "Records per second that one instance processes; or a service model, a measured application, "
            "or a model file of headgate mst, by which several may add up to less.",
        ),
    ],
    seconds: Annotated[
        str | None,
        option(
            "DURATION",
            "How long the run is, in simulated time.",
            show_default="as long as what was recorded; all other loads need it",
        ),
    ] = None,
    policy: options.Policy = None,
    rules: options.Rules = None,
    constraints: options.Constraints = None,
    setting: options.Set = None,
    guard: options.Guard = None,
    settings: options.SettingsFile = None,
    objective: Annotated[
        str,
        option(
            "TEXT",
            "'latency p95 < 10s per 6h', 'slow records < 5%' or 'throughput >= 95%', each with ', cost < 12 per "
            "day' where that matters; or a YAML file with the objective.",
        ),
    ] = "latency p95 < 10s",
    price: options.Price = None,
    min_instances: options.Min = None,
    max_instances: options.Max = None,
    start: Annotated[int | None, option("N", "Instances at the start; the minimum where not given.")] = None,
    startup: Annotated[
        str | None, option("DURATION", "Time until a new instance can work.", show_default="0s; or as the model says")
    ] = None,
    startup_spread: Annotated[
        float, option("SIGMA", "How much start-up times differ: the deviation of their logarithm.")
    ] = 0.0,
    drain: Annotated[str, option("DURATION", "Time until an instance that has nothing more to do is gone.")] = "0s",
    interval: Annotated[
        str | None,
        option("DURATION", "Time between two decisions.", show_default="5s; longer in runs of more than a day"),
    ] = None,
    starts_at: Annotated[
        str | None,
        option("DATE", "The date of the start, such as '2026-11-20 06:00', for what goes by the calendar; UTC."),
    ] = None,
    model: Annotated[
        str | None,
        option(
            "MODEL",
            "How the job works: queue or micro-batch.",
            show_default="queue; micro-batch with a service model or a model file",
        ),
    ] = None,
    readings: options.Readings = "spark",
    seed: Annotated[int, option("K", "Makes noise and randomness repeatable.", min=0)] = 0,
    shadow: options.Shadow = None,
    mode: Annotated[str, option("MODE", "act, or recommend: everything is decided, and nothing is changed.")] = "act",
    journal: Annotated[Path | None, option("FILE", "Keep everything in a journal, for headgate explain.")] = None,
    state: Annotated[
        Path | None, option("FILE", "Begin with what the policy has learned: a snapshot or a journal.")
    ] = None,
    save_state: Annotated[Path | None, option("FILE", "Keep what the policy has learned, as a snapshot.")] = None,
    report: options.Report = None,
    json_file: options.Json = None,
) -> None:
    """Run a policy on a simulated job and show the results.

    The job is called [bold]job[/bold]. Its load is one of
      constant:10
      periodic:base=10,peak=20,high=20s,low=40s
      sine:mean=50,amplitude=30,period=1h
      gaussian:base=0,peak=100,center=30m,sigma=8m
      ramp:from=10,to=100,over=10m
      spike:base=10,peak=70,at=300s,width=300s
      csv:PATH or parquet:PATH, with columns timestamp and count or rate; also csv:PATH,time=ts,count=n,repair=yes
      levels:PATH, with lines of seconds, level
      trace:NAME, a public trace; also trace:wc98,peak=500,from=2h,lasting=10m
      several of them: "csv:load.csv * 3 + spike:base=0,peak=70,at=2h,width=5m | clip 0..500 | shift 1h | noise 10%"

    The throughput of several instances is given by --service-rate:
      10, so many times as much as one
      saturating:rate=10,contention=0.05, or retrograde:rate=10,contention=0.03,coherency=0.02; each also with
      pause=30s, skew=20% and startup=60s

    [bold]Examples[/bold]
      [cyan]headgate simulate --workload constant:25 --service-rate 10 --seconds 10m[/cyan]
      [cyan]headgate simulate --policy threshold --set upper=0.9 --startup 30s \\
        --workload sine:mean=50,amplitude=30,period=1h --service-rate 10 \\
        --seconds 2h --report run.html[/cyan]
      [cyan]headgate simulate --rules rules.yaml --workload constant:10 --service-rate 5 --seconds 10m[/cyan]
    """
    from headgate.journal.writer import SqliteJournal
    from headgate.render.page import require_plotly
    from headgate.rules import Rules
    from headgate.runtime.objective_file import text_or_file
    from headgate.runtime.past import read_state
    from headgate.runtime.simulate import simulate as run_simulation
    from headgate.runtime.simulate import usual_interval_s
    from headgate.workloads import parse_workload
    from headgate.workloads.composed import ends_early, notes_of

    check_target(json_file, journal=journal)
    check_target(report, journal=journal)
    check_target(save_state, journal=journal)
    if report is not None:
        require_plotly()
    if rules is not None and policy is not None:
        raise InputError(f"--policy {policy} and --rules {rules} do not go together; one of them decides.")
    goal = options.bounded_objective(text_or_file(objective).priced(price), min_instances, max_instances)
    offered = parse_workload(workload)
    lasting_s = options.run_seconds(seconds, offered)
    job: dict[str, Any] = {
        "startup_s": 0.0 if startup is None else duration_s("--startup", startup),
        **options.service_rate_options(service_rate, model, startup, goal.max_instances),
        "readings": readings,
        "startup_spread": startup_spread,
        "drain_s": duration_s("--drain", drain),
        "interval_s": usual_interval_s(lasting_s) if interval is None else duration_s("--interval", interval),
        "seconds": lasting_s,
        "seed": seed,
    }
    if rules is not None and settings is not None:
        raise InputError(f"--settings {settings} and --rules {rules} do not go together; one of them decides.")
    named, chosen, guards = chosen_settings(policy, settings, setting, guard)
    decides = Rules.from_file(rules) if rules is not None else named or DEFAULT_POLICY
    if decides == RULES and not chosen:
        raise InputError("--policy rules has no rules to go by; give a rule file with --rules FILE.")
    learned = None if state is None else read_state(state, decides if isinstance(decides, str) else RULES)
    with (
        message_when_stopped(options.stop_message(journal)),
        options.naming_state_file(state),
        nullcontext(None) if journal is None else closing(SqliteJournal(journal)) as open_journal,
        progress_bar("Simulating") as progress,
    ):
        result = run_simulation(
            decides,
            offered,
            objective=goal,
            settings=chosen,
            guards=guards,
            constraints=constraints,
            start=goal.min_instances if start is None else start,
            state=learned,
            shadows=shadow or (),
            mode=mode,
            journal=open_journal,
            progress=progress,
            starts_at_s=0.0 if starts_at is None else parse_date_s(starts_at),
            **job,
        )
    from headgate.render.verdict import judge_run

    with message_when_stopped(options.stop_message(journal)), Outputs() as outputs:
        fixed = _fixed_sizes(goal, offered, job)
        outputs.failed(result.journal_fault)
        if save_state is not None:
            outputs.write(write_json, result.state, str(save_state))
        if report is not None and not outputs.write(
            _write_report, report, result, goal, offered.describe(), fixed, journal
        ):
            report = None
        verdict = judge_run(
            result.observations, result.decisions, goal, result.summary, fixed=fixed, journal=str(journal or "")
        )
        if json_file is None or not outputs.write(
            write_json, result.to_json() | {"verdict": verdict.to_json()}, json_file
        ):
            notes = [*notes_of(offered), *ends_early(offered, job["seconds"])]
            if interval is None and job["interval_s"] > usual_interval_s(0.0):
                every = format_duration(job["interval_s"])
                notes.append(f"A decision every {every}, because the run is long; --interval sets another.")
            _print(result, goal, fixed, report, journal, notes)


def _fixed_sizes(objective: Objective, workload: Any, job: dict[str, Any]) -> FixedSizes:
    """Simulate the same load on sizes that never change."""
    from headgate.render.verdict import FixedSizes
    from headgate.runtime.simulate import fixed_size_comparison

    with progress_bar("Comparing with fixed sizes") as progress:
        same = {name: job[name] for name in ("service_rate_per_s", "model", "seed")}
        found = fixed_size_comparison(workload, job["seconds"], objective=objective, progress=progress, **same)
    return FixedSizes(found)


def _write_report(
    path: Path, result: SimulationResult, objective: Objective, workload: str, fixed: FixedSizes, journal: Path | None
) -> None:
    from headgate.render.report import write_report

    run = result.run
    seen = f", seen as {run['readings']}" if run["readings"] else ""
    write_report(
        path,
        title=f"{run['policy']} on a simulated job",
        observations=result.observations,
        decisions=result.decisions,
        objective=objective,
        summary=result.summary,
        fixed=fixed,
        journal="" if journal is None else str(journal),
        notes=[
            f"Load: {workload}; one instance processes {run['service_rate_per_s']:g} records/s "
            f"and takes {format_duration(run['startup_s'])} to start.",
            f"Model: {run['model']}{seen}, {run['min_instances']} to {run['max_instances']} instances, "
            f"a decision every {format_duration(run['interval_s'])}, seed {run['seed']}.",
            "Figures are of what truly happened; plots are of what was read.",
        ],
    )


def _print(
    result: SimulationResult,
    objective: Objective,
    fixed: FixedSizes,
    report: Path | None,
    journal: Path | None,
    notes: list[str],
) -> None:
    from headgate.cli.explain import print_run
    from headgate.journal.findings import story_in_words

    console = make_console()
    run = result.run
    text = f" on {run['workload']} for {format_duration(run['seconds'])}, objective {objective}\n"
    console.print(Text.assemble((str(run["policy"]), "bold cyan"), text))
    for note in notes:
        console.print(Text(note, style="dim"), soft_wrap=True)
    print_run(result.record, float(str(run["seconds"])), console, fixed, str(journal or ""))
    for name, story in result.shadows.items():
        console.print(Text(f"\nShadow {story_in_words(name, story)}."))
    if report is not None:
        console.print(Text(f"\nreport: {report}", style="dim"), soft_wrap=True)
    if journal is not None:
        console.print(Text(f"\nwhy: headgate explain {journal}", style="dim"), soft_wrap=True)
