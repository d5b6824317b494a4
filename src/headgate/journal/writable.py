"""Why a file cannot be written, asked of the system."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path


def problem_with_writing(path: Path) -> OSError | None:
    """What the system would say to whoever writes this file, or another beside it; ``None`` where it lets them.

    The file itself is not opened: whoever reads a pipe would notice, and SQLite would lose its locks.
    """
    if path.exists() and not os.access(path, os.W_OK):
        is_read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
        number = errno.EROFS if is_read_only else errno.EACCES
        return OSError(number, os.strerror(number), str(path))
    if path.exists() and not path.is_file():
        return None  # A device or a pipe is written as it is.
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        return error
    return None
