"""Whether the clock can be right: against the files that are installed, and against a service that was named."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from headgate.local.checkup.finding import Finding, fine, odd, wrong

MOST_SKEW_S = 5.0
SLACK_S = 86400.0
_REMEDY = "set the clock, best by a time service: timedatectl set-ntp true"


def check_clock(
    now: Callable[[], float] = time.time, service_date: str | None = None, installed: Path = Path(__file__)
) -> Iterator[Finding]:
    at_s, made_s = now(), installed.stat().st_mtime
    told = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    if at_s < made_s - SLACK_S:
        made = datetime.fromtimestamp(made_s, UTC).strftime("%Y-%m-%d")
        yield wrong("clock", f"the clock says {told} UTC, but Headgate was installed on {made}.", _REMEDY)
        return
    yield fine("clock", f"the clock says {told} UTC.")
    if service_date is None:
        return
    try:
        skew_s = at_s - parsedate_to_datetime(service_date).timestamp()
    except (TypeError, ValueError):
        yield odd("clock", f"the service tells a time that is not understood: {service_date!r}.", _REMEDY)
        return
    if abs(skew_s) > MOST_SKEW_S:
        way = "ahead of" if skew_s > 0 else "behind"
        text = f"this clock is {abs(skew_s):.0f} s {way} the service's; agents tell ages, so that scaling goes on."
        yield odd("clock", text, _REMEDY)
    else:
        yield fine("clock", "it agrees with the service's.")
