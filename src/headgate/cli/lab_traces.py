"""headgate lab traces"""

from __future__ import annotations

from headgate.cli.common import JsonOption, check_target, make_console, write_json
from headgate.core.units import format_duration

FORMAT_VERSION = 1


def traces(json_file: JsonOption = None) -> None:
    """List the public traces that trace:NAME knows, and where those can be had that are not at hand.

    They are looked for in the folder that HEADGATE_TRACES names, or in ../shared/data.

    [bold]Examples[/bold]
      [cyan]headgate lab traces[/cyan]
      [cyan]HEADGATE_TRACES=~/traces headgate lab traces --json traces.json[/cyan]
    """
    from rich.table import Table
    from rich.text import Text

    from headgate.workloads.trace_sources import how_to_get, known_traces

    check_target(json_file)
    known = known_traces()
    if json_file is not None:
        rows = [
            {
                "name": one.name,
                "what": one.source.what,
                "at_hand": one.is_at_hand,
                "span_s": one.span_s,
                "step_s": one.step_s,
                "records": one.records,
                "source": one.source.had_from,
                "file": f"{one.source.folder}/{one.source.file}",
            }
            for one in known
        ]
        write_json({"version": FORMAT_VERSION, "traces": rows}, json_file)
        return
    console = make_console()
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("name", no_wrap=True, style="cyan")
    for heading in ("span", "step", "records"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what")
    for one in known:
        told = ("not at hand", "", "")
        if one.span_s is not None and one.step_s is not None and one.records is not None:
            told = (format_duration(one.span_s), format_duration(one.step_s), f"{one.records:,.0f}")
        table.add_row(one.name, *told, one.source.what, style="" if one.is_at_hand else "dim")
    console.print(table)
    for source in dict.fromkeys(one.source for one in known if not one.is_at_hand):
        console.print(Text(f"\n{how_to_get(source)}"))
