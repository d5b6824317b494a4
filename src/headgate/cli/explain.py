"""headgate explain and headgate report"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli import options
from headgate.cli.common import check_target, duration_s, option, write_json
from headgate.cli.progress import progress_bar
from headgate.core.errors import InputError


def explain(  # noqa: PLR0913 - one parameter per option
    *,
    journal: options.Journal,
    last: Annotated[int, option("N", "Explain the last N changes and stopped changes.", "--last", min=1)] = 20,
    run: options.Run = None,
    job: options.JobOfJournal = None,
    whole: Annotated[bool, typer.Option("--all", help="Explain the whole run.")] = False,
    shadows: Annotated[bool, typer.Option("--shadows", help="Show where shadow policies differed.")] = False,
    why_not: Annotated[
        int | None,
        option("N", "Answer why the size is not N, by the sizes that were compared.", "--why-not", min=0),
    ] = None,
    at: Annotated[
        str | None, option("DURATION", "With --why-not: in the decision so long after the start of the run.", "--at")
    ] = None,
    json_file: options.Json = None,
) -> None:
    """Explain what was decided, when, and why.

    The first lines compare what the objective requires with what was delivered, and show how much of the error budget
    is spent. Each change of size is listed with its reason, the numbers behind it, what each guard did and how the
    change turned out; so are changes that a guard stopped, and the holds in between. The journal may be in use, and may
    hold several jobs.

    [bold]Examples[/bold]
      [cyan]headgate simulate --workload constant:25 --service-rate 10 --seconds 10m --journal run.sqlite[/cyan]
      [cyan]headgate explain run.sqlite[/cyan]
      [cyan]headgate explain run.sqlite --last 3[/cyan]
      [cyan]headgate explain run.sqlite --run 1 --all --json story.json[/cyan]
      [cyan]headgate explain shared.sqlite --job enrich[/cyan]
      [cyan]headgate explain run.sqlite --shadows[/cyan]
      [cyan]headgate explain run.sqlite --why-not 2 --at 5m[/cyan]
    """
    from headgate.cli.run_view import print_explanation
    from headgate.lab.what_if import explain as explain_journal

    check_target(json_file, journal=journal)
    if at is not None and why_not is None:
        raise InputError("--at goes with --why-not: it names the decision that is explained.")
    explanation = explain_journal(
        journal,
        run=run,
        job=job,
        last=None if whole else last,
        shadows=shadows,
        why_not=why_not,
        at=None if at is None else duration_s("--at", at),
    )
    if json_file is not None:
        write_json(explanation.to_json(), json_file)
    else:
        print_explanation(explanation)


def report(
    journal: options.Journal,
    html: Annotated[Path, option("FILE", "Where to write the report.", "--html")],
    price: options.Price = None,
    run: options.Run = None,
    job: options.JobOfJournal = None,
) -> None:
    """Write an HTML report of a run in a journal.

    The report begins with the verdict: was the objective met, at what cost, which fixed size would have met it, and
    what limited it. It has plots, figures, and every decision with its reason, in one file that needs no network. The
    journal may be in use.

    [bold]Example[/bold]
      [cyan]headgate report run.sqlite --html run.html[/cyan]
    """
    from headgate.journal.writer import SqliteJournal
    from headgate.lab.what_if import fixed_sizes_of
    from headgate.render import explanation
    from headgate.render.page import require_plotly
    from headgate.render.report import write_report
    from headgate.runtime.summary import course_of, summarise

    check_target(html, journal=journal)
    require_plotly()
    with closing(SqliteJournal.read(journal)) as reader:
        picked = explanation.pick_run(reader, run, job)
        of_run, number = picked.run, picked.number
        observations, decisions = reader.observations(run=number), reader.decisions(run=number)
        receipts, events = reader.receipts(run=number), reader.events(run=number)
        facts = [
            *explanation.startups_in_words(explanation.startups_of(reader, of_run, observations)),
            *explanation.parts_in_words(picked, explanation.newest_parts(observations)),
            *explanation.thinned_in_words(picked, reader.thinned(run=number)),
        ]
    objective = explanation.objective_of(of_run).priced(price)
    started = f", started {picked.when(of_run.started_s)}" if picked.is_live else ""
    settings = ", ".join(f"{name}={value}" for name, value in of_run.settings.items())
    with progress_bar("Comparing with fixed sizes") as progress:
        fixed = fixed_sizes_of(observations, decisions, objective, of_run.operators, progress)
    write_report(
        html,
        title=of_run.job,
        observations=observations,
        decisions=decisions,
        objective=objective,
        summary=summarise(course_of(observations, of_run.operators[0]), decisions, objective, of_run.operators[0]),
        receipts=receipts,
        events=events,
        fixed=fixed,
        journal=str(journal),
        notes=[
            f"Run {number} of journal {journal.name}, engine {of_run.engine}, policy {of_run.policy}{started}.",
            *([f"Settings: {settings}."] if settings else []),
            *facts,
        ],
    )
    typer.echo(f"report: {html}")
