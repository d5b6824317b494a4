"""Writing results to files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from headgate.core.errors import OutputError, cause_of

ODD = "replace"
"""How file names that are not valid UTF-8 are written."""


def write_file(path: Path, text: str) -> None:
    """Write all of the text or nothing: readers never see half a file, and a failure keeps the old one."""
    path = path.resolve()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", errors=ODD)  # A device or a pipe: not to be replaced by a file.
            return
        part.write_text(text, encoding="utf-8", errors=ODD)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written: {cause_of(error)}.") from error
