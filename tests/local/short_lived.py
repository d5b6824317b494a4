"""A process for tests that notes its start and ends as its plan says, or on SIGTERM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headgate.local.supervisor import stop_event

if __name__ == "__main__":
    plan = json.loads(Path(sys.argv[1]).read_text())
    stop = stop_event()
    with Path(plan["starts"]).open("a") as file:
        file.write("started\n")
    if not stop.wait(plan["lasts_s"]):
        sys.exit(plan["code"])
