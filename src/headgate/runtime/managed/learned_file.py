"""What was learned of a managed query, beside its checkpoint: a new driver need not begin with small batches again."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from headgate.engines.spark.query_plan import Plan
from headgate.runtime.managed.marker import write_whole
from headgate.runtime.managed.pauses import Pauses

logger = logging.getLogger("headgate")

FORMAT_VERSION = 1


class LearnedFile:
    """Keeps the limit of a batch that was in force last, and how long changes took."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint.with_name(f"{checkpoint.name}.headgate-learned.json")

    def read(self) -> tuple[int | None, Pauses]:
        """What is known; nothing where there is no file, or one that cannot be used, which is said."""
        try:
            body = json.loads(self.path.read_text(encoding="utf-8"))
            if body["version"] != FORMAT_VERSION:
                raise ValueError(f"it has version {body['version']}, not {FORMAT_VERSION}")
            cap = body["max_records_per_batch"]
            known = {name == "repartition": [float(each) for each in body["pauses_s"][name]] for name in _KINDS}
            return (None if cap is None else max(1, int(cap))), Pauses(known)
        except FileNotFoundError:
            return None, Pauses()
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s is not used: %s", self.path, error)
            return None, Pauses()

    def write(self, plan: Plan, pauses: Pauses) -> None:
        """Keep what is known now. It is no harm to have none: a full disk is only told."""
        body = {
            "version": FORMAT_VERSION,
            "max_records_per_batch": plan.max_records_per_batch,
            "pauses_s": {name: list(pauses.known_s(repartitions=name == "repartition")) for name in _KINDS},
        }
        try:
            write_whole(self.path, body)
        except OSError as error:
            logger.warning("what was learned of the query is not kept: %s", error)


_KINDS = ("restart", "repartition")
