"""A process for tests: says that it was started, and ends as its plan says, or when it is told to."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headgate.local.ending import ended_by_parent

if __name__ == "__main__":
    plan = json.loads(Path(sys.argv[1]).read_text())
    stop = ended_by_parent()
    with Path(plan["starts"]).open("a") as file:
        file.write("started\n")
    if not stop.wait(plan["lasts_s"]):
        sys.exit(plan["code"])
