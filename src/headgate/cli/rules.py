"""headgate rules"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import options
from headgate.cli.common import (
    STANDARD_OUTPUT,
    argument,
    check_target,
    counted,
    make_console,
    option,
    print_table,
    refused_document,
    say,
    write_json,
)
from headgate.cli.progress import progress_bar
from headgate.core.errors import InputError
from headgate.core.types import JSON

if TYPE_CHECKING:
    from headgate.lab.rules_trial import RecordedRun
    from headgate.rules import RulePolicy

SINGLE_OPERATOR = "job"
"""The name of the operator of a job that has only one."""

rules = typer.Typer(no_args_is_help=True, help="Check and show rule files.", rich_markup_mode="rich")

FileArgument = Annotated[Path, argument("FILE", "A rule file, YAML or JSON.")]
OperatorOption = Annotated[
    list[str] | None,
    option("NAME", "An operator of the job, may be repeated; rules for others are errors then.", "--operator"),
]


@rules.command()
def check(file: FileArgument, operator: OperatorOption = None, json_file: options.Json = None) -> None:
    """Say whether a rule file is valid, and everything that is wrong with it.

    Every error has its line and column; the exit code is 2 if there is one.

    [bold]Examples[/bold]
      [cyan]headgate rules check rules.yaml[/cyan]
      [cyan]headgate rules check rules.yaml --operator parse --operator enrich[/cyan]
    """
    from headgate.documents import DocumentError
    from headgate.rules.conflicts import overlaps

    _check_target(json_file, file)
    try:
        policy = _read(file, operator)
    except DocumentError as error:
        if json_file is None:
            raise
        write_json(refused_document(file, error), json_file)
        raise typer.Exit(2) from error
    warnings = [*overlaps(policy), *_unchecked(policy, operator)]
    if json_file is not None:
        write_json({"file": str(file), "valid": True, "errors": [], "warnings": warnings}, json_file)
        return
    say(f"{file} is valid: {counted(len(policy.rules), 'rule')} and {counted(len(policy.constraints), 'constraint')}.")
    for warning in warnings:
        say(f"note: {warning}")


def _unchecked(policy: RulePolicy, operators: list[str] | None) -> list[str]:
    """Return a note on operators that were not compared with those of a job."""
    of_rules, of_constraints = {rule.operator for rule in policy.rules}, {part.operator for part in policy.constraints}
    named = (of_rules | of_constraints) - {"*", SINGLE_OPERATOR}
    if operators or not named:
        return []
    return [
        f"whether there is an operator {', '.join(sorted(named))} is not checked; name those of the job by --operator "
        f"(a job of one is called {SINGLE_OPERATOR})."
    ]


@rules.command()
def show(
    file: FileArgument,
    operator: OperatorOption = None,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print the rules as YAML, every key in its place.")] = False,
    json_file: options.Json = None,
) -> None:
    """Tell in words what a rule file does; or print it as YAML, or as JSON.

    [bold]Examples[/bold]
      [cyan]headgate rules show rules.yaml[/cyan]
      [cyan]headgate rules show rules.yaml --json rules.json[/cyan]
    """
    from headgate.rules.document import to_plain
    from headgate.rules.explain import constraint_in_words, rule_in_words

    _check_target(json_file, file)
    policy = _read(file, operator)
    if json_file is not None:
        write_json(to_plain(policy), json_file)
    elif yaml:
        typer.echo(str(policy), nl=False)
    else:
        for sentence in (*map(rule_in_words, policy.rules), *map(constraint_in_words, policy.constraints)):
            say(sentence)


@rules.command(name="try")
def try_file(
    file: FileArgument,
    *,
    operator: OperatorOption = None,
    journal: Annotated[
        Path | None, option("FILE", "A journal; the rules are also tried under the load of a run in it.")
    ] = None,
    run: options.Run = None,
    job: options.JobOfJournal = None,
    json_file: options.Json = None,
) -> None:
    """Run rules on simulated worst cases and report ratchets, oscillation, rules that never act, missing dead bands.

    The job has a batch every 5 s; loads rise once, come in short peaks, swing, and stay constant at three levels, for
    four hours each. Where a scale-in rule holds again right after the smallest scale-out, another threshold is
    proposed. With --journal the rules are first run under the load of a recorded run, on a simulated job that is
    calibrated to it. Rules on metrics of your own are not tried.

    [bold]Examples[/bold]
      [cyan]headgate rules try rules.yaml[/cyan]
      [cyan]headgate rules try rules.yaml --journal run.sqlite[/cyan]
    """
    from headgate.lab.rules_trial import try_rules

    _check_target(json_file, file)
    if journal is None and (run is not None or job is not None):
        raise InputError(f"--{'job' if run is None else 'run'} names a run of a journal, and --journal is missing.")
    check_target(json_file, journal=journal)
    policy = _read(file, operator)
    recorded = None if journal is None else _recorded(journal, run, job)
    with progress_bar("Trying") as progress:
        trials = try_rules(policy, progress, recorded)
    if json_file is not None:
        found: list[dict[str, JSON]] = [
            {"operator": trial.operator, "runs": [run.row() for run in trial.runs], "findings": list(trial.findings)}
            for trial in trials
        ]
        write_json({"version": 1, "file": str(file), "operators": found}, json_file)
        return
    console = make_console()
    for trial in trials:
        say(f"{trial.operator}:")
        print_table([run.row() for run in trial.runs], console)
        for finding in trial.findings or ("nothing was found.",):
            say(finding)


@rules.command()
def schema(json_file: options.Json = None) -> None:
    """Print the JSON schema of rule files, for editors that complete and check by it.

    [bold]Example[/bold]
      [cyan]headgate rules schema --json rules.schema.json[/cyan]
    """
    from headgate.rules.document import json_schema

    write_json(json_schema(), json_file or STANDARD_OUTPUT)


def _recorded(journal: Path, run: int | None, job: str | None) -> RecordedRun:
    """Return a run of a journal to try rules on."""
    from headgate.journal.writer import SqliteJournal
    from headgate.lab.rules_trial import RecordedRun
    from headgate.lab.what_if import RecordedJob
    from headgate.render.explanation import objective_of, pick_run

    with closing(SqliteJournal.read(journal)) as reader:
        picked = pick_run(reader, run, job)
        observations, decisions = reader.observations(run=picked.number), reader.decisions(run=picked.number)
    objective = objective_of(picked.run)
    jobs = {name: RecordedJob.of(observations, decisions, objective, name) for name in picked.run.operators}
    return RecordedRun(f"recorded run {picked.number}", jobs, objective)


def _check_target(target: str | None, file: Path) -> None:
    check_target(target)
    if target not in (None, STANDARD_OUTPUT) and Path(str(target)).resolve() == file.resolve():
        raise InputError(f"{file} is the rule file; another file is needed to write to.")


def _read(file: Path, operators: list[str] | None) -> RulePolicy:
    from headgate.rules.document import Known
    from headgate.rules.rules_policy import read_rules

    return read_rules(file, Known(operators=operators or None))
