"""headgate replay"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from headgate.cli import options
from headgate.cli.common import Outputs, check_target, duration_s, make_console, option, print_table, write_json
from headgate.cli.progress import message_when_stopped, progress_bar
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import Objective
from headgate.core.types import Decision, Observation
from headgate.core.units import format_duration

if TYPE_CHECKING:
    from headgate.lab.journal_replay import JournalReplay
    from headgate.lab.what_if import CandidatePolicy
    from headgate.render.explanation import JournalRun

DEFAULT_POLICIES = ("autopilot", "hpa", "reactive")
"""What is compared with the policy that acted where nobody says what."""


def replay(  # noqa: PLR0913 - one parameter per option
    journal: options.Journal,
    *,
    policy: Annotated[
        list[str] | None,
        option(
            "NAME",
            "A policy that might have decided; may be repeated.",
            show_default="the one that acted, autopilot, hpa, reactive",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, option("POLICY.KEY=VALUE", "A setting of a policy; may be repeated.", "--set")
    ] = None,
    objective: Annotated[
        str | None, option("TEXT", "The objective, as text or a YAML file.", show_default="as the run was")
    ] = None,
    price: options.Price = None,
    begin: Annotated[
        str | None, option("WHEN", "Only from then on: 2h after the start, or 2024-05-01T14:00.", "--from")
    ] = None,
    end: Annotated[str | None, option("WHEN", "Only until then.", "--to")] = None,
    operator: Annotated[str | None, option("NAME", "Which operator, in a run of several.")] = None,
    run: options.Run = None,
    job: options.JobOfJournal = None,
    seed: Annotated[int, option("K", "Makes randomness repeatable.", min=0)] = 0,
    report: options.Report = None,
    json_file: options.Json = None,
) -> None:
    """Estimate what another policy would have done with a job whose run is in a journal.

    A simulated job is calibrated to the run: how long batches and start-ups take, and what held batches up. It is shown
    first how close it comes to what really happened, then what each policy comes to under the same load. What was
    measured and what is simulated stay apart.

    [bold]Examples[/bold]
      [cyan]headgate replay run.sqlite[/cyan]
      [cyan]headgate replay run.sqlite --policy autopilot --policy hpa --set hpa.target=0.6[/cyan]
      [cyan]headgate replay run.sqlite --from 2h --to 4h --price 0.25 --report replay.html[/cyan]
    """
    from headgate.journal.writer import SqliteJournal
    from headgate.lab.journal_replay import replay_journal
    from headgate.lab.replay_report import write_replay_report
    from headgate.render.explanation import objective_of, pick_run
    from headgate.render.page import require_plotly
    from headgate.runtime.objective_file import text_or_file

    check_target(json_file, journal=journal)
    check_target(report, journal=journal)
    if report is not None:
        require_plotly()
    with (
        message_when_stopped("nothing is saved"),
        closing(SqliteJournal.read(journal)) as reader,
        progress_bar("Reading") as progress,
    ):
        picked = pick_run(reader, run, job)
        observations = reader.observations(run=picked.number)
        progress(0.5)
        decisions = reader.decisions(run=picked.number)
    chosen = _operator(picked, operator)
    contenders = _contenders(picked, policy or [], setting or [])
    goal = objective_of(picked.run).priced(price)
    judged = goal if objective is None else _within(text_or_file(objective).priced(price), picked)
    seen, made = _part(picked, observations, decisions, begin, end)
    with message_when_stopped("nothing is saved"), progress_bar("Replaying") as progress:
        found = replay_journal(
            seen, made, contenders, judged, recorded_objective=goal, operator=chosen, seed=seed, progress=progress
        )
    about = {
        "run": picked.number,
        "policy": picked.run.policy,
        "operator": chosen,
        "objective": str(judged),
        "seconds": found.job.recording.seconds - found.job.recording.lead_s,
    }
    with Outputs() as outputs:
        if report is not None and not outputs.write(write_replay_report, report, found, about, judged):
            report = None
        outputs.write(write_json, {**found.to_json(), "run": about}, json_file)
        if json_file != "-":
            _print(found, about, report)


def _operator(picked: JournalRun, name: str | None) -> str:
    operators = picked.run.operators
    if name is not None and name not in operators:
        raise UnknownNameError("operator", name, operators)
    if name is None and len(operators) > 1:
        raise InputError(
            f"the run has {len(operators)} operators; one at a time can be replayed, under the load that reached it: "
            f"say --operator with one of {', '.join(operators)}."
        )
    return name or operators[0]


def _contenders(picked: JournalRun, policies: Sequence[str], settings: Sequence[str]) -> dict[str, CandidatePolicy]:
    """The policies that are compared; the one that acted has the settings it had."""
    from headgate.lab.what_if import CandidatePolicy

    acted = picked.run.policy
    names = list(dict.fromkeys(policies or (acted, *DEFAULT_POLICIES)))
    given: dict[str, dict[str, object]] = {name: dict(picked.run.settings) if name == acted else {} for name in names}
    for item in settings:
        of, dot, rest = item.partition(".")
        key, equals, value = (part.strip() for part in rest.partition("="))
        if not (dot and key and equals):
            raise InputError(f"--set {item!r} is not understood; write --set POLICY.KEY=VALUE.")
        if of.strip() not in given:
            raise UnknownNameError("policy of --set", of.strip(), names)
        given[of.strip()][key] = value
    return {name: CandidatePolicy(name, given[name]) for name in names}


def _within(objective: Objective, picked: JournalRun) -> Objective:
    bounds = picked.run.bounds
    return objective if bounds is None else objective.within(*bounds)


def _part(
    picked: JournalRun,
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    begin: str | None,
    end: str | None,
) -> tuple[Sequence[Observation], Sequence[Decision]]:
    """What lies between two times of the run."""
    from_s = _instant("--from", begin, picked, float("-inf"))
    to_s = _instant("--to", end, picked, float("inf"))
    seen = [observation for observation in observations if from_s <= observation.at_s <= to_s]
    if len(seen) < 2:
        lasts = format_duration(observations[-1].at_s - picked.run.started_s) if observations else "0s"
        raise InputError(
            f"run {picked.number} has {len(seen)} observations in the requested part; at least 2 are needed, "
            f"and the run lasts {lasts}."
        )
    return seen, [decision for decision in decisions if from_s <= decision.at_s <= to_s]


def _instant(option: str, text: str | None, picked: JournalRun, otherwise: float) -> float:
    """A time after the start of the run, or by the clock."""
    if text is None:
        return otherwise
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return picked.run.started_s + duration_s(option, text)


# ------------------------------------------------------------------------------------------------------------ as text


def _print(found: JournalReplay, about: dict[str, Any], report: Path | None) -> None:

    from headgate.lab.replay_report import check_rows, found_rows, outcome_rows

    console = make_console()
    text = f" for {format_duration(about['seconds'])}, objective {about['objective']}"
    console.print(Text.assemble((f"run {about['run']}, {about['policy']}", "bold cyan"), text))
    for title, rows in (
        ("Found out about the job", found_rows(found.found)),
        ("Measured, and simulated with the recorded sizes", check_rows(found)),
        ("What each policy comes to under the recorded load", outcome_rows(found)),
    ):
        console.print(f"\n[bold]{title}[/bold]")
        print_table(rows, console)
    if report is not None:
        console.print(Text(f"\nreport: {report}", style="dim"), soft_wrap=True)
