"""headgate autoscale-flink"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import options
from headgate.cli.common import (
    Outputs,
    check_target,
    chosen_settings,
    duration_s,
    make_console,
    option,
    say,
    write_json,
)
from headgate.core.errors import InputError
from headgate.core.objective import DEFAULT_MAX_INSTANCES
from headgate.core.plugins import DEFAULT_POLICY

if TYPE_CHECKING:
    from headgate.core.objective import Objective
    from headgate.engines.flink import FlinkEngine
    from headgate.policies.frame.base import PolicyMaker
    from headgate.runtime.loop import SystemClock

LOOK_EVERY_S = 0.2


def autoscale_flink(  # noqa: PLR0913 - one parameter per option
    *,
    url: Annotated[str, option("URL", "Flink's REST address, which is that of its web page.")],
    job: Annotated[str, option("NAME", "The job by its name, or by its number.")],
    objective: Annotated[str, option("TEXT", "The objective to meet.")] = "latency p95 < 10s",
    policy: options.Policy = None,
    setting: options.Set = None,
    guard: options.Guard = None,
    settings: options.SettingsFile = None,
    rules: options.Rules = None,
    constraints: options.Constraints = None,
    fewest: Annotated[int, option("N", "The fewest instances of an operator.", "--min", min=1)] = 1,
    most: Annotated[int, option("N", "The most; Flink's own limits hold too.", "--max", min=1)] = DEFAULT_MAX_INSTANCES,
    price: Annotated[float | None, option("X", "What a slot costs for an hour, for limits on cost.", min=0)] = None,
    provider: Annotated[str, option("local|kubernetes|URL|none", "Who starts and stops TaskManagers.")] = "none",
    deployment: Annotated[str | None, option("NS/NAME", "On Kubernetes: the Deployment of TaskManagers.")] = None,
    standby: Annotated[int, option("N", "TaskManagers in hot standby, with a provider.", min=0)] = 0,
    interval: Annotated[str, option("DURATION", "Time between decisions.")] = "5s",
    seconds: Annotated[str | None, option("DURATION", "How long to go on; until Ctrl-C if not given.")] = None,
    recommend: Annotated[bool, typer.Option("--recommend", help="Decide and write down, and change nothing.")] = False,
    shadow: options.Shadow = None,
    journal: Annotated[Path | None, option("FILE", "Keeps what was seen, decided and learned.")] = None,
    metrics_port: Annotated[int | None, option("PORT", "Where Prometheus can read how the job fares.")] = None,
    seed: Annotated[int, option("K", "Makes decisions repeatable.", min=0)] = 0,
    json_file: options.Json = None,
) -> None:
    """Scale the vertices of a running Flink job to its objective, from outside.

    Nothing is needed in the job; the cluster needs [bold]jobmanager.scheduler: adaptive[/bold], but to recommend only.
    A change of sizes is one request and one restart for all vertices. When this ends the job goes on at its sizes.

    [bold]Examples[/bold]
      [cyan]headgate autoscale-flink --url http://127.0.0.1:8081 --job clicks --max 8 --journal clicks.sqlite[/cyan]
      [cyan]headgate autoscale-flink --url http://127.0.0.1:8081 --job clicks --policy ds2 --provider local[/cyan]
    """
    from headgate.cli.live_view import RunHeading, shown
    from headgate.cli.operators_view import OperatorsView
    from headgate.cli.progress import stopped_by_signals
    from headgate.runtime.autoscaler import autoscale_engine
    from headgate.runtime.loop import Mode, SystemClock

    check_target(json_file, journal=journal)
    goal = _goal(objective, fewest, most)
    decides, chosen, guards = chosen_settings(policy, settings, setting, guard)
    acting = _policy(decides, rules)
    interval_s = duration_s("--interval", interval)
    lasting_s = None if seconds is None else duration_s("--seconds", seconds)
    clock = SystemClock()
    engine = _opened(f"{url}#{job}", clock, goal, price, (provider, deployment, standby), acts=not recommend)
    console = make_console(stderr=json_file == "-")
    named = acting if isinstance(acting, str) else "rules"
    heading = RunHeading(
        f"headgate autoscale-flink {engine.job}", named, goal, lasting_s, "Ctrl-C stops; the job goes on"
    )
    view = OperatorsView(console, heading, engine.topology().operators, lambda: engine.end_to_end_s)
    with stopped_by_signals() as stop, shown(view):
        running = autoscale_engine(
            engine,
            objective=goal,
            policy=acting,
            job=engine.job,
            settings=chosen or None,
            guards=guards or None,
            constraints=constraints,
            interval=interval_s,
            journal=journal,
            shadows=shadow or (),
            mode=Mode.RECOMMEND if recommend else Mode.ACT,
            seed=seed,
            clock=clock,
            metrics_port=metrics_port,
            watchers=[view.tick],
            event_watchers=[view.event],
        )
        until_s = None if lasting_s is None else clock.now() + lasting_s
        while running.is_alive and not stop.wait(LOOK_EVERY_S) and (until_s is None or clock.now() < until_s):
            pass
        running.stop()
    with Outputs() as outputs:
        outputs.failed(running.loop.journal_fault)
        outputs.write(write_json, view.to_json(), json_file)
        view.print_result()
        if journal is not None:
            say(f"why: headgate explain {journal}", stderr=json_file == "-")


def _goal(objective: str, fewest: int, most: int) -> Objective:
    from headgate.core.objective import parse_objective

    if most < fewest:
        raise InputError(f"--max {most} is below --min {fewest}; it must be at least as large.")
    return parse_objective(objective).within(fewest, most)


def _policy(named: str | None, rules: Path | None) -> str | PolicyMaker:
    from headgate.policies.frame.base import policy_class

    if rules is None:
        return policy_class(named or DEFAULT_POLICY).name
    if named not in (None, "rules"):
        raise InputError(f"--policy {named} does not go with --rules {rules}; leave one of them out.")
    from headgate.rules.rules_policy import Rules

    return Rules.from_file(rules)


def _opened(
    target: str,
    clock: SystemClock,
    goal: Objective,
    price: float | None,
    provided: tuple[str, str | None, int],
    *,
    acts: bool,
) -> FlinkEngine:
    from headgate.engines.flink import FlinkEngine
    from headgate.engines.flink.task_managers import open_provider

    named, deployment, standby = provided
    return FlinkEngine(
        target,
        clock.now,
        fewest=goal.min_instances,
        most=goal.max_instances,
        price_per_slot_hour=goal.price_per_instance_hour if price is None else price,
        late_after_s=goal.late_after_s,
        provider=open_provider(named, target.partition("#")[0], deployment),
        standby=standby,
        acts=acts,
    )
