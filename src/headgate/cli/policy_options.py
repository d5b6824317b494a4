"""The options of every command that lets a policy decide: which one, with which settings, and what stands beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.core.plugins import DEFAULT_POLICY

PolicyOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Who decides; headgate policies lists them.", show_default=DEFAULT_POLICY),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the policy; may be repeated.", show_default=False),
]
GuardOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A setting of the guards; may be repeated.", show_default=False),
]
SettingsFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A policy with its settings and guards, as headgate lab tune writes them.",
        show_default=False,
    ),
]
RulesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A rule file that decides instead of a policy.", show_default=False),
]
ConstraintsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A rule file of constraints, for any policy.", show_default=False),
]
ShadowOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A policy that decides too and never acts; may be repeated.", show_default=False),
]
