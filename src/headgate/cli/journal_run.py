"""The options that pick a run of a journal, for the commands that read one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JournalArgument = Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal's file.", show_default=False)]
RunOption = Annotated[
    int | None,
    typer.Option("--run", metavar="NUMBER", help="Which run; the newest where not given.", show_default=False),
]
JobOption = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="NAME",
        help="Which job, in a journal of several; the one that began a run last where not given.",
        show_default=False,
    ),
]
