"""What a checkpoint folder on this machine says of its query: which batches were planned and committed, how many state
partitions there are, and whether a change of their number was left half done.

Spark plans a batch by a file in ``offsets`` and ends it by one of the same number in ``commits``. Repartitioning the
state is a batch of its own, which reads nothing, and whose plan names another number of partitions than that before it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from headgate.core.errors import StateError

PARTITIONS_KEY = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint folder of one query; it need not exist yet."""

    path: Path

    @property
    def last_planned(self) -> int | None:
        """The number of the newest batch that was planned."""
        return _newest(self.path / "offsets")

    @property
    def last_committed(self) -> int | None:
        return _newest(self.path / "commits")

    @property
    def is_settled(self) -> bool:
        """Whether no batch is left half done."""
        return self.last_planned == self.last_committed

    @property
    def state_partitions(self) -> int | None:
        """Over how many partitions the newest batch that was planned spreads state; ``None`` before there is one."""
        newest = self.last_planned
        return None if newest is None else self._partitions_of(newest)

    @property
    def half_repartitioned(self) -> int | None:
        """How many partitions there were to be, if a change of their number was left half done."""
        planned, committed = self.last_planned, self.last_committed
        if planned is None or committed is None or planned != committed + 1:
            return None
        wanted = self._partitions_of(planned)
        return wanted if wanted != self._partitions_of(committed) else None

    def _partitions_of(self, batch: int) -> int | None:
        """The number of state partitions by the plan of a batch; its second line is the metadata."""
        file = self.path / "offsets" / str(batch)
        try:
            _, metadata, *_ = file.read_text(encoding="utf-8").splitlines()
            found = json.loads(metadata)["conf"].get(PARTITIONS_KEY)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(f"{file} is no plan of a batch as Spark writes it: {error}.") from error
        return None if found is None else int(found)


def local_path(checkpoint: str | Path) -> Path | None:
    """The folder of a checkpoint on this machine; ``None`` where it lies elsewhere, as ``s3a://…``."""
    parts = urlparse(str(checkpoint))
    if parts.scheme in ("", "file"):
        return Path(unquote(parts.path) if parts.scheme else str(checkpoint))
    return None


def _newest(folder: Path) -> int | None:
    """The highest number that a file of a log has for a name."""
    if not folder.is_dir():
        return None
    return max((int(file.name) for file in folder.iterdir() if file.name.isdigit()), default=None)
