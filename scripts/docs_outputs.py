"""Blocks of the documentation that are made by running something: outputs of commands, metrics, scenarios.

``<!-- output: COMMANDS -->`` asks for what the last of some commands prints, which are run one after the other in a
folder with nothing but the examples; ``;`` stands between them, and ``headgate`` before each is left out. They must
print the same each time.
``<!-- metrics -->`` is the table of metrics, ``<!-- exposition -->`` that of Prometheus' names, and
``<!-- scenarios: START -->`` that of the scenarios whose names begin so.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path

COLUMNS = 110
"""As wide as a page shows without a bar to scroll."""
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
OUTPUT = re.compile(r"<!-- output: (?P<commands>[^>]+) -->\n(?:.*?<!-- /output -->\n)?", re.DOTALL)
METRICS = re.compile(r"<!-- metrics -->\n(?:.*?<!-- /metrics -->\n)?", re.DOTALL)
EXPOSITION = re.compile(r"<!-- exposition -->\n(?:.*?<!-- /exposition -->\n)?", re.DOTALL)
SCENARIOS = re.compile(r"<!-- scenarios: (?P<start>[\w-]+) -->\n(?:.*?<!-- /scenarios -->\n)?", re.DOTALL)


def with_outputs(text: str) -> str:
    """A page with what commands print, and the tables, filled in anew."""
    text = OUTPUT.sub(lambda found: _output(found["commands"]), text)
    text = METRICS.sub(lambda _: _metrics(), text)
    text = EXPOSITION.sub(lambda _: _exposition(), text)
    return SCENARIOS.sub(lambda found: _scenarios(found["start"]), text)


def _output(commands: str) -> str:
    text = "\n".join(line.rstrip() for line in printed(commands).strip("\n").splitlines())
    return f"<!-- output: {commands} -->\n\n```\n{text}\n```\n\n<!-- /output -->\n"


def printed(commands: str) -> str:
    """What the last of some commands prints."""
    from typer.testing import CliRunner

    from headgate.cli.app import app

    here, output = Path.cwd(), ""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "examples").symlink_to(EXAMPLES)
        os.chdir(folder)
        try:
            for command in commands.split(";"):
                result = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": str(COLUMNS), "NO_COLOR": "1"})
                if result.exit_code != 0:
                    raise RuntimeError(f"headgate {command.strip()}: {result.output}")
                output = result.stdout
        finally:
            os.chdir(here)
    return output


def _metrics() -> str:
    from headgate.core.metrics import METRICS as KNOWN

    lines = ["| metric | in | what it is |", "| --- | --- | --- |"]
    for metric in KNOWN.values():
        wanted = " (for each executor; read only while a rule asks for it)" if metric.per_instance else ""
        lines.append(f"| `{metric.name}` | {metric.dimension} | {metric.help}{wanted} |")
    return "<!-- metrics -->\n\n" + "\n".join(lines) + "\n\n<!-- /metrics -->\n"


def _exposition() -> str:
    from headgate.runtime.exposition.families import FAMILIES, SERVICE_FAMILIES

    lines = ["| name | labels | what it is |", "| --- | --- | --- |"]
    for family in (*FAMILIES, *SERVICE_FAMILIES):
        of = " (of a service)" if family in SERVICE_FAMILIES else ""
        lines.append(f"| `{family.name}` | {', '.join(family.labels)} | {family.help}{of} |")
    return "<!-- exposition -->\n\n" + "\n".join(lines) + "\n\n<!-- /exposition -->\n"


def _scenarios(start: str) -> str:
    from headgate.lab.scenario import scenarios

    lines = ["| scenario | what it is |", "| --- | --- |"]
    lines += [
        f"| `{scenario.name}` | {scenario.summary} |" for scenario in scenarios() if scenario.name.startswith(start)
    ]
    return f"<!-- scenarios: {start} -->\n\n" + "\n".join(lines) + "\n\n<!-- /scenarios -->\n"
