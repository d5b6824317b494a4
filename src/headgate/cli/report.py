"""headgate report"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.common import check_target
from headgate.cli.explain import SIMULATED_BEFORE_S, JournalArgument, RunOption, pick_run
from headgate.core.objective import parse_objective


def report(
    journal: JournalArgument,
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="Where to write the report.")],
    run: RunOption = None,
) -> None:
    """Write an HTML report of a run that is in a journal.

    It has plots, figures, and what was decided and why, in one file that needs no network. The journal may be one that
    is being written.

    [bold]Example[/bold]
      [cyan]headgate report run.sqlite --html run.html[/cyan]
    """
    from headgate.journal.sqlite import SqliteJournal
    from headgate.lab.report import require_plotly, write_report
    from headgate.runtime.counted import course_of
    from headgate.runtime.summary import summarise

    check_target(html, journal=journal)
    require_plotly()
    with closing(SqliteJournal.read(journal)) as reader:
        number, of_run = pick_run(reader, run)
        observations, decisions = reader.observations(run=number), reader.decisions(run=number)
        receipts, events = reader.receipts(run=number), reader.events(run=number)
    objective = parse_objective(of_run.objective)
    is_live = of_run.started_s >= SIMULATED_BEFORE_S
    started = f", started {datetime.fromtimestamp(of_run.started_s).astimezone():%Y-%m-%d %H:%M:%S}" if is_live else ""
    settings = ", ".join(f"{name}={value}" for name, value in of_run.settings.items())
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
            f"Run {number} of journal {journal.name}, engine {of_run.engine}{started}.",
            *([f"Settings: {settings}."] if settings else []),
        ],
    )
    typer.echo(f"report: {html}")
