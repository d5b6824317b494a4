"""A load as options: it stays the same both ways, and wrong options are refused."""

from __future__ import annotations

import math
import re

import pytest

from headgate.core.errors import InputError
from headgate.workloads.load import AS_FAST_AS_ACCEPTED, Load


@pytest.mark.parametrize(
    "load",
    [
        Load("constant:10", seconds=60.0),
        Load("sine:mean=50,amplitude=30,period=1h", "numbered", 0.25, 60.0, 7, 1.25, 3),
        Load("csv:a,b=c.csv", speed=AS_FAST_AS_ACCEPTED),
    ],
)
def test_options_read_back_as_the_same_load(load: Load) -> None:
    assert Load.from_options(load.options()) == load


@pytest.mark.parametrize(("speed", "due"), [(1.0, 5), (60.0, 300), (AS_FAST_AS_ACCEPTED, 600)])
def test_what_is_due_depends_on_the_speed(speed: float, due: int) -> None:
    load = Load("constant:10", seconds=60.0, speed=speed)
    assert (load.due_after(-1.0), load.due_after(0.5), load.due_after(1e6)) == (0, due, 600)
    assert load.lasting_s == (None if math.isinf(speed) else 60.0 / speed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a load needs the option workload; write for example constant:10."),
        ({"workload": "constant:10"}, "workload constant:10 has no end; give its length as seconds, such as 10m."),
        ({"workload": "constant:10", "speed": "quick"}, "speed 'quick' is not understood; 1 to 1000 are allowed"),
        ({"workload": "constant:10", "speed": "nan"}, "a speed of nan is not allowed; 1 to 1000 are, and max."),
        ({"workload": "constant:10", "keys": "-1"}, "keys '-1' is not allowed; it must be a whole number"),
        ({"workload": "constant:10", "skew": "much"}, "skew 'much' is not a number; write for example 0 or 1.2."),
        ({"workload": "constant:10", "seconds": "long"}, "duration 'long' is not understood"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Load.from_options(options).due_after(1.0)
