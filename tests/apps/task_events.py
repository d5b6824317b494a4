"""A small cluster whose tasks start, change, end, are killed without word of their machine, and start again."""

from __future__ import annotations

import json

import numpy as np

MACHINES = 12
HOURS = 2


def task_events(tasks: int = 150, seed: int = 3) -> list[bytes]:
    """Events in the order of time, as records; some of each kind that the trace knows."""
    random = np.random.default_rng(seed)
    events = []
    for task in range(tasks):
        # A third was there before the trace began.
        time_us = 0 if task % 3 == 0 else int(random.integers(600, 3600 * HOURS) * 1_000_000)
        needs = {name: round(float(random.random()) / 10, 4) for name in ("cpu", "memory", "disk")}
        if task % 7 == 0:  # Some do not say what they need.
            needs = {}
        for _ in range(int(random.integers(1, 4))):
            machine = int(random.integers(MACHINES))
            life = {"job": task // 10, "task": task % 10}
            events.append({"trace_us": time_us, "event": 0, **life, **needs})
            events.append({"trace_us": time_us, "event": 1, "machine": machine, **life, **needs})
            time_us = max(time_us, 600_000_000) + int(random.integers(1, 1800 * 1_000_000))
            if random.random() < 0.3:
                needs = {name: value * 2 for name, value in needs.items()}
                events.append({"trace_us": time_us, "event": 8, "machine": machine, **life, **needs})
                time_us += 5
            place = {} if random.random() < 0.3 else {"machine": machine}
            events.append({"trace_us": time_us, "event": int(random.integers(2, 7)), **place, **life, **needs})
            time_us += 3
    events.sort(key=lambda event: event["trace_us"])
    return [
        json.dumps({"number": number, "at_ms": 1_700_000_000_000 + number, **event}).encode()
        for number, event in enumerate(events)
    ]
