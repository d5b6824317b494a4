"""Help texts that fit the terminal: paragraphs are refilled, and literal lines are wrapped with an indent.

Typer breaks a docstring's lines where the source does, and again where the terminal ends.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

from rich.markup import escape

_MARKUP = re.compile(r"(?<!\\)\[/?[a-z ]+\]")
_OPTION = re.compile(r"(--[a-z-]+) (?!-)(\S)")
_DEEPER = 4
NARROW = 76
"""Columns below which names, values and what they mean do not fit next to each other in whole words."""
ON = "\\"
"""At the end of a line: the command goes on."""


def flowing(text: str, width: int) -> str:
    """A help text for a terminal of so many columns.

    >>> print(flowing("Adds up.\\n\\nAll that\\nis there:\\n  one and two and three", 18))
    Adds up.
    <BLANKLINE>
    All that is there:
      one and two
          and three
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(_flowing(paragraph, width) for paragraph in paragraphs)


def _flowing(paragraph: str, width: int) -> str:
    lines: list[str] = []
    for line in paragraph.split("\n"):
        stands_alone = line.startswith((" ", "[bold]"))
        if lines and _is_continued(lines[-1]):
            lines[-1] = f"{lines[-1].rstrip(' ' + ON)} {line.strip()}"
        elif lines and not stands_alone and not lines[-1].startswith((" ", "[bold]")):
            lines[-1] = f"{lines[-1]} {line}"
        else:
            lines.append(line)
    return "\n".join(_broken(line, width) if line.startswith(" ") else line for line in lines)


def _is_continued(line: str) -> bool:
    """Whether a command is broken in the source."""
    return "[cyan]" in line and "[/cyan]" not in line


def _broken(line: str, width: int) -> str:
    """A line that stands for itself, in several if it must be; a command can still be copied from them."""
    if len(_MARKUP.sub("", line)) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    end = f" {ON}" if "[cyan]" in line else ""
    # An option and its value stay together. Tags take no room on the screen; a little less is used than there is.
    parts = textwrap.wrap(
        _OPTION.sub(r"\1\0\2", line.strip()),
        width - len(indent) - _DEEPER - len(end),
        break_long_words=False,
        break_on_hyphens=False,
    )
    broken = f"{end}\n".join(indent + (" " * _DEEPER if index else "") + part for index, part in enumerate(parts))
    return broken.replace("\0", " ")


def let_help_flow(command: Any, width: int) -> None:
    """Make the help of a command, and of all below it, fit."""
    if command.help:
        # Typer takes the indent from examples that all else below the first paragraph is, but for an empty line.
        command.help = flowing(command.help, width).replace("\n\n", "\n\n\n", 1)
    for parameter in command.params:
        _let_fit(parameter, width)
    usual = command.get_help_option

    def help_option(context: Any) -> Any:
        option = usual(context)
        if option is not None:
            _let_fit(option, width)
        return option

    command.get_help_option = help_option  # Typer creates the option at every access.
    for below in getattr(command, "commands", {}).values():
        let_help_flow(below, width)


def _let_fit(parameter: Any, width: int) -> None:
    """A flag has no value to tell of; in a narrow terminal, what a value is stands before what it means."""
    if getattr(parameter, "is_flag", False):
        parameter.metavar = ""
    elif width < NARROW and parameter.metavar and parameter.param_type_name == "option":
        value = escape(parameter.metavar.replace("|", " | "))
        parameter.help, parameter.metavar = f"{value}: {parameter.help}", ""
