"""headgate report"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli import options
from headgate.cli.common import check_target, option


def report(
    journal: options.Journal,
    html: Annotated[Path, option("FILE", "Where to write the report.", "--html")],
    run: options.Run = None,
    job: options.JobOfJournal = None,
) -> None:
    """Write an HTML report of a run in a journal.

    The report has plots, figures, and every decision with its reason, in one file that needs no network. The journal
    may be in use.

    [bold]Example[/bold]
      [cyan]headgate report run.sqlite --html run.html[/cyan]
    """
    from headgate.journal.sqlite import SqliteJournal
    from headgate.render import explanation
    from headgate.render.page import require_plotly
    from headgate.render.report import write_report
    from headgate.runtime.counted import course_of
    from headgate.runtime.summary import summarise

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
    objective = explanation.objective_of(of_run)
    started = f", started {picked.when(of_run.started_s)}" if picked.is_live else ""
    settings = ", ".join(f"{name}={value}" for name, value in of_run.settings.items())
    of_job = f", job {of_run.job}" if picked.other_jobs else ""
    write_report(
        html,
        title=f"{of_run.policy} on {', '.join(of_run.operators)}",
        observations=observations,
        decisions=decisions,
        objective=objective,
        summary=summarise(course_of(observations, of_run.operators[0]), decisions, objective, of_run.operators[0]),
        receipts=receipts,
        events=events,
        notes=[
            f"Run {number} of journal {journal.name}{of_job}, engine {of_run.engine}{started}.",
            *([f"Settings: {settings}."] if settings else []),
            *facts,
        ],
    )
    typer.echo(f"report: {html}")
