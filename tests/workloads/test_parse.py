"""Workloads as people write them, and the messages for mistakes."""

import re

import pytest

from headgate.core.errors import InputError, UnknownNameError
from headgate.workloads.parse import WORKLOAD_EXAMPLES, parse_workload
from headgate.workloads.shapes import Constant, Gaussian, Periodic, Ramp, Sine, Spike


@pytest.mark.parametrize(
    ("spec", "workload"),
    [
        ("constant:10", Constant(10)),
        ("constant:rate=2.5", Constant(2.5)),
        (" Constant : 10 ", Constant(10)),
        ("periodic:base=10,peak=20,high=20s,low=40s", Periodic(10, 20, 20, 40)),
        ("periodic: low=40, high=20, peak=20, base=10", Periodic(10, 20, 20, 40)),
        ("sine:mean=50,amplitude=30,period=1h", Sine(50, 30, 3600)),
        ("gaussian:base=0,peak=100,center=30m,sigma=8m", Gaussian(0, 100, 1800, 480)),
        ("ramp:from=10,to=100,over=10m", Ramp(10, 100, 600)),
        ("spike:base=10,peak=70,at=300s,width=300s", Spike(10, 70, 300, 300)),
    ],
)
def test_a_specification_gives_its_shape(spec: str, workload: object) -> None:
    assert parse_workload(spec) == workload


@pytest.mark.parametrize(
    "example",
    [example for example in WORKLOAD_EXAMPLES if not example.endswith("PATH") and not example.startswith("trace")],
)
def test_the_examples_in_messages_are_valid(example: str) -> None:
    parse_workload(example)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "constnt:10",
            "unknown workload 'constnt', did you mean 'constant'? Known: clock, constant, csv, day, gaussian, ",
        ),
        ("", "unknown workload ''. Known: "),
        ("10", "unknown workload '10'. Known: "),
        (
            "sine:mean=50,amplitud=30,period=1h",
            "unknown key of workload sine 'amplitud', did you mean 'amplitude'? Known:",
        ),
        ("spike:base=10,peak=70,at=300s", "'spike:base=10,peak=70,at=300s' lacks width; write for example spike:base="),
        ("ramp:from=10", "'ramp:from=10' lacks to, over; write for example ramp:from=10,to=100,over=10m."),
        ("constant", "workload 'constant' says no more than its shape; write for example constant:10."),
        ("constant:", "workload 'constant:' says no more than its shape; write for example constant:10."),
        (
            "constant:ten",
            "workload 'constant:ten' is not usable: rate 'ten' is not a number; write for example 10 or 2.5.",
        ),
        ("constant:-5", "rate=-5 is not allowed; a rate must be finite and not negative."),
        ("constant:nan", "rate=nan is not allowed; a rate must be finite and not negative."),
        ("constant:1e308", "rate=1e+308 is not allowed; a rate is at most 1e+15 records per second."),
        ("constant:1 * 1e10 * 1e10", "a load times 1e+20 is not allowed; a factor is at most 1e+15."),
        ("constant:inf", "rate=inf is not allowed; a rate must be finite and not negative."),
        ("sine:mean=-1,amplitude=3,period=1h", "mean=-1 is not allowed; a rate must be finite and not negative."),
        ("sine:mean=1,amplitude=3,period=0s", "period=0s is not allowed; a duration must be finite and above 0."),
        ("sine:mean=1,amplitude=3,period=1x", "duration '1x' is not understood; write for example 90s, 5m, 2h"),
        ("sine:mean=1,amplitude=3,period=-1h", "duration '-1h' is not understood"),
        (
            "ramp:from=10,to=100,over",
            "has 'over', which is not key=value; write for example ramp:from=10,to=100,over=10m.",
        ),
        ("ramp:from=10,to=,over=5m", "has 'to=', which is not key=value"),
        ("ramp:from=10,from=20,to=30,over=5m", "gives from twice; once is allowed."),
        ("ramp:from=10,,to=30,over=5m", "has '', which is not key=value"),
        ("csv:", "workload 'csv:' names no file; write csv:PATH."),
        ("csv:no-such-file.csv", "workload file 'no-such-file.csv' cannot be read: no such file or directory."),
        ("csv:.", "workload file '.' cannot be read: is a directory."),
        ("trace:", "workload 'trace:' names no trace; write for example trace:wc98,peak=500,from=2h,lasting=10m."),
        ("trace:wc89", "unknown trace 'wc89', did you mean 'wc98'? Known: "),
        ("trace:wc98,peek=5", "unknown key of workload trace 'peek', did you mean 'peak'? Known: from, lasting, peak."),
        ("trace:wc98,peak=high", "rate 'high' is not a number; write for example 10 or 2.5."),
    ],
)
def test_a_wrong_specification_is_answered_in_one_sentence(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as raised:
        parse_workload(spec)
    assert "\n" not in str(raised.value)


def test_a_misspelt_name_differs_from_other_mistakes() -> None:
    with pytest.raises(UnknownNameError):
        parse_workload("gausian:base=0,peak=100,center=30m,sigma=8m")
