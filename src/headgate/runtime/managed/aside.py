"""A copy of a checkpoint beside it, by hard links, and putting it back.

Spark writes the files of a checkpoint once, under another name first, and never changes them afterwards; so a link to
each file is a copy, whatever size the state has.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from headgate.runtime.managed.marker import sync_folder


class Aside:
    """The copy of one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self.copy = checkpoint.with_name(f"{checkpoint.name}.headgate-before")
        self._failed = checkpoint.with_name(f"{checkpoint.name}.headgate-failed")

    def make(self) -> None:
        self.drop()
        shutil.copytree(self._checkpoint, self.copy, copy_function=os.link)
        sync_folder(self.copy.parent)

    def put_back(self) -> None:
        """Let the copy be the checkpoint. It may be done again after having been cut off anywhere."""
        if self.copy.exists():
            shutil.rmtree(self._failed, ignore_errors=True)
            if self._checkpoint.exists():
                self._checkpoint.rename(self._failed)
            self.copy.rename(self._checkpoint)
            sync_folder(self._checkpoint.parent)
        shutil.rmtree(self._failed, ignore_errors=True)

    def drop(self) -> None:
        shutil.rmtree(self.copy, ignore_errors=True)
