"""The ranks of a lab run, for headgate lab run league and headgate lab results --rank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli.common import make_console, write_json
from headgate.cli.outputs import Outputs

if TYPE_CHECKING:
    from headgate.lab.experiments.results import Results
    from headgate.lab.scenario import Outcome


def show_ranks(found: Results, report: Path | None, json_file: str | None) -> None:
    """Write what is asked for, and print the ranks unless the JSON goes where they would."""
    from headgate.lab.scenario import Scenario
    from headgate.lab.scenario_report import write_scenario_report
    from headgate.research.league.report import league_outcome

    outcome = league_outcome(found)
    summary = f"{found.done:,} simulated runs: policies ranked by cost at a kept objective."
    page = Scenario(found.name, summary, lambda _: outcome)
    with Outputs() as outputs:
        if report is not None:
            outputs.write(write_scenario_report, report, page, outcome)
        if json_file is not None:
            outputs.write(write_json, page.to_json(outcome), json_file)
        if json_file != "-":
            _print(outcome)


def _print(outcome: Outcome) -> None:
    from rich.text import Text

    from headgate.cli.tables import print_table

    console = make_console()
    print_table(outcome.rows, console)
    for note in outcome.notes:
        console.print(Text(f"\n{note}", style="dim"))
